"""The context of handlers: the store, the clock, this master's identity, the link, caches, and the forms of answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from saltlite.auth.acl import Granted, Principal
from saltlite.auth.logins import Logins, guess_limiter
from saltlite.errors import CostlyRuleError, StoreError, UsageError
from saltlite.files.roots import FileRoots, MemoryFileRoots
from saltlite.limits import RateLimiter
from saltlite.master.processes.documents import Pillars
from saltlite.master.processes.fleet import Indexes, MasterFleet, Nodegroups, Registrations, indexes_of
from saltlite.master.store.ports import FunctionSet, OpenJob, Store, StoreReader
from saltlite.model.clock import Clock
from saltlite.model.ids import Jid, MinionId, TargetId
from saltlite.model.job import Job, Target, TargetKind
from saltlite.model.keys import Fingerprint
from saltlite.resources.registry.admission import Rules
from saltlite.resources.registry.registry import Registry
from saltlite.targeting import resolve
from saltlite.targeting.banks import Banks
from saltlite.targeting.budget import Budget, BudgetError
from saltlite.targeting.fleet import Selection
from saltlite.wire.certificates import MasterCertificate
from saltlite.wire.framing import IpcMessage
from saltlite.wire.limits import MIB
from saltlite.wire.merkle import SignedPart, SignedParts, signed_parts

TELL_S = 60.0
"""One MWorker tells of one minion so often at most."""

SHOWN = 5
"""SRNs that are named."""


@dataclass(slots=True)
class Refused:
    """What was left out of what one minion said; `jid` and `reason` are of the first."""

    jid: Jid
    reason: str
    count: int = 0
    srns: list[TargetId] = field(default_factory=list)

    def add(self, count: int, srns: list[TargetId]) -> None:
        """So many more, with some of the resources that they were said of."""
        self.count += count
        self.srns += srns[: max(0, SHOWN - len(self.srns))]

    def event(self, minion: MinionId) -> dict[str, Any]:
        """The data of its event."""
        return {
            "id": minion,
            "act": "return",
            "jid": self.jid,
            "count": self.count,
            "srns": self.srns,
            "reason": self.reason,
        }


class RejectedResults:
    """What one MWorker has left out and not told yet, by minion. Times are monotonic seconds."""

    def __init__(self) -> None:
        self._untold: dict[MinionId, Refused] = {}
        self._told_at: dict[MinionId, float] = {}

    def add(self, minion: MinionId, refused: Refused) -> None:
        """Something more of what that minion said."""
        known = self._untold.setdefault(minion, Refused(refused.jid, refused.reason))
        known.add(refused.count, refused.srns)

    def due(self, now: float) -> list[tuple[MinionId, Refused]]:
        """What may be told now."""
        self._told_at = {minion: at for minion, at in self._told_at.items() if now - at < TELL_S}
        return [(minion, refused) for minion, refused in self._untold.items() if minion not in self._told_at]

    def told(self, minion: MinionId, now: float) -> None:
        """All of it was told."""
        del self._untold[minion]
        self._told_at[minion] = now


class LinkPort(Protocol):
    """What handlers may ask of the link process. Nothing is lost with a link that is down: the store has it."""

    def decided(self, session: int, state: str, minion: str, gone: Sequence[str] = ()) -> None: ...

    def publish(self, job: Job, parts: Sequence[SignedPart]) -> None: ...

    def pulled(
        self, minion: str, jobs: Sequence[tuple[OpenJob, list[bytes], int]], *, starved: bool, rest: str | None
    ) -> None: ...

    def cancel(self, parts: Sequence[tuple[str, str]]) -> None: ...

    def fetch(self, minion: str, what: str) -> None: ...


@dataclass(frozen=True, slots=True)
class Identity:
    """Who this master is: its certificate, and the Ed25519 seed that signs jobs (32 bytes)."""

    fleet: Fingerprint
    certificate: MasterCertificate
    job_private: bytes


@dataclass(frozen=True, slots=True)
class HandlerConfig:
    """What the configuration says to handlers. Times in seconds."""

    timeout_s: float
    deliver_s: float
    operators: frozenset[int]
    """The uids that may do anything: root's, and that of whoever started the master."""
    store_max: int = 0
    """Bytes that the store may fill; 0 for no limit."""
    mworkers: int = 1
    """How many MWorkers there are to be."""
    started_at: float = 0.0
    """When the master was started, wall-clock seconds since 1970."""
    copies_dir: str = ""
    """Where the files of `saltlite cp` are on their way."""
    nodegroups: Nodegroups = field(default_factory=dict)
    """Name -> a target that it stands for."""
    resources: Rules = field(default_factory=Rules)
    """Who may register which resources."""
    granted: Granted = field(default_factory=Granted)
    """Who else than operators may do what."""
    keep_job_args: bool = True
    """Whether the arguments of ended jobs are kept, where there are no secrets among them."""
    login_s: float = 43_200.0
    """How long the token of a login is good."""
    returners: frozenset[str] = frozenset()
    """Names of returners that a job may name."""
    readers: Mapping[str, str] = field(default_factory=dict)
    """Processes that read the event log: what they are called -> the file that says where they stand."""


