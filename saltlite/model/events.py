"""Events: the tags that the core uses, who may write other tags (rule R13), and filters on tag and data.

A minion's events always get tags below `minion/<its id>/`, or below `salt/beacon/<its id>/`. Otherwise only the core
writes below `salt`, `minion` and `resource`. So the tag alone identifies the sender.

A filter names a field of the data with dots, as in `data.version`; a number selects an item of a list. The filter
matches when the value is plain (text, number, true, false, none) and its text matches the glob. A missing field, a list
and a map match nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any

from saltlite.errors import UsageError
from saltlite.model.dataclass import dataclass
from saltlite.model.ids import Jid, MinionId, TargetId


@dataclass(frozen=True, slots=True)
class Event:
    """One row of the event log. `at` is wall-clock seconds since 1970; `seq` is the reader's cursor.

    A row that cannot be read (it is damaged, or an older version stored what the law of plain values refuses) says in
    `damage` why not, and has no data. Readers leave it out, say so, and go on behind it.
    """

    tag: str
    data: Mapping[str, Any]
    at: float
    seq: int = 0
    damage: str = ""


TIME_LINE_BITS = 32
"""The number of an event has that of the database's time line above these bits: a server that is promoted begins
another one, of which the events have numbers that no event of an earlier one had. Whoever has read events that the
server lacks misses none of those that come, and takes none for another."""


def count_after(after: int, last: int) -> int:
    """How many events at least have a number above `after`, up to `last`: of an earlier time line none is counted."""
    return max(0, last - max(after, last >> TIME_LINE_BITS << TIME_LINE_BITS))


TAG_MAX = 512
"""Characters of a tag."""
SENT_BY = "_run"
"""The field of the data of an event that has the jid of the runner that sent it."""
BEACON = "salt/beacon"
"""Tags of beacons begin so; the id of their minion follows."""
OWNED = ("salt", "minion", "resource")
"""First parts of tags that only the core writes."""


def parse_tag(text: object) -> str:
    """The tag in `text`: 1 to TAG_MAX characters that can be shown in one line. Raises UsageError."""
    if isinstance(text, str) and 1 <= len(text) <= TAG_MAX and text.isprintable() and text.strip("/ "):
        return text
    raise UsageError(
        f"{str(text)[:40]!r} is not the tag of an event: it has 1 to {TAG_MAX} printable characters, as in app/deployed"
    )


def parse_free_tag(text: object) -> str:
    """A tag that people may write. Raises UsageError for one that only the core writes."""
    tag = parse_tag(text)
    first = tag.lstrip("/ ").partition("/")[0].strip().lower()
    if first in OWNED:
        raise UsageError(
            f"tags that begin with {first}/ are written by the master alone, so that they can be believed: "
            "choose another first word, as in app/deployed"
        )
    return tag


def tag_of_minion(minion: MinionId, written: str) -> str:
    """Where an event of that minion stands: below its own name, be it written in the tag already or not.

    Those of its beacons have Salt's tags, which have the name of the minion, too.
    """
    own = f"minion/{minion}/"
    return written if written.startswith((own, f"{BEACON}/{minion}/")) else own + written.lstrip("/")


def tag_beacon(minion: MinionId, name: str, about: str) -> str:
    """A beacon of a minion has seen something; `about` is what, and may be empty."""
    return f"{BEACON}/{minion}/{name}/{about}"


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


def tag_job_turn(jid: Jid) -> str:
    """It is the turn of further targets of a batch: for the masters that share the store."""
    return f"salt/job/{jid}/turn"


def tag_run_new(jid: Jid) -> str:
    """A runner was begun."""
    return f"salt/run/{jid}/new"


def tag_run_return(jid: Jid) -> str:
    """A runner has ended."""
    return f"salt/run/{jid}/ret"


def tag_wheel_new(jid: Jid) -> str:
    """A wheel function was begun."""
    return f"salt/wheel/{jid}/new"


def tag_wheel_return(jid: Jid) -> str:
    """A wheel function has ended."""
    return f"salt/wheel/{jid}/ret"


def tag_hook(path: str) -> str:
    """A program elsewhere said something to the API; `path` may be empty."""
    return f"salt/netapi/hook/{path}" if path else "salt/netapi/hook"


def tag_cloud(machine: str, what: str) -> str:
    """Something happened to a machine of a cloud: `creating`, `requesting` ..."""
    return f"salt/cloud/{machine}/{what}"


def tag_job_return(jid: Jid, target: TargetId) -> str:
    """A return was committed."""
    return f"salt/job/{jid}/ret/{target}"


def tag_job_returners(jid: Jid) -> str:
    """A job was committed that names returners."""
    return f"salt/job/{jid}/returners"


def tag_hook_event(name: str, what: str) -> str:
    """A hook of the configuration has `fired`, or why not: `refused`, `limited`, `loop`, `stale`."""
    return f"salt/hook/{name}/{what}"


def tag_returner(name: str, what: str) -> str:
    """Returns or events did not get to a returner: they were `lost` or `dropped`."""
    return f"salt/returner/{name}/{what}"


def tag_pillar_ended(minion: MinionId) -> str:
    """The evaluation of a minion's pillar took too much, and was ended."""
    return f"salt/pillar/{minion}/ended"


