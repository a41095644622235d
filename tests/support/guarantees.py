"""What happened in a run, and whether the guarantees G1 to G9 held: for the simulation and for real processes.

A run notes events as they happen; `check` reads them afterwards, and `GuaranteeChecker` while they are written. Each
kind has these fields (ids and names are text, lists are lists: everything is kept as JSON lines). What is called
`minion` is a target: a minion, or a resource by its SRN. Then `owners` says which minion manages each (SRN -> minion),
and `on` the machine where it happened.

    asked      client, request                    a client asks to publish
    published  client, request, jid, minions      ... and has the jid: from here on the job survives (G1)
               [, owners]
    entered    jid, minion, run [, on]            a function was entered; `run` is any id of that entry
    left       jid, minion, run                   ... and returned
    spooled    jid, minion [, digest, on]         its result is in that minion's spool (G6 counts from here)
    unsynced   jid, minion                        ... and the power failed before the result had to be on disk
    received   jid, minion [, on]                 a job frame reached that minion's job server (G3)
    stored     jid, minion, sender, state [, ret] the master committed a terminal state; `sender` is the id of the
                                                  session that said it, "" for what the master set itself; `state` is
                                                  what the target's row says after it, for the first one stands;
                                                  `ret`: it came with a return (left out: when state is `returned`)
    shown      client, jid, minion, seq           a client that follows by cursor printed that return
    closed     client, jid, missing [, asked_at]  a client ended, and called these minions missing; `asked_at` is when
                                                  it sent the master its last question: what was stored later is not
                                                  missed
    acted      who, what, minion                  a master acted on a session of a key that a command had revoked (S5)
    fault      what, who                          something was broken on purpose
    healed     -                                  nothing is broken from here on
    lost_disk  minion                             its disk died with all that was on it
    final      jid, targets {id: state}, returns {id: count} [, request, owners, digests {id: digest}]
                                                  what the store holds at the end; one a job

The `final` events are taken when every job had deliver-by + run-timeout + 60 s of connected time after `healed`:
that is how the bound of G5 is checked, by whoever runs the fleet.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

OPEN = frozenset({"planned", "queued", "received", "running"})
"""The states that are not terminal; written out here, so that the check does not lean on what it checks."""

NEVER_RAN = frozenset({"expired", "refused"})
"""The states that tell a user that the function was not entered."""


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened, `at` seconds of the run's own clock."""

    at: float
    kind: str
    fields: Mapping[str, Any]

    def __str__(self) -> str:
        told = " ".join(f"{name}={value}" for name, value in self.fields.items())
        return f"{self.at:12.4f} {self.kind:9} {told}"


@dataclass(frozen=True, slots=True)
class Violation:
    """A guarantee that did not hold: which one ("G4"), what is wrong in a sentence, and the events that show it."""

    guarantee: str
    sentence: str
    events: tuple[Event, ...] = ()

    def __str__(self) -> str:
        return f"{self.guarantee}: {self.sentence}"


