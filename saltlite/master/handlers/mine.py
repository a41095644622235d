"""The mine: values that minions store on the master for other minions to read.

The bank `mine` has the values of a minion by name, each as its encoded bytes with their digest and the target of the
minions that may read it; `mine_times` has when the minion last confirmed each. A minion offers digests first, and sends
only values that the master does not have, so an unchanged mine costs one small request. The master does not decode
values for minions: their readers decode them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from saltlite.auth.acl import PEER, Principal
from saltlite.auth.logins import external
from saltlite.errors import RefusedError, RemoteProtocolError, UsageError
from saltlite.master.handlers.targets import refuse_pillar_guesses, target_of
from saltlite.master.processes.context import Answer, Master
from saltlite.master.processes.fleet import MineValue
from saltlite.model.ids import MinionId
from saltlite.model.job import Target, TargetKind
from saltlite.model.sha256 import sha256
from saltlite.targeting.banks import MINE, MINE_MAX, MINE_TIMES
from saltlite.targeting.fleet import STEPS_MAX, Budget, BudgetError
from saltlite.wire import codec
from saltlite.wire.limits import MIB

FUNCTIONS_MAX = 256
"""The most values in the mine of one minion."""
NAME_MAX = 128
"""The longest name of a value, in characters."""
ALLOWED_MAX = 4096
"""Characters of `allow_tgt`."""
ALLOWED_STEPS, ALLOWED_STEPS_OF_A_MINION = STEPS_MAX // 100, 40
"""Budget steps for the `allow_tgt` of all values of one owner in one request, and as many more for each accepted
minion. So one owner cannot use up the budget of the reader."""
ANSWER_MAX = 16 * MIB
"""The most bytes of values in one answer. A request for more is refused."""
PAGE_BYTES = 4 * MIB
"""An answer to an operator ends after so many bytes of values, and the client asks for the rest."""


# -- what minions ask


def put(master: Master, minion: MinionId, fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """Store values of a minion. Takes `offers`, name -> [digest, allow_tgt, allow_tgt_type], `values`, name -> encoded
    value for some of these, and `clear`, whether values that are not offered are removed.

    Answers `wanted`, the names whose values the master does not have.
    """
    offers, values, clear = fields.get("offers"), fields.get("values"), fields.get("clear")
    if not isinstance(offers, dict) or not isinstance(values, dict) or not isinstance(clear, bool):
        raise UsageError("a mine is offered as maps of digests and values")
    bank, now = master.banks.bank(MINE), master.clock.wall()
    known = {name: MineValue(*row) for name, row in (bank.get(minion) or {}).items()}
    kept = {} if clear else dict(known)
    wanted = []
    for name, offer in offers.items():
        digest, allow_tgt, allow_tgt_type = _checked_offer(name, offer)
        data = values.get(name)
        if isinstance(data, bytes) and sha256(data) == digest:
            kept[name] = MineValue(digest, data, allow_tgt, allow_tgt_type)
        elif name in known and known[name].digest == digest:
            kept[name] = known[name]._replace(allow_tgt=allow_tgt, allow_tgt_type=allow_tgt_type)
        else:
            wanted.append(name)
            if name in known:
                kept[name] = known[name]
    if len(kept) + len(set(wanted).difference(kept)) > FUNCTIONS_MAX:
        raise RefusedError(f"a mine has at most {FUNCTIONS_MAX} values")
    if sum(len(value.data) for value in kept.values()) > MINE_MAX:
        raise RefusedError(f"the values of a mine have at most {MINE_MAX} bytes")
    if kept != known:
        bank.put(minion, {name: list(value) for name, value in kept.items()})
    times = master.banks.bank(MINE_TIMES)
    confirmed = dict.fromkeys(set(offers).difference(wanted), now)
    earlier = {name: at for name, at in (times.get(minion) or {}).items() if name in kept}
    times.put(minion, {**earlier, **confirmed})
    return {"wanted": wanted}


def delete(master: Master, minion: MinionId, fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """Remove values of a minion: those in the list `functions`, or all without it."""
    names = fields.get("functions")
    bank = master.banks.bank(MINE)
    if names is None:
        bank.delete(minion)
        master.banks.bank(MINE_TIMES).delete(minion)
        return {}
    if not isinstance(names, list):
        raise UsageError("`functions` is a list of names")
    known = bank.get(minion) or {}
    kept = {name: row for name, row in known.items() if name not in names}
    if kept != known:
        bank.put(minion, kept)
    return {}


def get_for(master: Master, minion: MinionId, fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """Values of minions that this minion may read. Takes `tgt`, `tgt_type`, `functions`, and `max_age`, seconds since a
    value was confirmed (0 for any). Answers `values`: name -> minion -> encoded value."""
    tgt, tgt_type, functions = fields.get("tgt"), fields.get("tgt_type"), fields.get("functions")
    max_age = fields.get("max_age", 0)
    if not isinstance(tgt, str) or not isinstance(tgt_type, str) or not isinstance(max_age, int | float):
        raise UsageError("a target and its type are text, and an age is a number of seconds")
    target = target_of({"tgt": tgt, "tgt_type": tgt_type})
    refuse_pillar_guesses(master, external(PEER, minion, ()), target)
    readers = _Readers(master, minion)
    values: dict[str, dict[str, bytes]] = {name: {} for name in _names(functions)}
    size = 0
    for owner, name, value in _selected(master, target, values):
        if max_age and _age(master, owner, name) > max_age:
            continue
        if not value.allow_tgt or readers.may_read(owner, value):
            values[name][owner] = value.data
            size += len(value.data)
            if size > ANSWER_MAX:
                raise RefusedError(f"these values have more than {ANSWER_MAX // MIB} MiB: name fewer minions")
    return {"values": values}


def _checked_offer(name: object, offer: object) -> tuple[bytes, str, str]:
    if not isinstance(name, str) or not 1 <= len(name) <= NAME_MAX or not name.isprintable():
        raise UsageError(f"the name of a value in the mine has 1 to {NAME_MAX} printable characters")
    match offer:
        case [bytes() as digest, str() as allow_tgt, str() as allow_tgt_type] if len(allow_tgt) <= ALLOWED_MAX:
            if allow_tgt_type not in TargetKind.__members__.values():
                raise UsageError(f"{name}: there is no target type {allow_tgt_type[:40]!r} for allow_tgt_type")
            return digest, allow_tgt, allow_tgt_type
    raise UsageError(f"{name}: allow_tgt is a target of at most {ALLOWED_MAX} characters")


def _names(functions: object) -> list[str]:
    if not isinstance(functions, list) or not 1 <= len(functions) <= FUNCTIONS_MAX:
        raise UsageError(f"name 1 to {FUNCTIONS_MAX} functions of the mine")
    return [str(name) for name in functions]


def _selected(master: Master, target: Target, names: Collection[str]) -> Iterable[tuple[MinionId, str, MineValue]]:
    """The values of these names of the minions that the target selects, in the order of their ids."""
    minions = sorted(master.resolve(target).minions)
    master.mines.follow()
    for minion in minions:
        mine = master.mines.of(minion)
        for name in names:
            if name in mine:
                yield minion, name, mine[name]


def _age(master: Master, minion: MinionId, name: str) -> float:
    """Seconds since the minion confirmed the value."""
    at = (master.banks.bank(MINE_TIMES).get(minion) or {}).get(name, 0.0)
    return max(0.0, master.clock.wall() - float(at))


class _Readers:
    """Decides which values one minion may read, during one request."""

    def __init__(self, master: Master, reader: MinionId) -> None:
        self._master = master
        self._reader = reader
        self._budgets: dict[MinionId, Budget] = {}
        self._known: dict[tuple[str, str], bool] = {}

    def may_read(self, owner: MinionId, value: MineValue) -> bool:
        """Whether `allow_tgt` selects the reader. An invalid target, or one that exceeds the owner's budget, selects
        nobody.

        Raises BudgetError when the targets of all owners have used up the budget of the request.
        """
        key = value.allow_tgt, value.allow_tgt_type
        found = self._known.get(key)
        if found is not None:
            return found
        master, whole = self._master, self._master.budget
        steps = ALLOWED_STEPS + ALLOWED_STEPS_OF_A_MINION * len(master.store.accepted_set())
        master.budget = own = self._budgets.setdefault(owner, Budget(steps))
        before = own.left
        try:
            chosen = master.resolve(Target(value.allow_tgt, TargetKind(value.allow_tgt_type)))
            self._known[key] = self._reader in chosen.minions
        except BudgetError:
            return False  # the budget of the next owner may suffice
        except UsageError:
            self._known[key] = False
        finally:
            master.budget = whole
            whole.spend(max(0.0, before) - max(0.0, own.left))
        return self._known[key]


# -- what operators ask


def handle_mine_get(master: Master, principal: Principal, request: Mapping[str, Any]) -> Answer:
    """Answers `values`: name -> minion -> [value, seconds since the minion confirmed it], of the minions of the target
    behind `after`; and `more`: the client asks for those behind `last`. Operators read every value."""
    target, names = target_of(request), _names(request["functions"])
    refuse_pillar_guesses(master, principal, target)
    values: dict[str, dict[str, Sequence[Any]]] = {name: {} for name in names}
    after, size, last = request.get("after", ""), 0, ""
    for owner, name, value in _selected(master, target, values):
        if owner <= after:
            continue
        if size > PAGE_BYTES and owner != last:
            return Answer({"values": values, "more": True, "last": last})
        values[name][owner] = [_decoded(value.data), _age(master, owner, name)]
        size, last = size + len(value.data), owner
    return Answer({"values": values, "more": False, "last": last})


def _decoded(data: bytes) -> Any:
    try:
        return codec.decode(data, codec.LOCAL)
    except RemoteProtocolError as error:
        return f"This value cannot be read: {error}"
