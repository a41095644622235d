"""Machines out of text files: what `/proc`, `/etc` and programs said somewhere, and what a function makes of it.

A file is made of sections, each with a head:

    === call status.loadavg ARGUMENT...      the call, its arguments in JSON
    === grains {...}                         grains of the machine, in JSON
    === file /proc/loadavg                   a file of the machine; its text stands below
    === words /proc/1/cmdline ["init"]       a file of words, each with a NUL at its end
    === link /etc/localtime TARGET           a symbolic link
    === folder /run/systemd/system           an empty folder
    === program ["df", "-P"]                 a program with its arguments; below it what it prints
    === returns                              below it the answer, in JSON
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from saltlite.errors import CommandNotFoundError
from saltlite.loader.call import Outcome, call
from saltlite.loader.index import build_index
from saltlite.loader.loader import Loader
from saltlite.loader.search_path import search_layers
from saltlite.plugins.modules import _machinefiles, _programs

INDEX = build_index(search_layers({}))


@dataclass(slots=True)
class Machine:
    """A machine in a folder, and the programs that it has."""

    root: Path
    grains: dict[str, Any] = field(default_factory=dict)
    programs: dict[tuple[str, ...], str | _programs.Ended] = field(default_factory=dict)
    ran: list[list[str]] = field(default_factory=list)

    def write(self, path: str, text: str = "") -> Path:
        """A file below the root."""
        place = self.root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(text.encode("utf-8", "surrogateescape"))
        return place

    def read(self, path: str) -> str:
        return (self.root / path.lstrip("/")).read_text("utf-8", "surrogateescape")

    def outcome(self, fun: str, *args: Any, **kwargs: Any) -> Outcome:
        """Call as a job does."""
        opts = {"cachedir": "/cache"}
        return call(Loader(INDEX, opts, self.grains, {}), fun, args, kwargs)

    def __call__(self, fun: str, *args: Any, **kwargs: Any) -> Any:
        outcome = self.outcome(fun, *args, **kwargs)
        assert outcome.retcode == 0, outcome.value
        return outcome.value

    def run(self, argv: Sequence[str], *, stdin: str | None = None, timeout_s: float | None = None) -> _programs.Ended:
        """Stands for `_programs.run`."""
        self.ran.append(list(argv))
        known = self.programs.get(tuple(argv))
        if known is None:
            raise CommandNotFoundError(argv[0])
        return known if not isinstance(known, str) else _programs.Ended(argv[0], 0, known, "")

    def find(self, name: str) -> str | None:
        """Stands for `_programs.find`."""
        return f"/usr/bin/{name}" if any(argv[0] == name for argv in self.programs) else None


def machine_in(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """An empty machine that the modules of this process see."""
    machine = Machine(folder)
    monkeypatch.setattr(_machinefiles, "ROOT", str(folder))
    monkeypatch.setattr(_programs, "run", machine.run)
    monkeypatch.setattr(_programs, "find", machine.find)
    return machine


@dataclass(frozen=True, slots=True)
class Recorded:
    """A call and its answer."""

    fun: str
    args: list[Any]
    returns: Any


def play(path: Path, machine: Machine) -> Recorded:
    """Make the machine of a file; the call of the file, not yet made."""
    fun, args, returns = "", [], None
    for head, rest, body in sections(path.read_text("utf-8")):
        match head:
            case "call":
                fun, _, text = rest.partition(" ")
                args = _values(text)
            case "grains":
                machine.grains.update(json.loads(rest))
            case "file":
                machine.write(rest, body)
            case "words":
                where, _, words = rest.partition(" ")
                machine.write(where, "".join(f"{word}\0" for word in json.loads(words)))
            case "link":
                where, _, target = rest.partition(" ")
                place = machine.root / where.lstrip("/")
                place.parent.mkdir(parents=True, exist_ok=True)
                place.symlink_to(target)
            case "folder":
                (machine.root / rest.lstrip("/")).mkdir(parents=True, exist_ok=True)
            case "program":
                machine.programs[tuple(json.loads(rest))] = body
            case "returns":
                returns = json.loads(body)
            case _:
                raise AssertionError(f"{path.name}: there are no sections {head!r}")
    return Recorded(fun, args, returns)


def sections(text: str) -> list[tuple[str, str, str]]:
    """Kind, rest of the head, and text of each section."""
    parts = re.split(r"^=== (\w+)(?: (.*))?\n", text, flags=re.MULTILINE)
    return list(zip(parts[1::3], (part or "" for part in parts[2::3]), parts[3::3], strict=True))


def _values(text: str) -> list[Any]:
    """JSON values one behind the other."""
    decoder, values, text = json.JSONDecoder(), [], text.strip()
    while text:
        value, end = decoder.raw_decode(text)
        values.append(value)
        text = text[end:].strip()
    return values