_COMPOUND = frozenset("@ ()")
"""Letters that no glob of ids has."""
PROOFS_KEPT = 4
"""Jobs whose audience proofs an MWorker remembers: those of 10,000 targets take 60 ms to make, and 3 MB."""


FUNCTION_SETS_KEPT = 64
"""Sets of functions that an MWorker remembers: minions with the same modules share one, of some 50 KB."""


class RecentFunctions:
    """Function sets by digest, the longest unused ones forgotten first. What a digest stands for never changes."""

    def __init__(self) -> None:
        self._kept: dict[str, FunctionSet] = {}

    def of(self, digest: str, store: StoreReader) -> FunctionSet | None:
        """The set of that digest; None when the store has none."""
        found = self._kept.pop(digest, None) or store.functions(digest)
        if found is not None:
            if len(self._kept) >= FUNCTION_SETS_KEPT:
                del self._kept[next(iter(self._kept))]
            self._kept[digest] = found
        return found


class RecentProofs:
    """Audience proofs by job, the longest unused ones forgotten first.

    A fleet that comes back asks for the same few jobs once a minion: made anew each time, they would cost the
    square of its size.
    """

    def __init__(self) -> None:
        self._kept: dict[Jid, SignedParts] = {}

    def of(self, jid: Jid, job: Callable[[], Job | None]) -> SignedParts:
        """All parts of that job; `job` reads it, where it is needed. None of a job that is not there any more."""
        found = self._kept.pop(jid, None)
        if found is None:
            read = job()
            if read is None:
                return {}
            found = signed_parts(read)
            if len(self._kept) >= PROOFS_KEPT:
                del self._kept[next(iter(self._kept))]
        self._kept[jid] = found
        return found


