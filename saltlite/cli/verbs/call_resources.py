"""`saltlite call --resources`: functions on the resources in this machine's pillar, and on the machine itself."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from saltlite.cli.in_process import VALUE_MAX, Ran, caller, chain_of, new_jid, printing_to_stderr, run_calls
from saltlite.client.arguments import parse_arguments, split_calls
from saltlite.errors import NoTargetError, UsageError
from saltlite.loader.call import ERROR_OUTPUTTER, Outcome
from saltlite.loader.encode import decode_return
from saltlite.minion.jobs.returns import Returns
from saltlite.minion.resources.calls import LocalContext, LocalType, Work, chain_timing, local_types
from saltlite.model.dataclass import dataclass
from saltlite.model.ids import MinionId, TargetId, parse_srn
from saltlite.model.job import Target, TargetState
from saltlite.model.plain import labels
from saltlite.model.signature import by_name
from saltlite.targeting import resolve
from saltlite.targeting.memory_fleet import Member, MemoryFleet

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from saltlite.loader.call import Call
    from saltlite.loader.loader import Loader
    from saltlite.minion.resources.discovery import Declared
    from saltlite.model.execution import Execution
    from saltlite.targeting.fleet import Selection
    from saltlite.wire.messages import SegmentRow


@dataclass(frozen=True, slots=True)
class Machine:
    """The machine that manages the resources, with its own functions."""

    opts: Mapping[str, Any]
    grains: Mapping[str, Any]
    pillar: Mapping[str, Any]
    loader: Loader
    texts: Sequence[str]
    """The text of `saltlite.model.signature` for each of its functions."""

    @property
    def id(self) -> MinionId:
        return MinionId(self.opts["id"])


def run_on_targets(machine: Machine, declared: Declared, target: Target, words: Sequence[str], asked: Execution) -> Ran:
    """Run functions on what the target selects; the value is that of the only target, or a map of all.

    `words` are as on the command line. A resource without the function is skipped, unless the target names it. Raises
    UsageError for a malformed target or words, NoTargetError when nothing is selected.
    """
    began, jid = time.monotonic(), new_jid()
    returns = Returns(machine.id, VALUE_MAX, "", 0)
    with printing_to_stderr():
        types = local_types(
            declared, LocalContext(machine.opts, machine.grains, machine.pillar, machine.loader, returns)
        )
    try:
        calls = _calls(words, [machine.texts, *(one.texts for one in types)])
        selection = _selection(machine, types, target)
        outcomes: dict[TargetId, Outcome] = {}
        if machine.id in selection.minions:
            outcomes[machine.id] = run_calls(machine.loader, calls, jid, chain_of(machine.loader, asked)).outcome
        chain = chain_of(machine.loader, asked, threads=True)
        with printing_to_stderr():
            for one in types:
                srns = _able(one, selection, calls)
                rows = one.run(srns, Work(jid, calls, caller(), chain, chain_timing(chain, srns)))
                outcomes |= {srn: _outcome(row) for srn, row in rows.items()}
    finally:
        for one in types:
            one.close()
    if not outcomes:
        raise NoTargetError(f"no resource that {target.expression} selects has {words[0]}")
    return Ran(jid, calls, _joined(outcomes), time.monotonic() - began)


def _calls(words: Sequence[str], texts: Sequence[Sequence[str]]) -> list[Call]:
    if "." not in words[0]:
        raise UsageError(f"{words[0]!r} is not a function: it is written MODULE.FUNCTION, as in test.ping")
    found = [by_name(some) for some in texts]
    calls: list[Call] = []
    for fun, rest in split_calls(words[0], words[1:]):
        args, kwargs = parse_arguments(rest, [some[fun] for some in found if fun in some])
        calls.append((fun, args, kwargs))
    return calls


def _selection(machine: Machine, types: Sequence[LocalType], target: Target) -> Selection:
    resources = {srn: grains for one in types for srn, grains in one.grains.items()}
    fleet = MemoryFleet({machine.id: Member(machine.grains, machine.pillar, resources)})
    selection = resolve(target, fleet)
    if not selection.minions and not selection.resources:
        hint = "" if resources else "; the pillar declares them: set pillar_roots or minion_pillar_cache here"
        raise NoTargetError(f"nothing here matches {target.expression}: {len(resources)} resources were found{hint}")
    return selection


def _able(one: LocalType, selection: Selection, calls: Sequence[Call]) -> list[TargetId]:
    """The selected resources of that type that have the functions, or are named."""
    known = by_name(one.texts)
    has_all = all(fun in known for fun, _args, _kwargs in calls)
    mine = sorted(srn for srn in selection.resources if parse_srn(srn).type == one.name)
    return [srn for srn in mine if has_all or srn in selection.named]


def _outcome(row: SegmentRow) -> Outcome:
    if row.state is not TargetState.RETURNED:
        return Outcome(row.reason, row.retcode, ERROR_OUTPUTTER)
    warnings = (f"{row.srn}: {row.reason}",) if row.reason else ()
    return Outcome(decode_return(row.body, VALUE_MAX), row.retcode, warnings=warnings)


def _joined(outcomes: Mapping[TargetId, Outcome]) -> Outcome:
    if len(outcomes) == 1:
        return next(iter(outcomes.values()))
    names = labels([one for one in outcomes if ":" not in one], [one for one in outcomes if ":" in one])
    return Outcome(
        {names[one]: outcome.value for one, outcome in outcomes.items()},
        next((outcome.retcode for outcome in outcomes.values() if outcome.retcode), 0),
        warnings=tuple(warning for outcome in outcomes.values() for warning in outcome.warnings),
    )
