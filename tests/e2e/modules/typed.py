"""An execution module that says what it takes, which risk it carries, and that it has a dry run."""

from __future__ import annotations

from typing import Any

__risk__ = {"drop": "remove"}


def echo(text: str, times: int = 1) -> list[str]:
    """The text so many times, as it arrived.

    CLI Example::

        saltlite '*' typed.echo 1.10 times=2
    """
    return [text] * times


def kind(value: Any) -> str:
    """The type of the value.

    CLI Example::

        saltlite '*' typed.kind 1.10
    """
    return type(value).__name__


def drop(name: str) -> str:
    """What would be dangerous, were it real.

    CLI Example::

        saltlite '*' typed.drop everything
    """
    return f"dropped {name}"


def change(name: str, test: bool = False) -> str:
    """What it does, or would do.

    CLI Example::

        saltlite '*' typed.change web --test
    """
    return f"{'would change' if test else 'changed'} {name}"
