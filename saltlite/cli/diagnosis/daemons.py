"""Which daemons of saltlite are on this machine, and by what signs: configuration, keys, a running process."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from saltlite.cli.configs import is_configured
from saltlite.config.load import Loaded, load_api, load_master, load_minion
from saltlite.config.paths import DEFAULT_CONFIG_DIR
from saltlite.errors import ConfigError

DAEMONS = ("master", "minion", "api")
"""In the order in which `doctor` looks at them."""

CMDLINE_MAX = 4096
"""Bytes of a command line that are read; the words of a daemon are far fewer."""


class Running(NamedTuple):
    """The first process of a daemon, and the configuration folder that it was started with."""

    pid: int
    config_dir: str


class Signs(NamedTuple):
    """What there is of one daemon. With neither signs nor processes it is not on this machine."""

    daemon: str
    here: tuple[str, ...]
    """What belongs to the folder that is looked at, in words: `a configuration`, `keys`, `process 123`."""
    elsewhere: tuple[Running, ...]
    """Processes with another folder."""


def find_daemons(config_dir: str) -> list[Signs]:
    """The signs of each daemon."""
    return [_signs(config_dir, daemon) for daemon in DAEMONS]


def pid_of(daemon: str, config_dir: str) -> int | None:
    """The process of a daemon that was started with this folder; None where none can be seen."""
    return next((one.pid for one in running(daemon) if _same(one.config_dir, config_dir)), None)


def running(daemon: str) -> Sequence[Running]:
    """The processes of `saltlite-<daemon>` on this machine, those of its containers left out."""
    found = dict(_processes(f"saltlite-{daemon}"))
    return [Running(pid, where) for pid, where in sorted(found.items()) if _parent(pid) not in found]


def _signs(config_dir: str, daemon: str) -> Signs:
    processes = running(daemon)
    mine = [one for one in processes if _same(one.config_dir, config_dir)]
    here = [
        *(["a configuration"] if is_configured(config_dir, daemon) else []),
        *(["keys"] if _has_keys(_pki_dir(config_dir, daemon)) else []),
        *(f"process {one.pid}" for one in mine),
    ]
    return Signs(daemon, tuple(here), tuple(one for one in processes if one not in mine))


def _pki_dir(config_dir: str, daemon: str) -> str:
    """Where the keys of a daemon are; below the folder that is looked at, where no configuration says."""
    load: Mapping[str, Callable[[str], Loaded[Any]]] = {"master": load_master, "minion": load_minion, "api": load_api}
    try:
        return str(load[daemon](config_dir).config.pki_dir)
    except ConfigError:
        return os.path.join(config_dir, "pki", daemon)


def _has_keys(folder: str) -> bool:
    """Whether there is anything in the folder; a folder that this user may not look into counts."""
    try:
        return bool(os.listdir(folder))
    except PermissionError:
        return True
    except OSError:
        return False


def _processes(program: str) -> Iterator[tuple[int, str]]:
    """(pid, configuration folder) of every process that runs a program, its children included."""
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/cmdline", "rb") as file:
                words = file.read(CMDLINE_MAX).decode(errors="replace").split("\0")[:-1]
        except OSError:
            continue
        behind = _options_of(words, program)
        if behind is not None and _is_of_this_machine(name):
            yield int(name), os.path.join(_working_folder(name), _config_dir(behind))


def _options_of(words: Sequence[str], program: str) -> Sequence[str] | None:
    """The words behind the program, which Python may stand in front of; None for another program."""
    if not words:
        return None
    index = _index_of_program(words) if os.path.basename(words[0]).startswith("python") else 0
    module = program.replace("-", "_")
    name = os.path.basename(words[index]) if index < len(words) else ""
    return words[index + 1 :] if name in (program, f"{module}.py", module) else None


def _index_of_program(words: Sequence[str]) -> int:
    """Where the script or the module stands that Python runs."""
    index = 1
    while index < len(words) and words[index].startswith("-"):
        index += 1
        if words[index - 1] == "-m":
            break
    return index


def _config_dir(words: Sequence[str]) -> str:
    """The folder that a daemon's command line names; relative as it was written."""
    for index, word in enumerate(words):
        if word in ("-c", "--config-dir") and index + 1 < len(words):
            return words[index + 1]
        if word.startswith("--config-dir="):
            return word.removeprefix("--config-dir=")
        if word.startswith("-c") and len(word) > len("-c"):
            return word.removeprefix("-c")
    return DEFAULT_CONFIG_DIR


def _working_folder(pid: str) -> str:
    try:
        return os.readlink(f"/proc/{pid}/cwd")
    except OSError:
        return "/"  # another user's; a service is started there


def _is_of_this_machine(pid: str) -> bool:
    """Whether a process has the root folder of this one; one that may not be looked at counts."""
    try:
        return os.path.samestat(os.stat(f"/proc/{pid}/root"), os.stat("/"))
    except OSError:
        return True


def _parent(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            text = file.read()
    except OSError:
        return 0
    return int(text[text.rindex(")") + 1 :].split()[1])


def _same(one: str, other: str) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)
