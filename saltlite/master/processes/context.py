"""The context of handlers: the store, the clock, this master's identity, the link, caches, and the forms of answers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from typing import TYPE_CHECKING, Any, Protocol

from saltlite.auth.acl import Granted, Principal
from saltlite.auth.logins import Logins, guess_limiter
from saltlite.errors import CostlyRuleError, SaltliteError, StoreConflictError, StoreError, UsageError
from saltlite.files.roots import FileRoots
from saltlite.limits import HeldContents, RateLimiter
from saltlite.master.processes.audit import AuditTrail
from saltlite.master.processes.fleet import Asking, Indexes, MasterFleet, Mines, Nodegroups, Registrations, indexes_of
from saltlite.master.store.ports import FunctionSet, OpenJob, Store, StoreReader, StoreWriter
from saltlite.model.clock import Clock
from saltlite.model.dataclass import dataclass
from saltlite.model.events import tag_auth, tag_key, tag_presence_change
from saltlite.model.ids import Jid, MinionId, TargetId
from saltlite.model.job import Job, Target, TargetKind
from saltlite.model.keys import Fingerprint
from saltlite.pillar.evaluation import Pillars
from saltlite.resources.registry.admission import RegistrationRules
from saltlite.resources.registry.registry import Registry
from saltlite.targeting import resolve
from saltlite.targeting.banks import Banks
from saltlite.targeting.fleet import Budget, BudgetError, Selection
from saltlite.wire.certificates import MasterCertificate
from saltlite.wire.framing import IpcMessage
from saltlite.wire.limits import MIB
from saltlite.wire.merkle import SignedPart, SignedParts, signed_parts

if TYPE_CHECKING:
    from saltlite.files.server import SharedAreas
    from saltlite.master.processes.login_limiter import LoginLimiter
    from saltlite.master.processes.runners import PeerRuns
    from saltlite.master.store.sharing import SharedStore

REPORT_S = 60.0
"""The least interval between events of one MWorker about one minion."""

SHOWN = 5
"""SRNs in one event."""


@dataclass(slots=True)
class Refused:
    """Results of one minion that were rejected; `jid` and `reason` are of the first."""

    jid: Jid
    reason: str
    count: int = 0
    srns: list[TargetId] = field(default_factory=list)

    def add(self, count: int, srns: list[TargetId]) -> None:
        """Count more, with some of the resources that they claim to be of."""
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
    """Rejected results that have no event yet, by minion (G8). Times are monotonic seconds.

    A minion can send a thousand a second, in any job's name, so they are counted: one event per minion in REPORT_S.
    """

    def __init__(self) -> None:
        self._unreported: dict[MinionId, Refused] = {}
        self._reported_at: dict[MinionId, float] = {}

    def add(self, minion: MinionId, refused: Refused) -> None:
        """Add rejected results of that minion."""
        known = self._unreported.setdefault(minion, Refused(refused.jid, refused.reason))
        known.add(refused.count, refused.srns)

    def due(self, now: float) -> list[tuple[MinionId, Refused]]:
        """Results whose event is due."""
        self._reported_at = {minion: at for minion, at in self._reported_at.items() if now - at < REPORT_S}
        return [(minion, refused) for minion, refused in self._unreported.items() if minion not in self._reported_at]

    def reported(self, minion: MinionId, now: float) -> None:
        """The event of that minion was written."""
        del self._unreported[minion]
        self._reported_at[minion] = now


class LinkPort(Protocol):
    """What handlers ask of the link process. If it is down, nothing is lost: the store has all that matters."""

    def decided(self, session: int, state: str, minion: str, gone: Sequence[str] = ()) -> None: ...

    def publish(self, job: Job, parts: Sequence[SignedPart]) -> None: ...

    def pulled(
        self, minion: str, jobs: Sequence[tuple[OpenJob, list[bytes], int]], *, starved: bool, rest: str | None
    ) -> None: ...

    def cancel(self, parts: Sequence[tuple[str, str]]) -> None: ...

    def fetch(self, minion: str, what: str) -> None: ...

    def replaced(self, minion: str, run: int, handshake: int) -> None: ...


@dataclass(frozen=True, slots=True)
class MasterIdentity:
    """This master's certificate, and the Ed25519 seed that signs jobs (32 bytes)."""

    fleet: Fingerprint
    certificate: MasterCertificate
    job_private: bytes
    login_secret: bytes = b""
    """The key that seals login tokens on all masters of the store; if empty, `job_private` does."""
    chain: bytes = b""
    """Where masters share a store: the successions that lead to the fleet key, encoded."""


