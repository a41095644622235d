"""What was seen, as plain data: a check reads nothing else. `None` is what could not be seen or is not there.

Times are wall-clock seconds since 1970, sizes are bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from saltlite.config.api import ApiConfig
from saltlite.config.master import MasterConfig
from saltlite.config.minion import MinionConfig
from saltlite.model.resourcelook import TypeReport
from saltlite.platform.master_probe import MasterProof


class Sort(StrEnum):
    """What is at a path."""

    MISSING = "missing"
    HIDDEN = "hidden"
    """This user may not look."""
    FOLDER = "folder"
    FILE = "file"
    SOCKET = "socket"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class PathSeen:
    """One path, without following a link at its end."""

    path: str
    sort: Sort
    mode: int = 0
    """Permission bits."""
    uid: int = -1


@dataclass(frozen=True, slots=True)
class DiskSeen:
    """The file system below a path: what an ordinary user may still take, and how much there is."""

    path: str
    free: int
    total: int
    inodes_free: int
    writable: bool


@dataclass(frozen=True, slots=True)
class UnitSeen:
    """A systemd unit. All words are systemd's."""

    name: str
    load: str
    active: str
    result: str
    enabled: str


@dataclass(frozen=True, slots=True)
class ProcessSeen:
    """One process of a daemon; `state` is the letter of proc(5)."""

    title: str
    state: str
    open_files_max: int | None = None
    uid: int | None = None


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What both sides have."""

    config_dir: str
    now: float
    euid: int
    user: str
    """The option `user`, "" when the configuration could not be read."""
    user_uid: int | None
    """Its uid; None when there is no such user."""
    config_files: int
    config_problems: Sequence[str]
    unit: UnitSeen | None
    """None where systemd does not run."""
    pid: int | None
    """The daemon's first process, None when it does not run (or cannot be seen)."""
    paths: Mapping[str, PathSeen]
    """By a short name: the name of an option, or that of a file in its folder, as in `pki_dir/fleet.key`."""
    disks: Mapping[str, DiskSeen]
    """By the name of an option."""


@dataclass(frozen=True, slots=True)
class FleetSeen:
    """What the files of a master say of its fleet."""

    fingerprint: str
    """That of fleet.key; "" without one."""
    problem: str
    """Why the master would not start with these files."""
    behind: Sequence[str] = ()
    """Files that name a former fleet key."""
    changes: int = 0


@dataclass(frozen=True, slots=True)
class MasterEvidence:
    """One master."""

    around: Surroundings
    config: MasterConfig | None
    status: Mapping[str, Any] | None
    """The answer of the verb `status`."""
    keys: Sequence[Mapping[str, Any]] | None
    """The answer of the verb `key_list`."""
    certificate_until: int | None
    certificate_from: int | None
    silence: str
    """Why the socket does not answer; "" when it does."""
    address: str
    """Where this machine tried to reach the port."""
    proof: MasterProof | None
    probe_problem: str
    processes: Sequence[ProcessSeen]
    link_uid: int | None = None
    """The uid of `link_user`; None when there is no such user."""
    fleet: FleetSeen | None = None
    """None where the files could not be read."""


@dataclass(frozen=True, slots=True)
class MasterSeen:
    """One master as its minion sees it."""

    address: str
    resolved: Sequence[str]
    dns_problem: str
    tcp_problem: str
    proof: MasterProof | None
    proof_problem: str


@dataclass(frozen=True, slots=True)
class TlsSeen:
    """The certificate with which the API is to serve, and its key."""

    certificate: str
    key: str
    """The file of the private key, which may be that of the certificate."""
    problem: str
    """Why they cannot be used; "" when they can, or when this user may not read them."""
    not_before: int | None
    not_after: int | None
    fingerprint: str
    """Of the certificate in the file, "" where that could not be read."""


@dataclass(frozen=True, slots=True)
class ApiEvidence:
    """One API."""

    around: Surroundings
    config: ApiConfig | None
    tls: TlsSeen | None
    """None where the API speaks HTTP without TLS, and where there is no certificate yet."""
    address: str
    """Where this machine tried to reach the port."""
    port_problem: str
    served: str
    """The fingerprint of the certificate that answers on the port; "" without TLS."""
    master_problem: str
    """Why the master's socket does not answer; "" when it does."""


@dataclass(frozen=True, slots=True)
class ModulesSeen:
    """What became of the execution modules and the grains when they were tried out."""

    offered: int = 0
    """Modules that serve here."""
    refused: Mapping[str, str] = field(default_factory=dict)
    """File name -> sentence: modules that say themselves that they are not for this machine."""
    broken: Mapping[str, str] = field(default_factory=dict)
    """File name -> sentence: modules that cannot be loaded."""
    grains: int = 0
    no_chain: str = ""
    """Why no function can be called through the executors that are configured; empty when they can be used."""
    idle_chain: str = ""
    """Why the chain that is configured does not do what it says, though it can be used; empty when it does."""
    unknown_executors: Mapping[str, str] = field(default_factory=dict)
    """Name -> sentence: executors of `executors_allowed` that cannot be used."""
    problem: str = ""


@dataclass(frozen=True, slots=True)
class MinionEvidence:
    """One minion."""

    around: Surroundings
    config: MinionConfig | None
    id: str
    pinned: str
    """The fingerprint of the fleet, "" when none is known."""
    pin_source: str
    masters: Sequence[MasterSeen]
    phase: str
    """Where the connection was when the minion last said so, "" when it never did."""
    reason: str
    phase_at: float
    resources_problem: str
    refused_answers: int
    """How many answers of its master the daemon that runs did not believe, for no master had signed them."""
    """Why the master did not take the resources, or not all; "" when it did."""
    journal_problem: str
    """"" when it is readable, or was not there."""
    journal_jobs: int | None
    spool_results: int | None
    spool_bytes: int
    spool_damaged: Sequence[str]
    modules: ModulesSeen | None
    types: Mapping[str, TypeReport] = field(default_factory=dict)
    """What the minion tells of its resource types."""
    looked_at: str = ""
    """Why there is no resource type, "" when there is one."""
