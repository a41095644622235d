"""Events, and every tag that the core mints (rule R13: a minion writes none of these itself)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from saltlite.model.ids import Jid, MinionId, TargetId


@dataclass(frozen=True, slots=True)
class Event:
    """One row of the event log. `at` is wall-clock seconds since 1970; `seq` is the reader's cursor."""

    tag: str
    data: Mapping[str, Any]
    at: float
    seq: int = 0


def tag_auth() -> str:
    """A minion presented its key."""
    return "salt/auth"


def tag_key() -> str:
    """A key changed its state."""
    return "salt/key"


def tag_minion_start(minion: MinionId) -> str:
    """A minion is READY after a start of its daemon."""
    return f"salt/minion/{minion}/start"


def tag_presence_change() -> str:
    """Minions came or went."""
    return "salt/presence/change"


def tag_job_new(jid: Jid) -> str:
    """A job was committed."""
    return f"salt/job/{jid}/new"


def tag_job_kill(jid: Jid) -> str:
    """An operator ended a job."""
    return f"salt/job/{jid}/kill"


def tag_run_new(jid: Jid) -> str:
    """A runner was begun."""
    return f"salt/run/{jid}/new"


def tag_run_return(jid: Jid) -> str:
    """A runner has ended."""
    return f"salt/run/{jid}/ret"


def tag_hook(path: str) -> str:
    """A program elsewhere said something to the API; `path` may be empty."""
    return f"salt/netapi/hook/{path}" if path else "salt/netapi/hook"


def tag_cloud(machine: str, what: str) -> str:
    """Something happened to a machine of a cloud: `creating`, `requesting` ..."""
    return f"salt/cloud/{machine}/{what}"


def tag_job_return(jid: Jid, target: TargetId) -> str:
    """A return was committed."""
    return f"salt/job/{jid}/ret/{target}"


def tag_resource_refresh(minion: MinionId) -> str:
    """What a minion manages was registered anew."""
    return f"resource/refresh/{minion}"


def tag_resource_conflict(srn: TargetId) -> str:
    """Two minions say that they manage one resource."""
    return f"resource/conflict/{srn}"


def tag_resource_refused(minion: MinionId) -> str:
    """Something that a minion said about resources was refused."""
    return f"resource/refused/{minion}"


def tag_resource_namesake(minion: MinionId) -> str:
    """What a minion registered has the bare ids of resources that others manage."""
    return f"resource/namesake/{minion}"


def tag_resource_registry() -> str:
    """The registry lost rows to damage, or has all of them again."""
    return "resource/registry"