@dataclass(frozen=True, slots=True)
class HandlerConfig:
    """The configuration of handlers. Times are seconds."""

    timeout_s: float
    deliver_s: float
    operators: frozenset[int]
    """The uids with all rights: root, and the user that started the master."""
    store_max: int = 0
    """The limit of the store in bytes; 0 for none."""
    mworkers: int = 1
    """The number of MWorkers."""
    started_at: float = 0.0
    """Start of the master, in wall-clock seconds since 1970."""
    copies_dir: str = ""
    """The folder of files in transit of `saltlite cp`."""
    nodegroups: Nodegroups = field(default_factory=dict)
    """Name -> target."""
    resources: RegistrationRules = field(default_factory=RegistrationRules)
    """Who may register which resources."""
    granted: Granted = field(default_factory=Granted)
    """The rights of users who are not operators."""
    keep_job_args: bool = True
    """Whether arguments of ended jobs are kept, if they contain no secrets."""
    login_s: float = 43_200.0
    """Lifetime of a login token."""
    returners: frozenset[str] = frozenset()
    """Returners that a job may name."""
    readers: Mapping[str, str] = field(default_factory=dict)
    """Processes that follow the event log: name -> file of its cursor."""
    shown: Mapping[str, Any] = field(default_factory=dict)
    """The options of this master for display, without secrets."""
    realm: str = ""
    """The name of this master, if a uid may belong to another person on other masters of the store; otherwise ""."""


ANSWERS_MEMORY = 64 * MIB
"""Bytes of answers in one MWorker that minions fetch in pieces ..."""
ANSWERS_OF_A_MINION = 2
"""... how many of these answers one minion may have ..."""
ANSWER_IDLE_S = 60.0
"""... and seconds after the last piece until an answer is dropped."""
PEER_JOBS_AT_ONCE = 20
"""Jobs that one minion may publish at once. Above this the answer is `busy`, and the minion asks again ..."""
PEER_JOB_EVERY_S = 1.0
"""... after this many seconds."""
OWN_JOBS_AT_ONCE = 100
"""The burst of jobs that one minion may begin by itself. Above this the answer is `busy` ..."""
OWN_JOB_EVERY_S = 1.0
"""... and one more is accepted after this many seconds."""
QUESTIONS_AT_ONCE = 20
"""The burst of questions to other masters that one user may ask. Each question is an event in the store ..."""
QUESTION_EVERY_S = 1.0
"""... and one more may be asked after this many seconds."""

_COMPOUND = frozenset("@ ()")
"""Letters that no glob of ids has."""
PROOFS_KEPT = 4
"""Jobs whose audience proofs are cached: those of 10,000 targets take 60 ms to compute, and 3 MB."""


FUNCTION_SETS_KEPT = 64
"""Function sets that are cached: minions with the same modules share one, of some 50 KB."""


class RecentFunctions:
    """An LRU cache of function sets by digest, which never change."""

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
    """An LRU cache of audience proofs by job.

    A fleet that reconnects pulls the same few jobs once per minion; computed each time, they would cost the square of
    its size.
    """

    def __init__(self) -> None:
        self._kept: dict[Jid, SignedParts] = {}

    def of(self, jid: Jid, job: Callable[[], Job | None]) -> SignedParts:
        """All signed parts of that job; `job` reads it if needed. Empty for a job that was deleted."""
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


EVENTS_LOOKED_AT = 20_000
"""New events that are searched for changes. Reading the rows again takes no longer than searching more events."""
LISTS_KEPT = 8
LISTS_IDLE_S = 60.0
"""Seconds without a request after which lists are dropped: those of 10,000 keys take 3 MB."""


