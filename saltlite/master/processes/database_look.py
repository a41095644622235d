"""How `saltlite doctor` examines the master's database, as the master's user."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from saltlite.errors import SaltliteError, StoreError
from saltlite.master.processes.store_opening import load_postgres
from saltlite.platform.privileges import drop_to

if TYPE_CHECKING:
    from saltlite.config.master import MasterConfig

ANSWER_MAX = 64 * 1024


def look_at_database(config: MasterConfig) -> dict[str, Any]:
    """The result of `saltlite.master.store.postgres.look`, which changes nothing. Raises SaltliteError."""
    postgres = load_postgres()
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(reading)
            # The server may authenticate users by their local names (peer), and only this user can read the passfile.
            drop_to(config.user)
            answer = {"seen": postgres.look(config.database)}
        except Exception as error:  # noqa: BLE001 - named supervision point: the last frame of a child process
            answer = {"problem": str(error)}
        os.write(writing, json.dumps(answer).encode()[:ANSWER_MAX])
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        output = pipe.read()
    os.waitpid(pid, 0)
    try:
        told: dict[str, Any] = json.loads(output)
    except ValueError as error:
        raise SaltliteError("the look at the database was cut short") from error
    if "problem" in told:
        raise StoreError(told["problem"])
    seen: dict[str, Any] = told["seen"]
    return seen
