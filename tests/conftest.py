"""What every test run knows, whichever folder it starts from."""

from __future__ import annotations

import signal

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite-golden", action="store_true", help="write golden files instead of comparing")


def pytest_configure(config: pytest.Config) -> None:
    # A run that was started in the background ignores SIGINT, and hands that on to every command that it tests.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