class KeptLists:
    """Cached lists of minions or keys. A list is made once after a change and not for each request, because reading and
    sorting 10,000 rows takes 15 to 30 ms."""

    def __init__(self, *tags: str) -> None:
        """`tags`: every change stores an event with one of these tags. Changes of accepted keys are noticed without
        events."""
        self._tags = tags
        self._lists: dict[str, Any] = {}
        self._seq = -1
        self._accepted: frozenset[MinionId] | None = None
        self._used_at = 0.0

    def follow(self, store: StoreReader, now: float) -> KeptLists:
        """These lists, after those that may be outdated were dropped; `now` is monotonic."""
        # Read before the rows, so that a change in between counts as a change for the next request.
        seq, accepted = store.last_seq(), store.accepted_set()
        is_same = accepted is self._accepted or accepted == self._accepted
        if not is_same or not self._is_current(store, seq):
            self._lists.clear()
        self._seq, self._accepted, self._used_at = seq, accepted, now
        return self

    def _is_current(self, store: StoreReader, seq: int) -> bool:
        if seq == self._seq:
            return True
        # Events that were pruned cannot be searched.
        is_known = self._seq >= 0 and seq - self._seq <= EVENTS_LOOKED_AT and store.first_seq() <= self._seq + 1
        return is_known and not store.has_event(self._tags, self._seq)

    def of(self, name: str, make: Callable[[], Any]) -> Any:
        """The list of this name. The caller must not modify it."""
        if name not in self._lists:
            made = make()
            if len(self._lists) >= LISTS_KEPT:
                del self._lists[next(iter(self._lists))]
            self._lists[name] = made
        return self._lists[name]

    def forget_idle(self, clock: Clock) -> None:
        """Drop lists that were not requested for LISTS_IDLE_S."""
        if self._lists and clock.monotonic() - self._used_at >= LISTS_IDLE_S:
            self._lists.clear()


