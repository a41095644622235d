"""The end of a machine, and of all that is known of it: its events, its minion's key, its place in the cache."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from saltlite.cloud.api import port
from saltlite.cloud.api.exceptions import SaltCloudException, SaltCloudExecutionFailure
from saltlite.cloud.program.drivers import ACTION, Driver
from saltlite.cloud.program.keys import MinionKeys
from saltlite.cloud.program.program import Program
from saltlite.cloud.rules.flow import DESTROYING, Announcer, Undo
from saltlite.cloud.rules.minionconfig import minion_id
from saltlite.errors import SaltliteError


def destroy(program: Program, driver: Driver, name: str) -> Any:
    """Destroy a machine; what its driver answers. Raises SaltCloudException, which says what is left.

    It may be gone already, when an earlier attempt was cut off: then the rest is done.
    """
    identity = driver.ids().get(name, "")
    minion, guessed = minion_of(program, driver, name, identity)
    run = os.urandom(8).hex()
    program.journal.begin(
        "destroy", run, name=name, provider=driver.name, minion_id=minion, guessed=guessed, id=identity
    )
    answer = destroy_machine(program, driver, name)
    _close_earlier(program, driver, name, identity, run)
    forget_machine(program, driver, name, minion, guessed=guessed)
    program.journal.write(run, "over")
    return answer


def machine_of(ids: Mapping[str, str], name: str, identity: str) -> str:
    """The name by which the machine that its provider calls `identity` is listed in `ids`, "" for none.

    One of its name counts where its provider says no ids, or did not say this one.
    """
    named = [one for one in (name, *ids) if identity and ids.get(one) == identity]
    if named:
        return named[0]
    return name if name in ids and not (identity and ids[name]) else ""


def destroy_machine(program: Program, driver: Driver, name: str) -> Any:
    """Destroy the machine itself, with its events. Raises SaltCloudException."""
    program.progress(name, "is destroyed")
    basics = {"name": name, "provider": driver.name, "driver": driver.provider.driver}
    with port.running(program):
        program.events.announce(name, Announcer(basics, DESTROYING), {})
        try:
            answer = driver.call("destroy", name, call=ACTION)
        except BaseException:
            program.events.abandon(name)
            raise
    if not answer:
        program.events.abandon(name)
        raise SaltCloudExecutionFailure(f"driver {driver.provider.driver} did not destroy {name}")
    program.events.finish(name, {})
    return answer


def forget_machine(program: Program, driver: Driver, name: str, minion: str, *, guessed: bool) -> None:
    """Delete the key of its minion, and what is kept of it. Raises SaltCloudException when the master does not.

    The key of an id that is only guessed stays, and somebody is told: it may be that of a minion somewhere else.
    """
    keys = MinionKeys(program.ask)
    try:
        if guessed:
            stays = keys.has_any(minion)
        elif minion:
            keys.delete_all(minion)
    except SaltliteError as error:
        raise SaltCloudException(
            f"{name}: the machine is destroyed, but the key of its minion may still be accepted: {error}; "
            f"`saltlite cloud --clean` tries again, `saltlite key delete {minion}` does it by hand"
        ) from error
    program.cache.drop(driver.name, name)
    if guessed and stays:
        program.progress(
            name,
            f"is destroyed; a key of {minion} stays, for nothing here says that it was made for this machine: "
            f"`saltlite key delete {minion}`, if it was",
        )
        return
    program.progress(name, "is destroyed, with its key" if minion and not guessed else "is gone")


def minion_of(program: Program, driver: Driver, name: str, identity: str) -> tuple[str, bool]:
    """The id of the minion on a machine, and whether it is guessed: that it was made with, "" for none, or what it
    would be by name, when nothing is kept of this machine.
    """
    own = program.cache.own(driver.name, name)
    known = own.get("minion_id")
    if known is not None and (not identity or own.get("id", "") in ("", identity)):
        return str(known), False
    return minion_id({"name": name, "append_domain": program.config.append_domain}), True


def _close_earlier(program: Program, driver: Driver, name: str, identity: str, run: str) -> None:
    """What dead commands have left of this machine goes with it: tokens, keys, lines. Raises SaltliteError."""
    keys = MinionKeys(program.ask)
    for one in program.journal.unfinished():
        of_it = one.identity if one.destroying else one.create.identity
        other = of_it and identity and of_it != identity
        if one.run == run or (one.name, one.provider) != (name, driver.name) or other:
            continue
        if one.token_id and Undo.VOID_TOKEN in one.create.to_undo():
            keys.void_token(one.token_id)
        if one.token_id:
            keys.delete_of_token(one.minion_id, one.token_id, one.at)
        program.journal.write(one.run, "over")
