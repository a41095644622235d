"""How the processes of a master open its store and its inventory, and how its first start prepares the store."""

from __future__ import annotations

import importlib
import os
import select
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

from saltlite.errors import MisconfiguredError, StartupError
from saltlite.master.processes import identity
from saltlite.master.store.database_clock import DatabaseClock
from saltlite.master.store.ports import Store
from saltlite.model.keys import KeyState
from saltlite.platform.daemon import SystemClock
from saltlite.platform.privileges import drop_to
from saltlite.platform.supervision import notify
from saltlite.targeting.banks import Banks

if TYPE_CHECKING:
    from saltlite.config.master import MasterConfig
    from saltlite.files.server import SharedAreas
    from saltlite.master.store.sharing import SharedStore
    from saltlite.model.clock import Clock
    from saltlite.resources.registry.mmap import ResourceRegistry

EXTEND_S = 40.0
"""Seconds by which the start timeout of systemd is extended, repeatedly, while the store is prepared; less than
TimeoutStartSec."""
SEALED_KEYS, SEALED_VALUES, SEALED_COPIES = "keys of minions", "values of cache banks", "files of saltlite cp"
"""What `identity.seal_key` makes a key for."""


def prepare_store(config: MasterConfig, load: Callable[[bytes | None], Callable[[], Store]]) -> int:
    """Open or create the store as its user. Returns the number of accepted keys.

    `load` imports the store while this process is still root, and gets the key that it is sealed with. The first start
    that shares the store creates shared.key and seals the content of the store; later ones check the seals. Raises
    StartupError when the store cannot be used.
    """
    if not config.several_masters:
        return opened_as(config.user, lambda: load(seal_key_of(config)))
    if identity.shared_key(config.pki_dir) is not None:
        return opened_as(config.user, lambda: _opener(load(seal_key_of(config)), lambda store: store.check_seals()))
    seal_key = identity.derived_key(identity.begin_shared_key(config.pki_dir), SEALED_KEYS)
    accepted = opened_as(config.user, lambda: _opener(load(seal_key), lambda store: store.seal_rows()))
    identity.use_shared_key(config.pki_dir)
    return accepted


def _opener(open_store: Callable[[], Store], work: Callable[[Any], None]) -> Callable[[], Store]:
    """Opens the store, and does that work on it, which is a store in PostgreSQL."""

    def opened() -> Store:
        store = open_store()
        work(store)
        return store

    return opened


def opened_as(user: str, load: Callable[[], Callable[[], Store]]) -> int:
    """Open or create the store as that user, in a child process; returns the number of accepted keys. Raises
    StartupError."""
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
        # A large store of an older format is copied, which may take minutes, so the start timeout of systemd is
        # extended.
        while not select.select([pipe], [], [], EXTEND_S / 2)[0]:
            notify([f"EXTEND_TIMEOUT_USEC={int(EXTEND_S * 1e6)}", "STATUS=preparing the store"])
        output = pipe.read().decode(errors="replace")
    _, status = os.waitpid(pid, 0)
    if status != 0:
        raise StartupError(output or "the store could not be opened")
    return int(output)


def seal_key_of(config: MasterConfig) -> bytes | None:
    """The key that seals the keys of minions in the database; None if the store was never shared. Raises
    StartupError."""
    if identity.shared_key(config.pki_dir) is None:
        return None
    return identity.seal_key(config.pki_dir, SEALED_KEYS)


def load_postgres() -> ModuleType:
    """The module of the store in PostgreSQL. Raises MisconfiguredError without its driver."""
    try:
        return importlib.import_module("saltlite.master.store.postgres")
    except ImportError as error:
        raise MisconfiguredError(
            f"`database` is set, and its driver is not installed ({error}): pip install 'saltlite[postgres]'"
        ) from error


def loaded_inventory(config: MasterConfig) -> Callable[[Store], tuple[ResourceRegistry, Banks]]:
    """How to open the resource registry and the cache banks. Imports them, and reads what values are sealed with,
    before root's rights are dropped. Raises StartupError."""
    from saltlite.master.store.banks import LocalBanks  # noqa: PLC0415 - the link process never loads them
    from saltlite.resources.registry.mmap import ResourceRegistry  # noqa: PLC0415 - as above

    opts = {"cachedir": config.cachedir, "registry_fsync": config.registry_fsync}
    if not config.several_masters:
        return lambda _store: (ResourceRegistry(opts), LocalBanks(config.cachedir))
    from saltlite.master.store.projection import Projection  # noqa: PLC0415 - for a shared store only

    seal_key = identity.seal_key(config.pki_dir, SEALED_VALUES)

    def opened(store: Store) -> tuple[ResourceRegistry, Banks]:
        projection = Projection(cast("SharedStore", store).inventory(), opts, seal_key)
        return projection.registry, projection.banks

    return opened


def clock_of(config: MasterConfig, store: Store) -> Clock:
    """The clock for times that a process writes to the store."""
    return DatabaseClock(SystemClock(), cast("SharedStore", store)) if config.several_masters else SystemClock()


def loaded_areas(config: MasterConfig) -> Callable[[Store], SharedAreas | None]:
    """Opens the areas in which masters share the files of `saltlite cp`, if they do; see `loaded_inventory`."""
    if not config.several_masters:
        return lambda _store: None
    from saltlite.master.store.copies import SharedCopies  # noqa: PLC0415 - for a shared store only

    seal_key = identity.seal_key(config.pki_dir, SEALED_COPIES)
    return lambda store: SharedCopies(cast("SharedStore", store).inventory(), seal_key, clock_of(config, store))
