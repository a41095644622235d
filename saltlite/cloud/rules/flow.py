"""The way of one machine, from a profile to an accepted minion, and back when something fails.

    step              what is done                              undone by
    CHECK_NAME        nobody has that name                      -
    MAKE_TOKEN        a join token for this one minion          VOID_TOKEN
    MAKE_MACHINE      the driver makes and deploys it           DESTROY_MACHINE, DELETE_KEY
    WAIT_FOR_MINION   its minion is accepted and answers        -
    FINISH            watchers are told                         -

A machine that is not to be a minion has neither token nor waiting. A step counts from its begin: whoever began to make
a machine may have made it. The token is made void first, so that nobody joins by it while the rest is undone; the key
is deleted last, when there is no machine that could come back with it.

Of a machine that was asked for and is not there, one of its name may be another's. So what a driver says on its way is
kept: that it asks now, that the provider refused, what the provider calls the machine. What was certainly not made is
not destroyed, and what has an id is destroyed by it.

The begin and the end of each step are written to the journal, so that another process can do what this one could not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Step(StrEnum):
    """What is done forwards."""

    CHECK_NAME = "check-name"
    MAKE_TOKEN = "make-token"  # noqa: S105 - the name of a step
    MAKE_MACHINE = "make-machine"
    WAIT_FOR_MINION = "wait-for-minion"
    FINISH = "finish"


class Undo(StrEnum):
    """What is done backwards."""

    VOID_TOKEN = "void-token"  # noqa: S105 - as above
    DESTROY_MACHINE = "destroy-machine"
    DELETE_KEY = "delete-key"


FORWARDS = tuple(Step)
MINIONS_ONLY = frozenset({Step.MAKE_TOKEN, Step.WAIT_FOR_MINION})
UNDONE_BY: Mapping[Step, tuple[Undo, ...]] = {
    Step.MAKE_TOKEN: (Undo.VOID_TOKEN,),
    Step.MAKE_MACHINE: (Undo.DESTROY_MACHINE, Undo.DELETE_KEY),
}
BACKWARDS = (Undo.VOID_TOKEN, Undo.DESTROY_MACHINE, Undo.DELETE_KEY)

SAYS: Mapping[Undo, str] = {
    Undo.VOID_TOKEN: "its join token is still good until it expires",
    Undo.DESTROY_MACHINE: "the machine is still there",
    Undo.DELETE_KEY: "the key of its minion may still be accepted",
}
"""What is left where an undo did not work, or was not wanted."""


NOTES = ("announced", "requested", "refused", "made")
"""What drivers say on their way, as the journal has it."""


@dataclass(slots=True)
class Create:
    """One create: `begun` are the steps that were begun, `undone` what was taken back."""

    minion: bool
    """Whether the machine is to be a minion."""
    begun: list[Step] = field(default_factory=list)
    ended: list[Step] = field(default_factory=list)
    undone: set[Undo] = field(default_factory=set)
    announced: bool = False
    """Whether its driver has fired an event: one that did fires `requesting` before it asks for a machine."""
    requested: bool = False
    refused: bool = False
    """Whether its driver said that the provider made nothing."""
    identity: str = ""
    """What the provider calls the machine, as soon as anybody knows."""

    @property
    def may_be_made(self) -> bool:
        """Whether there may be a machine of this create."""
        if self.identity:
            return True
        return Step.MAKE_MACHINE in self.begun and not self.refused and (self.requested or not self.announced)

    @property
    def unclear(self) -> bool:
        """Whether nobody can know if there is one: it was asked for, and there was no answer."""
        return self.may_be_made and not self.identity and Step.MAKE_MACHINE not in self.ended

    def note(self, what: str, identity: str = "") -> bool:
        """What a driver said on its way: one of NOTES. Whether it is news."""
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
        """The step to do now, None when all are done."""
        for step in FORWARDS:
            if step not in self.ended and (self.minion or step not in MINIONS_ONLY):
                return step
        return None

    def begin(self, step: Step) -> None:
        """The step is begun; it must be the next one."""
        if step is not self.next():
            raise ValueError(f"{step} is not what comes next")
        self.begun.append(step)

    def end(self, step: Step) -> None:
        """The step was done."""
        if step not in self.begun:
            raise ValueError(f"{step} was not begun")
        self.ended.append(step)

    @property
    def complete(self) -> bool:
        """Whether there is nothing to do any more."""
        return self.next() is None

    def to_undo(self, *, keep_machine: bool = False) -> list[Undo]:
        """What is to be taken back, in order. A machine that is kept keeps its key."""
        wanted = {undo for step in self.begun for undo in UNDONE_BY.get(step, ())} - self.undone
        if not self.minion:
            wanted.discard(Undo.DELETE_KEY)
        if not self.may_be_made:
            wanted.discard(Undo.DESTROY_MACHINE)
        if keep_machine:
            wanted -= {Undo.DESTROY_MACHINE, Undo.DELETE_KEY}
        return [undo for undo in BACKWARDS if undo in wanted]

    def took_back(self, undo: Undo) -> None:
        """This was taken back."""
        self.undone.add(undo)


@dataclass(slots=True)
class Unfinished:
    """A create or destroy that no process has ended, as the journal tells it."""

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
    """Of a destroy: what the provider calls the machine, "" where it does not say."""
    guessed: bool = False
    """Of a destroy: whether `minion_id` is only what the name of the machine suggests."""
    known: bool = False
    """Whether its command, when it failed, knew that what is not listed is not there."""
    since: float = 0.0
    """When its command last did something forwards, or failed: seconds since 1970."""

    @property
    def unclear(self) -> bool:
        """Of a create: whether nobody can know if there is a machine."""
        return self.create.unclear and not self.known

    def left(self) -> list[str]:
        """Sentences about what may be left of it."""
        if self.destroying and self.guessed:
            return ["the machine may still be there"]
        if self.destroying:
            return ["the machine may still be there", "the key of its minion may still be accepted"]
        return [SAYS[undo] for undo in self.create.to_undo()]


def replay(records: Iterable[Mapping[str, Any]]) -> list[Unfinished]:
    """What is unfinished by the records of a journal, in the order in which it was begun; odd records are left out."""
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
            one.create.took_back(Undo(step))
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
"""What `event` of their data says."""


@dataclass(slots=True)
class Announcer:
    """Sees to it that the events of a create or destroy are fired once, in order, and none is missing.

    Each method answers the events to fire now, as (name, data). The last one waits until the core says that it is true.
    """

    basics: Mapping[str, Any]
    """What every one of them has: name, profile, provider, driver."""
    order: tuple[str, ...]
    fired: list[str] = field(default_factory=list)
    held: dict[str, Any] = field(default_factory=dict)

    def begun(self, data: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
        """The driver is called now; `data` is what the first event has besides."""
        return self.said(self.order[0], data)

    def said(self, what: str, data: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
        """The driver, or the deployment, fires this event."""
        if what not in TEXTS:
            return [(what, {**data, **self.basics})]
        if what == self.order[-1]:
            self.held = dict(data)
            return []
        if what not in self.order or self.order.index(what) < len(self.fired):
            return []
        return [*self._missing(what), self._fire(what, data)]

    def made(self, data: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
        """What was announced is true now; `data` is what is known of it."""
        last = self.order[-1]
        return [*self._missing(last), self._fire(last, {**data, **self.held})]

    def _missing(self, what: str) -> list[tuple[str, dict[str, Any]]]:
        """Those that come before `what` and were forgotten."""
        return [self._fire(one, {}) for one in self.order[len(self.fired) : self.order.index(what)]]

    def _fire(self, what: str, data: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        self.fired.append(what)
        return what, {"event": TEXTS[what], **data, **self.basics}


def order_of_create(*, deploys: bool) -> tuple[str, ...]:
    """The events of a create: without a deployment nobody deploys."""
    return tuple(one for one in CREATING if deploys or one != "deploying")
