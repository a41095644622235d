"""The end of a machine, and of all that is known of it: its events, its minion's key, its place in the cache."""

from __future__ import annotations

import os
from typing import Any

from saltlite.cloud.drivers import ACTION, Driver
from saltlite.cloud.keys import MinionKeys
from saltlite.cloud.program import Program
from saltlite.cloudapi import port
from saltlite.cloudapi.exceptions import SaltCloudException, SaltCloudExecutionFailure
from saltlite.core.cloud.flow import DESTROYING, Announcer
from saltlite.core.cloud.minionconfig import minion_id
from saltlite.errors import SaltliteError


def destroy(program: Program, driver: Driver, name: str) -> Any:
    """Destroy a machine; what its driver answers. Raises SaltCloudException, which says what is left.

    It may be gone already, when an earlier attempt was cut off: then the rest is done.
    """
    minion = minion_of(program, driver, name)
    run = os.urandom(8).hex()
    program.journal.begin("destroy", run, name=name, provider=driver.name, minion_id=minion)
    answer = destroy_machine(program, driver, name)
    forget_machine(program, driver, name, minion)
    program.journal.write(run, "over")
    return answer


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


def forget_machine(program: Program, driver: Driver, name: str, minion: str) -> None:
    """Delete the key of its minion, and what is kept of it. Raises SaltCloudException when the master does not."""
    try:
        if minion:
            MinionKeys(program.ask).delete_all(minion)
    except SaltliteError as error:
        raise SaltCloudException(
            f"{name}: the machine is destroyed, but the key of its minion may still be accepted: {error}; "
            f"`saltlite cloud --clean` tries again, `saltlite key delete {minion}` does it by hand"
        ) from error
    program.cache.drop(driver.name, name)
    program.progress(name, "is destroyed, with its key" if minion else "is gone")


def minion_of(program: Program, driver: Driver, name: str) -> str:
    """The id of the minion on a machine: that it was made with, "" for none, or what it would be by name."""
    known = program.cache.own(driver.name, name).get("minion_id")
    return str(known if known is not None else minion_id({"name": name, "append_domain": program.config.append_domain}))
