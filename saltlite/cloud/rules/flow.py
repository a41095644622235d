"""The state machine of one create, from a profile to an accepted minion, and its rollback.

    step              action                                    undone by
    CHECK_NAME        the name is free                          -
    MAKE_TOKEN        a join token for this one minion          REVOKE_TOKEN
    MAKE_MACHINE      the driver makes and deploys it           DESTROY_MACHINE, DELETE_KEY
    WAIT_FOR_MINION   its minion is accepted and answers        -
    FINISH            the event `created`                       -

Without a minion there is no token and no waiting. A step is undone even if it only began: the machine may exist. The
token is revoked first, so that it admits no one during the rollback; the key is deleted last, when no machine is left
that could use it.

If a requested machine is missing, a machine of that name may belong to someone else. So the reports of the driver are
recorded: it is about to ask, the provider refused, the provider's id of the machine. A machine that was certainly not
made is not destroyed, and a machine with an id is destroyed by that id.

The journal has the begin and the end of each step, so that another process can finish the rollback.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Step(StrEnum):
    """A step of a create."""

    CHECK_NAME = "check-name"
    MAKE_TOKEN = "make-token"  # noqa: S105 - the name of a step
    MAKE_MACHINE = "make-machine"
    WAIT_FOR_MINION = "wait-for-minion"
    FINISH = "finish"


class Undo(StrEnum):
    """A step of a rollback."""

    REVOKE_TOKEN = "void-token"  # noqa: S105 - as above
    DESTROY_MACHINE = "destroy-machine"
    DELETE_KEY = "delete-key"


FORWARDS = tuple(Step)
MINIONS_ONLY = frozenset({Step.MAKE_TOKEN, Step.WAIT_FOR_MINION})
UNDONE_BY: Mapping[Step, tuple[Undo, ...]] = {
    Step.MAKE_TOKEN: (Undo.REVOKE_TOKEN,),
    Step.MAKE_MACHINE: (Undo.DESTROY_MACHINE, Undo.DELETE_KEY),
}
BACKWARDS = (Undo.REVOKE_TOKEN, Undo.DESTROY_MACHINE, Undo.DELETE_KEY)

SAYS: Mapping[Undo, str] = {
    Undo.REVOKE_TOKEN: "its join token is still good until it expires",
    Undo.DESTROY_MACHINE: "the machine is still there",
    Undo.DELETE_KEY: "the key of its minion may still be accepted",
}
"""What remains if an undo failed or was not wanted."""


NOTES = ("announced", "requested", "refused", "made")
"""Reports of drivers during a create, as the journal records them."""


@dataclass(slots=True)
class Create:
    """The progress of one create."""

    minion: bool
    """Whether the machine is to be a minion."""
    begun: list[Step] = field(default_factory=list)
    ended: list[Step] = field(default_factory=list)
    undone: set[Undo] = field(default_factory=set)
    announced: bool = False
    """Whether its driver has fired an event; such a driver fires `requesting` before it asks for a machine."""
    requested: bool = False
    refused: bool = False
    """Whether the provider made nothing, by the report of its driver."""
    identity: str = ""
    """The provider's id of the machine, once it is known."""

    @property
    def may_be_made(self) -> bool:
        """Whether a machine of this create may exist."""
        if self.identity:
            return True
        return Step.MAKE_MACHINE in self.begun and not self.refused and (self.requested or not self.announced)

    @property
    def unclear(self) -> bool:
        """Whether its existence is unknown: the request had no answer."""
        return self.may_be_made and not self.identity and Step.MAKE_MACHINE not in self.ended

    def note(self, what: str, identity: str = "") -> bool:
        """Record a report of the driver, one of NOTES; whether it changes anything."""
        before = (self.announced, self.requested, self.refused, self.identity)
        match what:
            case "announced":
                self.announced = True
            case "requested":
                self.announced = self.requested = True
            case "refused":
                self.refused = True
            case "made":
                self.identity = identity or self.identity
        return before != (self.announced, self.requested, self.refused, self.identity)

    def next(self) -> Step | None:
        """The next step, None after the last."""
        for step in FORWARDS:
            if step not in self.ended and (self.minion or step not in MINIONS_ONLY):
                return step
        return None

    def begin(self, step: Step) -> None:
        """Begin the next step. Raises ValueError for any other."""
        if step is not self.next():
            raise ValueError(f"{step} is not what comes next")
        self.begun.append(step)

    def end(self, step: Step) -> None:
        """End a step that was begun. Raises ValueError for any other."""
        if step not in self.begun:
            raise ValueError(f"{step} was not begun")
        self.ended.append(step)

    @property
    def complete(self) -> bool:
        """Whether every step is done."""
        return self.next() is None

    def to_undo(self, *, keep_machine: bool = False) -> list[Undo]:
        """The steps of the rollback, in order. A machine that is kept keeps its key."""
        wanted = {undo for step in self.begun for undo in UNDONE_BY.get(step, ())} - self.undone
        if not self.minion:
            wanted.discard(Undo.DELETE_KEY)
        if not self.may_be_made:
            wanted.discard(Undo.DESTROY_MACHINE)
        if keep_machine:
            wanted -= {Undo.DESTROY_MACHINE, Undo.DELETE_KEY}
        return [undo for undo in BACKWARDS if undo in wanted]

    def rolled_back(self, undo: Undo) -> None:
        """Record that a step of the rollback is done."""
        self.undone.add(undo)


