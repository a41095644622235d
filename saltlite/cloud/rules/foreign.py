"""What may not be said of a machine by somebody who has no shell on this host: who asks by a runner, or the API.

Settings of machines can name files of this host, which would be read, uploaded or written, and options of ssh, which
can be commands. Who writes the configuration may; who only fills in a profile may not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from saltlite.model.redaction import KEY_FILES

_ENDS = ("file", "files", "filename", "filenames", "path", "paths", "dir", "dirs", "folder", "folders", "file_map")
"""Ends of the names of settings whose value is a place on this host."""
_OTHERS = frozenset({*KEY_FILES, "ssh_known_hosts", "ssh_options", "ssh_agent"})
_THERE = frozenset({"install_dir", "minion_dir", "tmp_dir", "python"})
"""Places on the machine, which is theirs."""
_FOR_THE_MACHINE = frozenset({"grains", "inline_script", "minion", "preflight_cmds", "script_args", "script_env"})
"""What the machine gets and nobody here looks into."""


def of_this_host(settings: Mapping[str, object]) -> list[str]:
    """The settings that are about this host, at any depth: by their names, and by values that are paths."""
    return sorted(set(_found(settings)))


def _found(settings: Mapping[str, object]) -> Iterator[str]:
    for key, value in settings.items():
        name = str(key)
        if name in _THERE or name in _FOR_THE_MACHINE:
            continue
        if name in _OTHERS or name.lower().endswith(_ENDS) or (name == "script" and "/" in str(value)):
            yield name
        else:
            yield from _in_value(name, value)


def _in_value(name: str, value: object) -> Iterator[str]:
    if isinstance(value, Mapping):
        yield from _found({str(key): each for key, each in value.items()})
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _in_value(name, each)
    elif isinstance(value, str) and value.startswith(("/", "~", "./", "../")):
        yield name