@dataclass(slots=True)
class Master:
    """The context of the handlers of one process."""

    store: Store
    clock: Clock
    identity: MasterIdentity
    config: HandlerConfig
    link: LinkPort
    registry: Registry
    """Which minion manages which resource."""
    banks: Banks
    """What minions reported about themselves, shared by all processes."""
    pillars: Pillars = field(default_factory=Pillars)
    files: FileRoots = field(default_factory=lambda: FileRoots({}))
    """The files that minions may fetch; set by an MWorker."""
    asking: Asking = field(init=False)
    """Sends to a minion, whichever master has its session; `link` is for sessions of this master."""
    registrations: Registrations = field(init=False)
    indexes: Indexes = field(init=False)
    logins: Logins = field(init=False)
    proofs: RecentProofs = field(default_factory=RecentProofs)
    functions: RecentFunctions = field(default_factory=RecentFunctions)
    rejected_results: RejectedResults = field(default_factory=RejectedResults)
    budget: Budget = field(default_factory=Budget)
    """What the patterns of the current request may still cost."""
    selected: dict[str, frozenset[TargetId]] = field(default_factory=dict)
    """Cache of the current request: what targets of rules select."""
    pillar_guesses: RateLimiter | None = field(default_factory=guess_limiter)
    """Limits targets by wrong values of pillar; None where only operators choose targets."""
    answers: HeldContents = field(
        default_factory=lambda: HeldContents(ANSWERS_MEMORY, ANSWERS_OF_A_MINION, ANSWER_IDLE_S)
    )
    """Answers to minions (`saltlite.master.handlers.asks`) that are larger than one piece."""
    peer_jobs: RateLimiter = field(default_factory=lambda: RateLimiter(1 / PEER_JOB_EVERY_S, PEER_JOBS_AT_ONCE))
    """Limits the jobs that a minion publishes; all requests of one minion come to the same MWorker."""
    own_jobs: RateLimiter = field(default_factory=lambda: RateLimiter(1 / OWN_JOB_EVERY_S, OWN_JOBS_AT_ONCE))
    """Limits the jobs that a minion begins by itself."""
    peer_runs: PeerRuns | None = None
    """The runners of minions; None without the option `peer_run`."""
    mines: Mines = field(init=False)
    """The mines that were read last."""
    present: dict[MinionId, float] = field(default_factory=dict)
    """Minions with a session, and since when, the newest last; updated by the link process."""

    shared: SharedStore | None = None
    """The store, if other masters share it."""
    here: set[MinionId] = field(default_factory=set)
    """Minions with a session with this master, if other masters share its store; `present` has those of all."""
    elsewhere: set[MinionId] = field(default_factory=set)
    """Minions with a session with another one of these masters."""
    knows_elsewhere: bool = True
    """Whether `elsewhere` is complete."""
    login_limiter: LoginLimiter | None = None
    """Counts wrong passwords of all these masters."""
    shared_areas: SharedAreas | None = None
    """Where the other masters have the files of `saltlite cp`."""
    questions: RateLimiter = field(default_factory=lambda: RateLimiter(1 / QUESTION_EVERY_S, QUESTIONS_AT_ONCE))
    """Limits how often users ask the other masters."""
    has_joined: bool = False
    """Whether all other masters know this one."""
    audit: AuditTrail | None = None
    """The audit log of this process, or None."""

    minion_lists: KeptLists = field(default_factory=lambda: KeptLists(tag_presence_change()))
    """The accepted ids, sorted by fields of their last sessions."""

    key_lists: KeptLists = field(default_factory=lambda: KeptLists(tag_key(), tag_auth()))
    """The rows of keys, sorted."""

    kept_figures: tuple[float, Mapping[str, Any]] | None = None
    """The figures of the last status, and when they were made (monotonic seconds)."""

    def __post_init__(self) -> None:
        self.asking = self.link
        self.registrations = Registrations(self.banks)
        self.indexes = indexes_of(self.banks, pillar=self.pillars.cached)
        self.mines = Mines(self.banks)
        self.logins = Logins(self.identity.login_secret or self.identity.job_private)

    @property
    def name_among_others(self) -> str:
        """The name of this master, "" if no other one shares its store."""
        return self.identity.certificate.name if self.shared is not None else ""

    def refuse_before_joined(self) -> None:
        """Raises StoreError while other masters may not have the certificate of this one, because minions would refuse
        its jobs."""
        if self.shared is None or self.has_joined:
            return
        certificate = self.identity.certificate
        mine = [row for row in self.shared.masters() if row.name == certificate.name]
        self.has_joined = any(row.certificate == certificate.encode() and row.has_lease for row in mine)
        if not self.has_joined:
            raise StoreError("this master is joining the others of its store; nothing was published: try again shortly")

    def record(self, principal: Principal, did: str, details: Mapping[str, Any]) -> None:
        """Write an entry of the audit log; `details` have no secrets."""
        if self.audit is not None:
            self.audit.record(str(principal), did, details)

    def begin_request(self) -> None:
        """Reset the budget and the cache of the request; to be called before each one."""
        self.budget = Budget()
        self.selected = {}
        self.minion_lists.forget_idle(self.clock)
        self.key_lists.forget_idle(self.clock)
        self.banks.look_again()

    def refuse_when_full(self) -> None:
        """Raises StoreError if the store has reached `store_max`, so that no job begins whose returns have no room.

        Returns of running jobs are still stored: they must not be lost.
        """
        limit = self.config.store_max
        if limit and self.store.is_full(limit):
            raise StoreError(
                f"the store is full: it has reached store_max ({limit // MIB} MiB). Jobs that have ended make room in "
                "a few seconds, others after `saltlite job kill JID` (`saltlite job list --state open` has them); "
                "or raise store_max. Nothing was published."
            )

    @property
    def fleet(self) -> MasterFleet:
        """A snapshot of the fleet, for one query."""
        return MasterFleet(self.store.accepted_set, self.registry, self.indexes, self.config.nodegroups, self.budget)

    def resolve(self, target: Target) -> Selection:
        """What the target selects now. Raises UsageError for an invalid target."""
        return resolve(target, self.fleet)

    def selects(self, expression: str) -> frozenset[TargetId]:
        """What a target expression of a rule selects now; nothing for an invalid one.

        A single word is a glob, anything else is compound. Raises CostlyRuleError when the request's budget is used up.
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
    """Stream the results of a job after this sequence number; `once`: only those that are stored now."""

    jid: Jid
    after: int
    once: bool = False
    job: Job | None = None
    """The job, if it is at hand."""
    is_new: bool = False
    """It was committed a moment ago: nothing has become of it, and a wake-up comes with what does."""


@dataclass(frozen=True, slots=True)
class Watch:
    """Stream the events whose tag matches this glob, after this sequence number."""

    pattern: str
    after: int
    only_of: Principal | None = None
    """Only events of jobs and runners of this principal; None for all events."""
    only_jobs: bool = False
    """Only events of jobs, of all users."""
    returns_for: Principal | None = None
    """Events of jobs that this principal may see have the fields that Salt's have, and returns; None: no event."""