@dataclass(slots=True)
class Master:
    """One MWorker's world."""

    store: Store
    clock: Clock
    identity: Identity
    terms: HandlerConfig
    link: LinkPort
    registry: Registry
    """Which minion manages which resource."""
    banks: Banks
    """What minions said of themselves, for all processes."""
    pillars: Pillars = field(default_factory=Pillars)
    files: FileRoots = field(default_factory=lambda: MemoryFileRoots({}))
    """What minions may fetch; an MWorker sets it."""
    registrations: Registrations = field(init=False)
    indexes: Indexes = field(init=False)
    logins: Logins = field(init=False)
    proofs: RecentProofs = field(default_factory=RecentProofs)
    functions: RecentFunctions = field(default_factory=RecentFunctions)
    left_out: RejectedResults = field(default_factory=RejectedResults)
    budget: Budget = field(default_factory=Budget)
    """What the patterns of the request that is being answered may still cost."""
    selected: dict[str, frozenset[TargetId]] = field(default_factory=dict)
    """Whom the targets of rules select that this request has asked for."""
    pillar_guesses: RateLimiter | None = field(default_factory=guess_limiter)
    """Limits targets by wrong values of pillar; None where only operators choose targets."""
    present: dict[MinionId, float] = field(default_factory=dict)
    """Minions that have a session now, and since when; kept up to date by the link."""

    def __post_init__(self) -> None:
        self.registrations = Registrations(self.banks)
        self.indexes = indexes_of(self.banks, pillar=self.pillars.cached)
        self.logins = Logins(self.identity.job_private)

    def begin_request(self) -> None:
        """To be called before each request: it has a budget of its own, and sees the fleet as it is now."""
        self.budget = Budget()
        self.selected = {}

    def refuse_when_full(self) -> None:
        """Raises StoreError if the store has reached `store_max`, so that no job begins whose returns have no room.

        Returns of running jobs are still stored: they must not be lost.
        """
        limit = self.terms.store_max
        if limit and self.store.size() >= limit:
            raise StoreError(
                f"the store is full: it has reached store_max ({limit // MIB} MiB). Jobs that have ended make room in "
                "a few seconds, others after `saltlite job kill JID` (`saltlite job list --state open` has them); "
                "or raise store_max. Nothing was published."
            )

    @property
    def fleet(self) -> MasterFleet:
        """The fleet as it is now; for one question."""
        return MasterFleet(self.store.accepted_ids, self.registry, self.indexes, self.terms.nodegroups, self.budget)

    def resolve(self, target: Target) -> Selection:
        """What the target selects now. Raises UsageError for what is no target."""
        return resolve(target, self.fleet)

    def selects(self, expression: str) -> frozenset[TargetId]:
        """The minions and resources that a target expression of a rule selects now. One that is none selects nobody.
        Raises CostlyRuleError when nothing is left of the request's budget.

        A single word is a glob, and so selects what a job with that target is for; anything else is compound.
        """
        kind = TargetKind.COMPOUND if _COMPOUND.intersection(expression) else TargetKind.GLOB
        found = self.selected.get(expression)
        if found is None:
            found = self.selected[expression] = self._selects(Target(expression, kind))
        return found

    def _selects(self, target: Target) -> frozenset[TargetId]:
        try:
            chosen = self.resolve(target)
            return frozenset((*chosen.minions, *chosen.resources))
        except BudgetError as error:
            where = target.expression[:80]
            raise CostlyRuleError(f"denied: whom the rule for {where!r} is for cannot be found out: {error}") from None
        except UsageError:
            return frozenset()


@dataclass(frozen=True, slots=True)
class Follow:
    """The client wants what comes back for a job, from this sequence number on; `once`: what there is now."""

    jid: Jid
    after: int
    once: bool = False


@dataclass(frozen=True, slots=True)
class Watch:
    """The client wants the events whose tag matches this glob, from this sequence number on."""

    pattern: str
    after: int
    only_of: Principal | None = None
    """Whose jobs and runners the events are to be about; None for all events."""
    only_jobs: bool = False
    """Only events of jobs, but of everybody's."""


class Stream(Protocol):
    """What keeps a client's connection open: messages by cursor, so that a broken one is taken up again."""

    def news(self) -> dict[str, Any] | None:
        """The next message, None when there is nothing new; `end` is set on the last. Raises StoreError."""
        ...


@dataclass(frozen=True, slots=True)
class Question:
    """What an answer has to ask the link process first.

    `message` makes the question with its number. `fields` makes the fields of the answer from what the link
    said, None when it said nothing in time; the SaltliteError that it may raise is answered instead.
    """

    message: Callable[[int], IpcMessage]
    fields: Callable[[IpcMessage | None], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class LoginCheck:
    """What an answer has to ask the process of the backends first.

    `fields` makes the fields of the answer from the groups that the backend said; it is called when that has let the
    user in, and the SaltliteError that it may raise is answered instead.
    """

    backend: str
    user: str
    password: str = field(repr=False)
    fields: Callable[[tuple[str, ...]], dict[str, Any]] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Later:
    """What an answer has to wait for, while its MWorker goes on with other work.

    `begin` has it made. It is given a function that is called once, with one that makes the fields of the answer; the
    SaltliteError that this may raise is answered instead.
    """

    begin: Callable[[Callable[[Callable[[], dict[str, Any]]], None]], None]


@dataclass(frozen=True, slots=True)
class Answer:
    """What a handler answers: `fields` now, or those of `question` when the link has answered it.

    `follow` keeps the connection open and streams. `committed`: something was, and other readers wait for it.
    """

    fields: dict[str, Any] = field(default_factory=dict)
    follow: Follow | Watch | None = None
    question: Question | None = None
    login: LoginCheck | None = None
    later: Later | None = None
    committed: bool = False
