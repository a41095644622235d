"""`service` beside a stand-in of systemctl: what it asks for, and what it makes of answers. One file a case.

fun, args, kwargs   the call, with the configuration `opts`
answers             [pattern of the command line, return code, output, error output]; the first that fits answers,
                    and what none fits succeeds without a word
value, retcode      what comes back
asked               the command lines, where they matter
"""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path
from typing import Any

import pytest

from saltlite.loader.call import call
from saltlite.loader.index import build_index
from saltlite.loader.loader import Loader
from saltlite.loader.search_path import search_layers
from saltlite.plugins.modules import _services

INDEX = build_index(search_layers({}))
GRAINS = {"kernel": "Linux", "os": "Fedora", "os_family": "RedHat", "osrelease": "40", "init": "systemd"}
CASES = sorted((Path(__file__).parents[1] / "data/services/systemd").glob("*.json"))


def stand_in(answers: list[tuple[str, int, str, str]], asked: Path) -> str:
    """A program that writes its command line down and answers from the list; `systemd-run` runs what it is given."""
    lines = ["#!/bin/sh", 'line="${0##*/} $*"', f'printf "%s\\n" "$line" >>{asked}', 'case "$line" in']
    lines.append('systemd-run*) while [ "$1" != systemctl ]; do shift; done; line="$*" ;;')
    lines += ["esac", 'case "$line" in']
    for pattern, retcode, out, err in answers:
        fitting = "*".join(shlex.quote(part) if part else "" for part in pattern.split("*"))
        lines.append(f"{fitting}) printf %s {shlex.quote(out)}; printf %s {shlex.quote(err)} >&2; exit {retcode} ;;")
    return "\n".join([*lines, "esac", ""])


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_systemctl_is_asked_and_understood(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case: dict[str, Any] = json.loads(path.read_text())
    asked, programs = tmp_path / "asked", tmp_path / "bin"
    programs.mkdir()
    for name in ("systemctl", "systemd-run"):
        (programs / name).write_text(stand_in(case["answers"], asked))
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setattr(_services, "BOOTED", str(tmp_path))
    loader = Loader(INDEX, {"smi_returns": "strict", **case.get("opts", {})}, GRAINS, {})
    outcome = call(loader, case["fun"], case["args"], case.get("kwargs", {}))
    assert (outcome.value, outcome.retcode) == (case["value"], case.get("retcode", 0))
    if "asked" in case:
        assert asked.read_text().splitlines() == case["asked"]


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("sshd", "sshd.service"),
        ("sshd.service", "sshd.service"),
        ("ssh.socket", "ssh.socket"),
        ("foo.bar", "foo.bar.service"),
        ("getty@tty1", "getty@tty1.service"),
        ("dev-disk-by\\x2duuid.swap", "dev-disk-by\\x2duuid.swap"),
    ],
)
def test_units_without_a_type_are_services(name: str, unit: str) -> None:
    assert _services.unit(name) == unit


def test_the_unit_of_a_process_is_that_of_its_control_group(tmp_path: Path) -> None:
    group = tmp_path / "cgroup"
    group.write_text("4:memory:/system.slice/own.service\n0::/system.slice/own.service/part\n")
    assert _services.own_unit(str(group)) == "own.service"
    group.write_text("0::/user.slice/session-4.scope\n")
    assert _services.own_unit(str(group)) == ""
    assert _services.own_unit(str(tmp_path / "none")) == ""