class Stream(Protocol):
    """A stream of messages to a client; its cursor lets the client resume after a disconnect."""

    def may_have_news(self, jobs: Collection[Jid]) -> bool:
        """Whether there may be news after a commit in which targets of these jobs changed their states."""
        ...

    def news(self) -> dict[str, Any] | None:
        """The next message, None if there is none; `end` is set on the last. Raises StoreError."""
        ...


@dataclass(frozen=True, slots=True)
class Question:
    """A question to the link process before the answer.

    `message` makes the question from its number; `fields` makes the answer from the reply, None after a timeout. A
    SaltliteError that it raises is the answer instead.
    """

    message: Callable[[int], IpcMessage]
    fields: Callable[[IpcMessage | None], dict[str, Any]]
    everywhere: int = 0
    """The number of the event that the other masters have to apply before the answer is sent; 0 for none."""
    elsewhere: Sequence[MinionId] = ()
    """Minions of other masters, whose `silent_s` is added to the reply."""


@dataclass(frozen=True, slots=True)
class LoginCheck:
    """A password check before the answer.

    `fields` makes the answer from the user's groups after a successful check. A SaltliteError that it raises is the
    answer instead.
    """

    backend: str
    user: str
    password: str = field(repr=False)
    fields: Callable[[tuple[str, ...]], dict[str, Any]] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Later:
    """An answer that takes time, while its MWorker continues with other work.

    `begin` gets a callback, to be called once with a function that makes the fields of the answer. A SaltliteError that
    this function raises is the answer instead.
    """

    begin: Callable[[Callable[[Callable[[], dict[str, Any]]], None]], None]


@dataclass(frozen=True, slots=True)
class StoreWrite:
    """What a handler stores before its answer, in a transaction that it may share with others.

    `store` changes nothing but the store: if another one of its transaction fails, it runs again in a transaction of
    its own. `answer` makes the answer from what `store` returned, after the commit. `failed` gets the error with which
    `store`, the commit or `answer` failed; it answers or raises it. `appends_only`: see `Store.write`.
    """

    store: Callable[[StoreWriter], Any]
    answer: Callable[[Any], Answer]
    failed: Callable[[SaltliteError], Answer]
    appends_only: bool = False

    def alone(self, store: Store) -> Answer:
        """The answer, after a transaction of its own. Raises SaltliteError."""
        try:
            stored = self._stored(store)
        except SaltliteError as error:
            return self.failed(error)
        return self.committed(stored)

    def _stored(self, store: Store) -> Any:
        if self.appends_only:
            with suppress(StoreConflictError), store.write(appends_only=True) as writer:
                return self.store(writer)
        with store.write() as writer:
            return self.store(writer)

    def committed(self, stored: Any) -> Answer:
        """The answer after the commit. Raises SaltliteError."""
        try:
            return self.answer(stored)
        except SaltliteError as error:
            return self.failed(error)


@dataclass(frozen=True, slots=True)
class Answer:
    """A handler's answer: `fields` now, or later those of `question`, `login` or `later`, or after `write`.

    `follow` opens a stream. `committed`: the store changed, so streams are to be read; `moved` are the jobs in which a
    target changed its state, None if it may be any.
    """

    fields: dict[str, Any] = field(default_factory=dict)
    follow: Follow | Watch | None = None
    question: Question | None = None
    login: LoginCheck | None = None
    later: Later | None = None
    write: StoreWrite | None = None
    committed: bool = False
    moved: Collection[Jid] | None = None
