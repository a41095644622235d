"""What commands that died have left: shown, gone on with, or taken back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from saltlite.cloud.api.exceptions import SaltCloudException, SaltCloudSystemExit
from saltlite.cloud.program.create import Creation
from saltlite.cloud.program.destroy import destroy_machine, forget_machine, machine_of
from saltlite.cloud.program.program import Program
from saltlite.cloud.rules.flow import Step, Undo, Unfinished


def shown(program: Program) -> list[dict[str, Any]]:
    """What was begun and not ended, those first that were begun first."""
    return [
        {
            "name": one.name,
            "run": one.run,
            "id": one.identity or one.create.identity,
            "provider": one.provider,
            "profile": one.profile,
            "minion": one.minion_id,
            "what": "destroy" if one.destroying else "create",
            "at": one.at,
            "running": one.pid if alive else None,
            "reason": one.reason,
            "left": [] if alive else one.left(),
        }
        for one, alive in program.journal.everything()
    ]


def by_label(runs: Sequence[Unfinished]) -> dict[str, Unfinished]:
    """Each of them by the name of its machine, or by name and run where several have one name."""
    often = Counter(one.name for one in runs)
    return {one.name if often[one.name] == 1 else f"{one.name} ({one.run})": one for one in runs}


def destroys(runs: Mapping[str, Unfinished]) -> list[str]:
    """Of those that are to be taken back: each machine that would be destroyed, as it can be told to a person."""
    return [
        f"{one.name} ({one.provider}, {one.identity or one.create.identity or 'whatever has this name'})"
        for one in runs.values()
        if one.destroying or Undo.DESTROY_MACHINE in one.create.to_undo()
    ]


def clean(program: Program, one: Unfinished) -> str:
    """Take back what a create has left, end what a destroy has begun; a sentence. Raises SaltCloudException."""
    if one.destroying:
        driver = program.driver(program.catalogue.provider(one.provider))
        ids = driver.ids()
        there = machine_of(ids, one.name, one.identity)
        if there:
            destroy_machine(program, driver, there)
        if there != one.name and one.name in ids:
            program.journal.write(one.run, "over")
            return f"it is gone; the machine of its name is another ({ids[one.name]}), and stays with its minion"
        forget_machine(program, driver, one.name, one.minion_id, guessed=one.guessed)
        program.journal.write(one.run, "over")
        return "its destruction is complete"
    left = Creation.taken_up(program, _machine(program, one), one).take_back()
    if left:
        raise SaltCloudException("\n".join(f"{one.name}: {text}" for text in left))
    return "what was half made is taken back"


def resume(program: Program, one: Unfinished) -> Mapping[str, Any]:
    """Go on with a create whose machine is made. Raises SaltCloudSystemExit when it is not, CreateFailed."""
    if one.destroying or Step.MAKE_MACHINE not in one.create.ended:
        raise SaltCloudSystemExit(
            f"{one.name}: nobody knows how far it came, so it cannot be gone on with: `saltlite cloud --clean` takes "
            "it back, and it can be made anew"
        )
    return Creation.taken_up(program, _machine(program, one), one).resume()


def _machine(program: Program, one: Unfinished) -> dict[str, Any]:
    """The machine by its profile, as far as that is still configured."""
    profile = program.catalogue.profiles.get(one.profile)
    if profile is not None:
        vm_ = program.machine(one.name, profile)
    else:
        vm_ = {"name": one.name, "profile": one.profile, "driver": one.provider.rpartition(":")[2]}
    return {**vm_, "provider": one.provider, "deploy": one.create.minion, "minion": {"id": one.minion_id}}
