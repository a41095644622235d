"""One state of the in-memory store: what a transaction copies, changes and puts in place of the one before."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace

from saltlite.master.store.ports import FunctionSet, MinionRow, TargetRow, TokenRecord
from saltlite.model.authtoken import AuthToken
from saltlite.model.ids import Jid, MinionId, RequestId, TargetId
from saltlite.model.job import Job, Return
from saltlite.model.keys import Fingerprint, KeyRecord


@dataclass(frozen=True, slots=True)
class LoggedEvent:
    """An event as it is kept: packed, so that nobody can change it afterwards."""

    tag: str
    data: bytes
    at: float


@dataclass(slots=True)
class Tables:
    """One state of the store. The inner dicts are shared between states."""

    seq: int = 0
    epoch: int = 0
    keys: dict[Fingerprint, KeyRecord] = field(default_factory=dict)
    tokens: dict[str, TokenRecord] = field(default_factory=dict)
    auth_tokens: dict[str, AuthToken] = field(default_factory=dict)
    preaccepts: dict[MinionId, Fingerprint] = field(default_factory=dict)
    minions: dict[MinionId, MinionRow] = field(default_factory=dict)
    functions: dict[str, FunctionSet] = field(default_factory=dict)
    jobs: dict[Jid, Job] = field(default_factory=dict)
    requests: dict[tuple[RequestId, int], Jid] = field(default_factory=dict)
    targets: dict[Jid, dict[TargetId, TargetRow]] = field(default_factory=dict)
    owners: dict[Jid, dict[TargetId, MinionId]] = field(default_factory=dict)
    """The minion that each target is, or that manages it."""
    parts: dict[Jid, dict[MinionId, dict[int, tuple[TargetId, ...]]]] = field(default_factory=dict)
    """The targets of each part of a job. Neither this nor `owners` changes while the job is there."""
    returns: dict[Jid, dict[TargetId, Return]] = field(default_factory=dict)
    cancels: dict[Jid, tuple[float, str]] = field(default_factory=dict)
    """When an operator ended a job, and who."""
    reducible: dict[Jid, None] = field(default_factory=dict)
    """Jobs whose bodies are to be reduced when they have ended."""
    events: dict[int, LoggedEvent] = field(default_factory=dict)

    def copy(self) -> Tables:
        tables = replace(self)
        for name in _TABLE_NAMES:
            setattr(tables, name, dict(getattr(self, name)))
        return tables


_TABLE_NAMES = tuple(f.name for f in fields(Tables) if f.name not in {"seq", "epoch"})
