"""The file server for users: lists of what it serves, and the staging areas of `saltlite cp`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from saltlite.auth.acl import RUNNER, Principal, may
from saltlite.errors import RefusedError, UsageError
from saltlite.files.server import CopyAreas
from saltlite.master.processes.context import Answer, Master
from saltlite.model.files import is_area, parse_env, parse_path
from saltlite.model.ids import parse_jid
from saltlite.wire.limits import MIB

NAMES_MAX = 10_000
"""Names in one answer."""
BYTES_MAX = 8 * MIB
"""Bytes of names and link targets that complete an answer."""

_RIGHTS = {
    "envs": ("fileserver.envs",),
    "files": ("fileserver.file_list", "fileserver.empty_dir_list"),
    "folders": ("fileserver.dir_list", "fileserver.empty_dir_list"),
    "links": ("fileserver.symlink_list",),
}
"""Operation -> runners of which a user needs one."""


def handle_file_list(master: Master, principal: Principal, request: Mapping[str, Any]) -> Answer:
    """Answers `names`: name -> "", or for `links` their targets; and `more`: the client asks for those after the last
    (`after`).

    `operation` is envs, files, folders or links; `env` is the environment of the latter three, and an unknown one is
    empty. Staging areas of `saltlite cp` are never listed.
    """
    operation = request["operation"]
    if operation not in _RIGHTS:
        raise UsageError(f"the file server lists {', '.join(_RIGHTS)}, not {operation[:40]!r}")
    if not may(principal, RUNNER, _RIGHTS[operation], master.config):
        raise RefusedError(
            f"{principal} may not list {operation} of the file server: that takes @runner {_RIGHTS[operation][0]}"
        )
    after = parse_path(request.get("after", ""))
    listed = {
        name: target for name, target in _listed(master, operation, request.get("env", "")).items() if name > after
    }
    names: dict[str, str] = {}
    size = 0
    for name, target in listed.items():
        size += len(name.encode()) + len(target.encode())
        if names and (len(names) >= NAMES_MAX or size > BYTES_MAX):
            break
        names[name] = target
    return Answer({"names": names, "more": len(names) < len(listed)})


def _listed(master: Master, operation: str, env: str) -> Mapping[str, str]:
    if operation == "envs":
        return dict.fromkeys(master.files.envs(), "")
    if is_area(parse_env(env)):
        return {}
    if operation == "links":
        return master.files.links(env)
    return dict.fromkeys(master.files.names(env, "", folders=operation == "folders"), "")


# -- saltlite cp


PIECE_MAX = 16 * MIB
"""Bytes of one piece of a file."""


def handle_copy_begin(master: Master, _principal: Principal, _request: Mapping[str, Any]) -> Answer:
    """Answers `area`: the environment of the file server for the files."""
    return Answer({"area": _areas(master).begin(master.clock.entropy)})


def handle_copy_put(master: Master, _principal: Principal, request: Mapping[str, Any]) -> Answer:
    """Write one piece of a file of an area at its offset; `mode` are the permission bits."""
    areas = _areas(master)
    areas.put(request["area"], request["path"], request["offset"], request["data"], request["mode"])
    return Answer()


def handle_copy_end(master: Master, _principal: Principal, request: Mapping[str, Any]) -> Answer:
    """The client no longer waits for the job: remove its files, unless a minion may still fetch them.

    Answers `removed`; maintenance removes the rest a day later. The jid is "" if no job was published.
    """
    areas = _areas(master)
    done = not request["jid"] or master.store.open_targets(parse_jid(request["jid"])) == 0
    if done:
        areas.end(request["area"])
    return Answer({"removed": done})


def _areas(master: Master) -> CopyAreas:
    return CopyAreas(master.config.copies_dir, master.shared_areas)