class History:
    """The events of one run, in the order in which they were noted. Threads may note at the same time."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.events: list[Event] = []
        self._clock = clock
        self._lock = threading.Lock()

    def note(self, kind: str, **fields: Any) -> None:
        """Something of this kind happened now."""
        with self._lock:
            self.events.append(Event(self._clock(), kind, fields))

    def save(self, path: Path) -> None:
        """Write the events as JSON lines."""
        rows = [json.dumps({"at": event.at, "kind": event.kind, **event.fields}) for event in self.events]
        path.write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> History:
        """The events that `save` wrote, or that several processes appended; sorted by time."""
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        history = cls(lambda: 0.0)
        history.events = sorted((Event(row.pop("at"), row.pop("kind"), row) for row in rows), key=lambda e: e.at)
        return history


def check(history: History) -> list[Violation]:
    """Every violation of G1 to G9 in a run that is over."""
    checker = GuaranteeChecker()
    found = [violation for event in history.events for violation in checker.feed(event)]
    return found + checker.close()


@dataclass(slots=True)
class _Job:
    """What is known of one jid so far."""

    published: list[Event] = field(default_factory=list)
    final: Event | None = None
    touched: dict[str, Event] = field(default_factory=dict)
    """By minion: the first event that shows that the job reached it."""
    entered: dict[str, Event] = field(default_factory=dict)
    spooled: dict[str, Event] = field(default_factory=dict)
    stored: dict[str, Event] = field(default_factory=dict)
    """By minion: the terminal state that stands."""
    unjudged: list[Event] = field(default_factory=list)
    """What was stored of resources before anybody said which minion manages them."""
    returned: dict[str, Event] = field(default_factory=dict)
    shown: dict[str, dict[str, Event]] = field(default_factory=dict)
    """By client, by minion."""

    def owner(self, target: str) -> str | None:
        """The minion that is the target or manages it; None as long as nobody has said."""
        told = [event for event in (*self.published, self.final) if event is not None]
        owner: str | None = told[0].fields.get("owners", {}).get(target, target) if told else None
        return owner

    def targets(self) -> frozenset[str] | None:
        """Who it was for, as far as anybody has said."""
        if self.published:
            return frozenset(self.published[0].fields["minions"])
        return None if self.final is None else frozenset(self.final.fields["targets"])


class GuaranteeChecker:
    """Checks one event at a time. A violation that one event shows is reported at once, the others by `close`."""

    def __init__(self) -> None:
        self._jobs: dict[str, _Job] = {}
        self._requests: dict[str, Event] = {}
        self._lost: dict[str, list[float]] = {}

    def feed(self, event: Event) -> Iterator[Violation]:
        """Take one event in; what it breaks. Iterate over the answer: the work is done on the way."""
        rule = _RULES.get(event.kind)
        if rule is not None:
            yield from rule(self, event)

    def close(self) -> list[Violation]:
        """The run is over, and every `final` was fed: what is missing now is missing for good."""
        return [violation for jid, job in self._jobs.items() for violation in self._at_the_end(jid, job)]

    # -- one event

    def _published(self, event: Event) -> Iterator[Violation]:
        f = event.fields
        yield from self._once(event)
        job = self._job(event)
        for other in job.published:
            if other.fields["request"] != f["request"]:
                yield _broken("G2", f"{f['jid']} was given to two requests", other, event)
            elif set(other.fields["minions"]) != set(f["minions"]):
                yield _broken("G1", f"the target list of {f['jid']} changed", other, event)
        job.published.append(event)
        yield from self._outside(f["jid"], job)
        yield from self._judge(job)

    def _reached(self, event: Event) -> Iterator[Violation]:
        job, minion = self._job(event), event.fields["minion"]
        if minion not in job.touched:
            job.touched[minion] = event
            yield from self._outside(event.fields["jid"], job, only=minion)

    def _entered(self, event: Event) -> Iterator[Violation]:
        yield from self._reached(event)
        job, minion = self._job(event), event.fields["minion"]
        before = job.entered.get(minion)
        if before is not None and not self._disk_died(before):
            yield _broken("G4", f"{minion} entered {event.fields['jid']} a second time", before, event)
        job.entered[minion] = event

    def _spooled(self, event: Event) -> Iterator[Violation]:
        # The first one counts: after it was handed over and forgotten, a minion may take the job for interrupted.
        spooled, minion = self._job(event).spooled, event.fields["minion"]
        if minion not in spooled or self._disk_died(spooled[minion]):
            spooled[minion] = event
        yield from ()

    def _unsynced(self, event: Event) -> Iterator[Violation]:
        self._job(event).spooled.pop(event.fields["minion"], None)
        yield from ()

    def _stored(self, event: Event) -> Iterator[Violation]:
        f, job = event.fields, self._job(event)
        minion = f["minion"]
        yield from self._foreign(event, job)
        targets = job.targets()
        if targets is not None and minion not in targets:
            yield _broken("G8", f"{f['jid']} was never for {minion}, and a result of it was stored", event)
        before = job.stored.setdefault(minion, event)
        if before.fields["state"] != f["state"]:
            yield _broken("G5", f"{minion} ended {f['jid']} twice", before, event)
        if _is_return(event):
            if minion in job.returned:
                yield _broken("G7", f"two returns of {minion} for {f['jid']} were stored", job.returned[minion], event)
            job.returned[minion] = event

    def _shown(self, event: Event) -> Iterator[Violation]:
        f = event.fields
        seen = self._job(event).shown.setdefault(f["client"], {})
        if f["minion"] in seen:
            yield _broken("G7", f"{f['client']} saw {f['minion']} twice for {f['jid']}", seen[f["minion"]], event)
        elif seen and f["seq"] <= max(e.fields["seq"] for e in seen.values()):
            yield _broken("G7", f"{f['client']} saw sequence number {f['seq']} of {f['jid']} out of order", event)
        seen[f["minion"]] = event

    def _closed(self, event: Event) -> Iterator[Violation]:
        f, job = event.fields, self._job(event)
        seen = job.shown.get(f["client"], {})
        for minion, stored in job.returned.items():
            if minion in seen or stored.at > f.get("asked_at", event.at):
                continue
            if minion in f["missing"] and "asked_at" not in f and job.stored[minion] is not stored:
                # It had ended without a return, and the client was told so; its late return was on the way.
                continue
            if minion in f["missing"]:
                yield _broken("G9", f"{f['client']} called {minion} missing, whose return was stored", stored, event)
            else:
                yield _broken("G7", f"{f['client']} never saw the return of {minion} for {f['jid']}", stored, event)

    def _lost_disk(self, event: Event) -> Iterator[Violation]:
        self._lost.setdefault(event.fields["minion"], []).append(event.at)
        yield from ()

    def _final(self, event: Event) -> Iterator[Violation]:
        f, job = event.fields, self._job(event)
        job.final = event
        if "request" in f:
            yield from self._once(event)
        yield from self._outside(f["jid"], job)
        yield from self._judge(job)

    def _acted(self, event: Event) -> Iterator[Violation]:
        f = event.fields
        yield _broken("S5", f"{f['who']} {f['what']} {f['minion']}, whose key had been revoked", event)

    # -- more than one event

    def _once(self, event: Event) -> Iterator[Violation]:
        f = event.fields
        before = self._requests.setdefault(f["request"], event)
        if before.fields["jid"] != f["jid"]:
            yield _broken("G2", f"request {f['request']} became {before.fields['jid']} and {f['jid']}", before, event)

    def _outside(self, jid: str, job: _Job, *, only: str = "") -> Iterator[Violation]:
        targets = job.targets()
        for minion in [only] if only else list(job.touched):
            if targets is None:
                return
            event = job.touched[minion]
            if minion not in targets:
                yield _broken("G3", f"{minion} was given {jid}, which is not for it", job.touched.pop(minion))
            elif _machine(event) != job.owner(minion):
                yield _broken("G3", f"{_machine(event)} was given {jid} for {minion}, which it does not manage", event)

    def _judge(self, job: _Job) -> Iterator[Violation]:
        unjudged, job.unjudged = job.unjudged, []
        for stored in unjudged:
            yield from self._foreign(stored, job)

    def _foreign(self, stored: Event, job: _Job) -> Iterator[Violation]:
        f = stored.fields
        if job.targets() is None and ":" in f["minion"]:
            # Who manages it is said when the job was published, or at the end.
            job.unjudged.append(stored)
        elif f["sender"] not in ("", job.owner(f["minion"]) or f["minion"]):
            yield _broken("G8", f"{f['sender']} had something stored for {f['minion']}", stored)

    def _at_the_end(self, jid: str, job: _Job) -> Iterator[Violation]:
        if job.final is None:
            if job.published:
                yield _broken("G1", f"{jid} was published, and the store does not have it", *job.published)
            elif job.touched:
                yield _broken("G3", f"{jid} reached a minion, and no store has it", *job.touched.values())
            return
        final, f = job.final, job.final.fields
        if job.published and set(f["targets"]) != set(job.published[0].fields["minions"]):
            yield _broken("G1", f"the store has other targets for {jid} than were published", job.published[0], final)
        for minion, state in f["targets"].items():
            if state in OPEN:
                yield _broken("G5", f"{minion} is {state} with {jid}, and nothing will change that", final)
            if state in NEVER_RAN and minion in job.entered and not self._disk_died(job.entered[minion]):
                yield _broken("G5", f"{jid} is {state} on {minion}, where it ran", job.entered[minion], final)
            if minion in job.stored and state != job.stored[minion].fields["state"]:
                yield _broken("G5", f"the end of {jid} on {minion} changed", job.stored[minion], final)
        for minion, count in f["returns"].items():
            if count > 1:
                yield _broken("G7", f"the store has {count} returns of {minion} for {jid}", final)
            if minion not in f["targets"]:
                yield _broken("G8", f"the store has a return of {minion}, for which {jid} was not", final)
        yield from self._results(jid, job, final)

    def _results(self, jid: str, job: _Job, final: Event) -> Iterator[Violation]:
        returns, digests = final.fields["returns"], final.fields.get("digests", {})
        for minion, digest in digests.items():
            if digest and final.fields["targets"].get(minion) == "interrupted":
                yield _broken("G5", f"{minion} is called interrupted with {jid}, whose result is stored", final)
        for minion, spooled in job.spooled.items():
            excused = final.fields["targets"].get(minion) == "revoked" or self._disk_died(spooled)
            if not excused and not returns.get(minion):
                yield _broken("G6", f"the result of {minion} for {jid} is lost", spooled, final)
            elif excused or (minion in job.returned and job.returned[minion].at < spooled.at):
                # It was handed over from memory, and what the minion wrote later is not what counts.
                continue
            elif minion in digests and spooled.fields.get("digest") not in (None, digests[minion]):
                yield _broken("G6", f"the result of {minion} for {jid} is another one than it had", spooled, final)
        for minion, stored in job.returned.items():
            if not returns.get(minion):
                yield _broken("G7", f"the return of {minion} for {jid} was stored, and is gone", stored, final)
        for client, seen in job.shown.items():
            for minion, shown in seen.items():
                if not returns.get(minion):
                    yield _broken("G7", f"{client} saw a return of {minion} for {jid} that is not stored", shown)

    # -- small things

    def _job(self, event: Event) -> _Job:
        return self._jobs.setdefault(event.fields["jid"], _Job())

    def _disk_died(self, after: Event) -> bool:
        return any(at >= after.at for at in self._lost.get(_machine(after), ()))


_RULES: dict[str, Callable[[GuaranteeChecker, Event], Iterable[Violation]]] = {
    "published": GuaranteeChecker._published,
    "received": GuaranteeChecker._reached,
    "entered": GuaranteeChecker._entered,
    "spooled": GuaranteeChecker._spooled,
    "unsynced": GuaranteeChecker._unsynced,
    "stored": GuaranteeChecker._stored,
    "shown": GuaranteeChecker._shown,
    "closed": GuaranteeChecker._closed,
    "lost_disk": GuaranteeChecker._lost_disk,
    "final": GuaranteeChecker._final,
    "acted": GuaranteeChecker._acted,
}


def _machine(event: Event) -> str:
    """The minion where that happened."""
    where: str = event.fields.get("on", event.fields["minion"])
    return where


def _is_return(event: Event) -> bool:
    return bool(event.fields.get("ret", event.fields["state"] == "returned"))


def _broken(guarantee: str, sentence: str, *events: Event) -> Violation:
    return Violation(guarantee, sentence, events)


def report(violations: Sequence[Violation]) -> str:
    """The violations and the events behind each, for people."""
    lines = [line for v in violations for line in (str(v), *(f"    {event}" for event in v.events))]
    return "\n".join(lines)