@dataclass(slots=True)
class Unfinished:
    """A create or destroy that no process finished, as the journal has it."""

    run: str
    name: str
    provider: str
    profile: str
    minion_id: str
    at: float
    """When it was begun: seconds since 1970."""
    pid: int
    create: Create
    destroying: bool = False
    token_id: str = ""
    reason: str = ""
    identity: str = ""
    """Of a destroy: the provider's id of the machine, "" if it has none."""
    guessed: bool = False
    """Of a destroy: whether `minion_id` was only derived from the name of the machine."""
    known: bool = False
    """Whether its command, when it failed, could rely on the listing of the provider."""
    since: float = 0.0
    """When its command last did something forwards, or failed: seconds since 1970."""

    @property
    def unclear(self) -> bool:
        """Of a create: whether the existence of its machine is unknown."""
        return self.create.unclear and not self.known

    def left(self) -> list[str]:
        """Sentences about what may remain of it."""
        if self.destroying and self.guessed:
            return ["the machine may still be there"]
        if self.destroying:
            return ["the machine may still be there", "the key of its minion may still be accepted"]
        return [SAYS[undo] for undo in self.create.to_undo()]


def replay(records: Iterable[Mapping[str, Any]]) -> list[Unfinished]:
    """The unfinished creates and destroys of a journal, oldest first; unknown records are skipped."""
    found: dict[str, Unfinished] = {}
    for record in records:
        run, what = str(record.get("run") or ""), record.get("what")
        if what in ("create", "destroy"):
            found[run] = _begun(run, record)
        elif run in found:
            _continue(found, run, record)
    return list(found.values())


def _begun(run: str, record: Mapping[str, Any]) -> Unfinished:
    return Unfinished(
        run,
        str(record.get("name") or ""),
        str(record.get("provider") or ""),
        str(record.get("profile") or ""),
        str(record.get("minion_id") or ""),
        float(record.get("at") or 0.0),
        int(record.get("pid") or 0),
        Create(bool(record.get("minion"))),
        destroying=record["what"] == "destroy",
        identity=str(record.get("id") or ""),
        guessed=bool(record.get("guessed")),
        since=float(record.get("at") or 0.0),
    )


def _continue(found: dict[str, Unfinished], run: str, record: Mapping[str, Any]) -> None:
    one, step = found[run], str(record.get("step") or "")
    if record.get("what") != "undone":
        one.since = float(record.get("at") or one.since)
    match record.get("what"):
        case str() as what if what in NOTES:
            one.create.note(what, str(record.get("id") or ""))
        case "begin" if step in {str(known) for known in Step}:
            one.create.begun.append(Step(step))
        case "end" if step in {str(known) for known in Step}:
            one.create.ended.append(Step(step))
            one.token_id = str(record.get("token_id") or one.token_id)
            one.create.identity = str(record.get("id") or one.create.identity)
        case "undone" if step in {str(known) for known in Undo}:
            one.create.rolled_back(Undo(step))
        case "failed":
            one.reason = str(record.get("reason") or "")
            one.known = record.get("unclear") is False
        case "over":
            del found[run]


CREATING = ("creating", "requesting", "deploying", "created")
DESTROYING = ("destroying", "destroyed")
"""The events of a create, and of a destroy."""

TEXTS: Mapping[str, str] = {
    "creating": "starting create",
    "requesting": "requesting instance",
    "deploying": "deploying salt minion",
    "created": "created instance",
    "destroying": "destroying instance",
    "destroyed": "destroyed instance",
}
"""The field `event` of their data."""


@dataclass(slots=True)
class Announcer:
    """Keeps the events of a create or destroy complete, in order, and fired once each.

    Each method returns the events to fire now, as (name, data). The last event is held until `made`.
    """

    basics: Mapping[str, Any]
    """Fields of every event: name, profile, provider, driver."""
    order: tuple[str, ...]
    fired: list[str] = field(default_factory=list)
    held: dict[str, Any] = field(default_factory=dict)

    def begun(self, data: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
        """The driver is about to be called; `data` are further fields of the first event."""
        return self.continued(self.order[0], data)

    def continued(self, what: str, data: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
        """The driver or the deployment fires an event."""
        if what not in TEXTS:
            return [(what, {**data, **self.basics})]
        if what == self.order[-1]:
            self.held = dict(data)
            return []
        if what not in self.order or self.order.index(what) < len(self.fired):
            return []
        return [*self._missing(what), self._fire(what, data)]

    def made(self, data: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
        """The create or destroy is complete; `data` are fields of the last event."""
        last = self.order[-1]
        return [*self._missing(last), self._fire(last, {**data, **self.held})]

    def _missing(self, what: str) -> list[tuple[str, dict[str, Any]]]:
        """The events before `what` that the driver did not fire."""
        return [self._fire(one, {}) for one in self.order[len(self.fired) : self.order.index(what)]]

    def _fire(self, what: str, data: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        self.fired.append(what)
        return what, {"event": TEXTS[what], **data, **self.basics}


def order_of_create(*, deploys: bool) -> tuple[str, ...]:
    """The events of a create; `deploying` only with a deployment."""
    return tuple(one for one in CREATING if deploys or one != "deploying")