CLONE_SUSPECT = "clone-suspect"
"""The `act` of an event `tag_auth` that changes no key: two machines seem to share it."""


class MasterEvent(StrEnum):
    """What happens to a master that shares its store, and what it asks the others and answers."""

    JOINED = "joined"
    """It has begun anew, and the others need its certificate."""
    FENCED = "fenced"
    """Its sessions were ended, because it did not renew its lease or apply a change in time."""
    PROMOTED = "promoted"
    """It found another server of the database, which was promoted."""
    DRAINED = "drained"
    DRAIN_ENDED = "drain ended"
    REMOVED = "removed"
    FETCH = "fetch"
    """It asks for what it does not have of minions of the others."""
    ASKED = "asked"
    """It asks when the others last saw some minions."""
    SEEN = "seen"
    """The answer to that."""
    CONTESTED = "contested"
    """Other machines have come to it with the keys of minions of the others: are theirs alive?"""
    CONTEST_OVER = "contest_over"
    """The answer to that."""


def tag_master(name: str, what: MasterEvent) -> str:
    """Something of MasterEvent happened to this master, or was asked or answered by it."""
    return f"salt/master/{name}/{what}"


def tag_turn_ended(process: str) -> str:
    """A process of the master was ended, for its turn was over its time: which work, and for how long."""
    return f"salt/master/{process}/turn_ended"


def tag_audit_head() -> str:
    """The number and the hash of the last entry of a chain of the audit log."""
    return "salt/audit/head"


def tag_resource_refresh(minion: MinionId) -> str:
    """What a minion manages was registered anew."""
    return f"resource/refresh/{minion}"


def tag_resource_conflict(minion: MinionId) -> str:
    """A minion says that it manages resources of others: how many, the first names, and who has them now."""
    return f"resource/conflict/{minion}"


def tag_resource_missing(minion: MinionId) -> str:
    """A minion does not find many of its resources any more: they stay for now, were found again, or went."""
    return f"resource/missing/{minion}"


def tag_resource_refused(minion: MinionId) -> str:
    """Something that a minion said about resources was refused."""
    return f"resource/refused/{minion}"


def tag_resource_id_collision(minion: MinionId) -> str:
    """What a minion registered has the bare ids of resources that others manage."""
    return f"resource/namesake/{minion}"


def tag_resource_registry() -> str:
    """The registry lost rows to damage, or has all of them again."""
    return "resource/registry"


# -- Filters


MISSING: Any = object()
"""What `field_of` answers for a field that is not there."""

DIGITS_MAX = 20
"""Characters of the longest integer that a key may be."""


def field_of(data: Any, path: str) -> Any:
    """The value of a field, MISSING when there is none. A key with dots in its name is found by its whole rest."""
    here = data
    parts = path.split(".")
    for number, part in enumerate(parts):
        if isinstance(here, Mapping):
            whole = ".".join(parts[number:])
            if part not in here and whole in here:
                return here[whole]
            here = here[part] if part in here else _under_number(here, part)
        elif isinstance(here, Sequence) and not isinstance(here, str | bytes) and part.isascii() and part.isdigit():
            here = here[int(part)] if len(part) < 10 and int(part) < len(here) else MISSING
        else:
            return MISSING
        if here is MISSING:
            return MISSING
    return here


def _under_number(here: Mapping[Any, Any], part: str) -> Any:
    """The value under a key that is an integer: a path has text only, as JSON has."""
    if len(part) <= DIGITS_MAX and part.removeprefix("-").isascii() and part.removeprefix("-").isdigit():
        return here.get(int(part), MISSING)
    return MISSING


def text_of(value: Any) -> str | None:
    """The one text of a plain value, as YAML writes it; None for anything else."""
    if isinstance(value, str):
        return value
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else None


def matches(data: Any, wanted: Mapping[str, str]) -> bool:
    """Whether each of these fields is there and matches its glob."""
    for path, glob in wanted.items():
        value = field_of(data, path)
        text = None if value is MISSING else text_of(value)
        if text is None or not fnmatchcase(text, glob):
            return False
    return True
