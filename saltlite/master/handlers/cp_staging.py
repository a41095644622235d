"""`saltlite cp`: take the files of an operator, for a job that fetches them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from saltlite.auth.acl import Action, Principal, authorize
from saltlite.files.cp_staging import CopyAreas
from saltlite.master.processes.context import Answer, Master
from saltlite.model.ids import parse_jid
from saltlite.wire.limits import MIB

PIECE_MAX = 16 * MIB
"""Bytes of one piece of a file."""


def handle_copy_begin(master: Master, principal: Principal, _request: Mapping[str, Any]) -> Answer:
    """Answers `area`: the environment of the file server that the files go to."""
    return Answer({"area": _areas(master, principal, "copy_begin").begin(master.clock.entropy)})


def handle_copy_put(master: Master, principal: Principal, request: Mapping[str, Any]) -> Answer:
    """One piece of a file of an area, at its offset; `mode` are the permission bits."""
    areas = _areas(master, principal, "copy_put")
    areas.put(request["area"], request["path"], request["offset"], request["data"], request["mode"])
    return Answer()


def handle_copy_end(master: Master, principal: Principal, request: Mapping[str, Any]) -> Answer:
    """Nobody waits for the job any more: remove its files, unless a minion may still come for them.

    Answers `removed`; what is left is removed by the maintenance, a day later. The jid is "" where none was published.
    """
    areas = _areas(master, principal, "copy_end")
    done = not request["jid"] or master.store.open_targets(parse_jid(request["jid"])) == 0
    if done:
        areas.end(request["area"])
    return Answer({"removed": done})


def _areas(master: Master, principal: Principal, verb: str) -> CopyAreas:
    authorize(principal, Action(verb), master.terms)
    return CopyAreas(master.terms.copies_dir)
