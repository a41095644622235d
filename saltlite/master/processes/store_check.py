"""The first look at the store, before any process of the master needs it."""

from __future__ import annotations

import os
from collections.abc import Callable

from saltlite.errors import StartupError
from saltlite.master.store.ports import Store
from saltlite.model.keys import KeyState
from saltlite.platform.privileges import drop_to


def prepare_store(load: Callable[[], Callable[[], Store]], user: str) -> int:
    """Create the store, or find out that it cannot be used, as the user that will use it, in a process of its own.

    `load` loads what opens it, while this is still root's process. How many keys of minions it has accepted. Raises
    StartupError.
    """
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            os.close(reading)
            open_store = load()
            drop_to(user)
            store = open_store()
            os.write(writing, str(store.count_keys(KeyState.ACCEPTED)).encode())
            store.close()
            status = 0
        except Exception as error:  # noqa: BLE001 - named supervision point: the last frame of a child process
            os.write(writing, str(error).encode()[:4096])
        finally:
            os._exit(status)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        said = pipe.read().decode(errors="replace")
    _, status = os.waitpid(pid, 0)
    if status != 0:
        raise StartupError(said or "the store could not be opened")
    return int(said)
