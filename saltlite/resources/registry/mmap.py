"""The resource registry of a master, in one mapped file that all its processes share.

`ResourceRegistry` opens it from the options of the configuration, and `FilePrimary` stores its rows.
`saltlite.resources.registry.mmap_file` is the open file, its repair and its compaction, `layout` the format of records
and slots, `registry` the effect of a registration.

Writers wait for each other with `flock` on `<path>.lock`; readers never wait. A commit appends and syncs records,
enters slots, and publishes the state, so the next writer can complete or cut off the work of a killed one. When another
file replaces this one (growth, compaction, repair), a word of the header tells the readers. They update their views to
the end of the old file and continue in the new one.
"""

from __future__ import annotations

import gc
import logging
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import accumulate, islice
from typing import Any

from saltlite.errors import DamagedError, StoreError
from saltlite.model.dataclass import dataclass
from saltlite.platform.files import WriteLock
from saltlite.resources.registry.layout import (
    CAPACITY_MAX,
    CAPACITY_MIN,
    GROW_TWICE,
    INCOMPLETE,
    LOAD_MAX,
    SLOT,
    Change,
    NoRoomError,
    State,
    capacity_for,
    changes_in,
    encoded,
)
from saltlite.resources.registry.mmap_file import (
    GROWN,
    PACKED,
    Rebuild,
    RegistryFile,
    Salvaged,
    finished_end,
    problems_in,
    rewritten,
    roll_forward,
    salvage,
    sync_folder,
)
from saltlite.resources.registry.registry import (
    PROBLEMS_MAX,
    Conflict,
    Figures,
    Follower,
    MemoryPrimary,
    MemoryRows,
    Primary,
    Registration,
    Registry,
    Verification,
    Yields,
    never,
)

log = logging.getLogger(__name__)


CHECKPOINT_BYTES = 256 * 1024
"""Bytes of log that are entered again after a power failure, for a small index; a large one is synced after half its
size."""

CROWD = 64
"""A table that many times as large as its rows need has space for any clustering of fingerprints."""

DAMAGED = ".damaged"
REPAIRED = ".repaired"
_FLAGS = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW


@dataclass(frozen=True, slots=True)
class Environment:
    """Entropy, time and boot id for the registry."""

    entropy: Callable[[int], bytes]
    wall_ns: Callable[[], int]
    boot: bytes
    """16 bytes that change with each start of the machine."""
    report: Callable[[str], None]
    """Takes a sentence about damage, for the log."""


class FilePrimary:
    """The port `saltlite.resources.registry.registry.Primary` over the file `path`, created on demand.

    `capacity` is the minimum of a new table; with `sync` a commit is on disk when it returns, without it a power
    failure may lose the last ones. Raises StoreError when the folder cannot be used.
    """

    def __init__(self, path: str, world: Environment, *, capacity: int, sync: bool) -> None:
        self._path = path
        self.boot = world.boot
        self._world = world
        self._capacity = capacity
        self._sync = sync
        self._lock = WriteLock(f"{path}.lock")
        self._follower: Follower | None = None
        self._position: int | None = None
        self._seen = -1
        self._file: RegistryFile | None = None
        with _as_store_errors(path):
            os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
            with self._lock:
                self._tidy()
                self._file = self._found_or_made()
                self._settle()

    # -- reading

    def get(self, key: bytes) -> bytes | None:
        try:
            return self._now().value(key)
        except DamagedError as error:
            self._heal(error)
            return self._now().value(key)
        except OSError as error:
            raise _store_error(self._path, error) from error

    def follow(self, follower: Follower) -> None:
        self._follower, self._position = follower, None

    def refresh(self) -> None:
        file = self._now()
        if self._position is not None and file.committed() == self._seen:
            return
        with _as_store_errors(self._path):
            try:
                self._feed(file)
            except DamagedError as error:
                self._position = None
                self._heal(error)
                self._feed(self._now())

    def generation(self) -> int:
        return self._now().committed()

    def version(self) -> str:
        """The file, and its last commit: a file that was made anew counts its commits from the beginning."""
        file = self._now()
        return f"{file.header.incarnation.hex()} {file.committed()}"

    def content_version(self) -> tuple[int, int]:
        with _as_store_errors(self._path):
            found = os.stat(self._path)
        return found.st_ino, found.st_mtime_ns

    def figures(self) -> Figures:
        file = self._now()
        with _as_store_errors(self._path):
            state = file.state()
        return Figures(
            rows=state.live,
            capacity=file.header.capacity,
            used=state.used,
            records=state.records,
            size=state.tail,
            generation=state.commit,
            incomplete=bool(state.flags & INCOMPLETE),
            path=self._path,
        )

    # -- writing

    @contextmanager
    def writing(self) -> Iterator[None]:
        self._now()
        with _as_store_errors(self._path), self._lock:
            self._settle()
            yield

    def commit(self, changes: Sequence[Change]) -> None:
        lines = encoded(changes)
        try:
            self._commit(changes, lines)
        except DamagedError as error:
            # A row that had to be compared is damaged. The repair does not trust the appended records.
            self._heal(error)
            self._commit(changes, lines)

    def _commit(self, changes: Sequence[Change], lines: Sequence[bytes]) -> None:
        file = self._now()
        state = file.state()
        puts = sum(value is not None for _, value in changes)
        if state.used + puts > LOAD_MAX * file.header.capacity:
            self._grow(state.live + puts)
            file = self._now()
            state = file.state()
        checkpoint = state.checkpoint
        if state.tail - checkpoint > max(CHECKPOINT_BYTES, file.header.capacity * SLOT // 2):
            file.sync()
            checkpoint = state.tail
        end = file.append(lines, state.tail, sync=self._sync)
        offsets = accumulate(map(len, lines[:-1]), initial=state.tail)
        try:
            rows, used = file.enter(changes, offsets)
        except NoRoomError:
            self._grow(state.live + puts, pending=end)
        else:
            declared = State(
                commit=state.commit + 1,
                tail=end,
                live=state.live + rows,
                used=state.used + used,
                records=state.records + len(changes),
                checkpoint=checkpoint,
                flags=state.flags,
                boot=state.boot,
            )
            file.declare(declared)
            if self._follower is not None and self._position == state.tail:
                # The follower had everything before this, so it need not read its own commit.
                self._follower.apply(changes)
                self._position, self._seen = end, declared.commit
        self._now().touch(self._world.wall_ns())

    def declare_complete(self) -> None:
        with self.writing():
            file = self._now()
            state = file.state()
            if state.flags & INCOMPLETE:
                file.declare(replace(state, commit=state.commit + 1, flags=state.flags & ~INCOMPLETE))

    # -- maintenance

    def compact(self) -> None:
        with _as_store_errors(self._path), WriteLock(f"{self._path}.compact.lock").unless_taken() as alone:
            if alone:
                try:
                    self._compact()
                except DamagedError as error:
                    self._heal(error)

    def _compact(self) -> None:
        old = self._now()
        capacity = capacity_for(old.state().live, self._capacity)
        try:
            rebuild = self._rebuild(old, PACKED, capacity, squeeze=True)
        except NoRoomError:
            rebuild = self._rebuild(old, PACKED, 2 * capacity, squeeze=True)
        try:
            rebuild.catch_up()
            with self._lock:
                self._settle()
                # A table that grew meanwhile is in another file: this one is useless now.
                if self._file is old:
                    rebuild.publish()
        finally:
            rebuild.drop()
        self._now()

    def _grow(self, rows: int, *, pending: int | None = None) -> None:
        """Give the rows a larger table, with the lock held. `pending`: end of a transaction that did not fit."""
        old = self._now()
        capacity, state = capacity_for(rows, self._capacity), old.state()
        if capacity <= GROW_TWICE:
            capacity *= 2
        if pending is not None:
            capacity = max(capacity, 2 * old.header.capacity)
        while True:
            try:
                rebuild = self._rebuild(old, GROWN, capacity, squeeze=state.records > 2 * state.live)
                try:
                    rebuild.publish(pending)
                finally:
                    rebuild.drop()
            except NoRoomError:
                capacity *= 2
                if capacity > CROWD * capacity_for(rows, self._capacity):
                    raise StoreError(f"the registry {self._path} finds no place for its rows: compact it") from None
            else:
                break
        self._now()

    def _rebuild(self, old: RegistryFile, suffix: str, capacity: int, *, squeeze: bool) -> Rebuild:
        entropy = self._world.entropy(16)
        # A million short-lived pairs: the collector would scan them, and all views, without effect.
        with _no_collector():
            return Rebuild(old, self._path, suffix=suffix, capacity=capacity, entropy=entropy, squeeze=squeeze)

    def verify(self) -> Verification:
        with _as_store_errors(self._path):
            if self._problems():
                # Check again with the lock: only what is still wrong is damage.
                with self.writing():
                    if problems := self._problems():
                        aside = self._heal(DamagedError(problems[0]))
                        return Verification(self.figures().rows, problems, aside)
            return Verification(self.figures().rows, (), "")

    def _problems(self) -> tuple[str, ...]:
        file = self._now()
        try:
            return tuple(islice(problems_in(file, file.state()), PROBLEMS_MAX))
        except DamagedError as error:
            return (str(error),)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._lock.close()
        self._file = None

    # -- the file, and its successor

    def _tidy(self) -> None:
        """With the lock: remove unfinished files of dead writers and compactions."""
        with WriteLock(f"{self._path}.compact.lock").unless_taken() as alone:
            for suffix in (GROWN, REPAIRED, *([PACKED] if alone else [])):
                with suppress(FileNotFoundError):
                    os.unlink(self._path + suffix)

    def _now(self) -> RegistryFile:
        """The file that is the registry now; the follower is updated if it is another one."""
        file = self._file
        if file is None:
            raise StoreError(f"the registry {self._path} was closed: open it again")
        if file.superseded():
            with _as_store_errors(self._path):
                self._move_on(file)
            return self._file or file
        return file

    def _feed(self, file: RegistryFile) -> None:
        if self._follower is None:
            return
        state = file.state()
        file.reach(state.tail)
        if self._position is None:
            self._follower.clear()
            self._position = file.header.log_start
        self._follower.apply(changes_in(file.log, self._position, state.tail))
        self._position, self._seen = state.tail, state.commit

    def _move_on(self, old: RegistryFile) -> None:
        """Open the file that has the name, if it is not this one."""
        if self._inode() == old.inode:
            return
        if self._position is not None:
            try:
                self._feed(old)
            except DamagedError:
                self._position = None
        try:
            fresh = self._opened()
        except (DamagedError, FileNotFoundError):
            with self._lock:
                fresh = self._found_or_made(missing="it was removed")
        if self._position is not None:
            continued = fresh.header.parent == old.header.incarnation
            self._position, self._seen = (fresh.header.carried if continued else None), -1
        self._file = fresh
        # The process that replaced the file may have died before it told the others.
        old.supersede(there_is_another=True)
        old.close()

    def _settle(self) -> None:
        """With the lock: the current file, with unfinished writes of dead writers removed."""
        file = self._now()
        self._move_on(file)
        file = self._now()
        # A process that was about to replace the file has died before that.
        file.supersede(there_is_another=False)
        try:
            state = file.state()
            if state.boot != self._world.boot or not file.is_finished(state.tail):
                try:
                    roll_forward(file, state, self._world.boot)
                except NoRoomError:
                    self._grow(2 * state.live, pending=finished_end(file, state.tail))
            elif file.committed() != state.commit:
                file.declare(state)
        except DamagedError as error:
            self._heal(error)

    def _heal(self, error: DamagedError) -> str:
        """Put the certain rows into a new file and move the damaged one aside; returns its new name. If another process
        did it already, only open the new file."""
        damaged = self._file
        if damaged is None or self._now() is not damaged:
            return ""
        with _as_store_errors(self._path), self._lock:
            self._move_on(damaged)
            if self._file is not damaged:
                return ""
            self._replace(salvage(damaged), why=str(error))
            self._move_on(damaged)
        return self._path + DAMAGED

    def _found_or_made(self, *, missing: str = "") -> RegistryFile:
        """With the lock: the file of that name, or a new one in place of a missing, damaged or foreign one.

        `missing` says why a missing file is a loss, if it is one.
        """
        try:
            return self._opened()
        except FileNotFoundError:
            self._replace(Salvaged([], 0), why=missing)
        except DamagedError as error:
            self._replace(self._salvaged(), why=str(error))
        return self._opened()

    def _salvaged(self) -> Salvaged:
        try:
            file = RegistryFile(os.open(self._path, _FLAGS))
        except DamagedError:
            return Salvaged([], 0)
        try:
            return salvage(file)
        finally:
            file.close()

    def _replace(self, kept: Salvaged, *, why: str) -> None:
        """With the lock: put a file with these rows under the name; `why` is the damage of the old one, if any."""
        new = self._path + REPAIRED
        os.makedirs(os.path.dirname(new), 0o700, exist_ok=True)
        flags = INCOMPLETE if why else 0
        state = State(kept.commit, 0, 0, 0, 0, 0, flags, self._world.boot)
        rewritten(new, kept.rows, entropy=self._world.entropy(32), capacity=self._capacity, state=state).close()
        if why:
            aside = self._path + DAMAGED
            with suppress(FileNotFoundError):
                os.unlink(aside)
            # A second name first: the file exists at every moment, so no process takes it for lost.
            with suppress(FileNotFoundError):
                os.link(self._path, aside)
            self._world.report(
                f"the resource registry {self._path} is damaged ({why}): {len(kept.rows)} rows were kept; the damaged "
                f"file is {aside}; the rest comes back as minions register again"
            )
        os.replace(new, self._path)
        sync_folder(os.path.dirname(self._path))

    def _opened(self) -> RegistryFile:
        file = RegistryFile(os.open(self._path, _FLAGS))
        try:
            file.state()
        except DamagedError:
            file.close()
            raise
        return file

    def _inode(self) -> int:
        try:
            return os.stat(self._path).st_ino
        except FileNotFoundError:
            return 0


def _store_error(path: str, error: OSError) -> StoreError:
    why = error.strerror or str(error)
    return StoreError(f"the resource registry {path} cannot be used: {why}; make room or check the disk, and try again")


@contextmanager
def _no_collector() -> Iterator[None]:
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@contextmanager
def _as_store_errors(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise _store_error(path, error) from error


FILE = "resources/resource_index.by_id.mmap"
"""The path of the registry below `cachedir`."""

COMPACT_MIN_RECORDS = 1024
"""Smaller registries are not compacted automatically, because it would gain nothing."""


@dataclass(frozen=True, slots=True)
class RegistryOptions:
    """The options of the registry; `_FIELDS` has their names in the configuration."""

    cachedir: str
    capacity: int = CAPACITY_MIN
    """Slots of a new table; it grows by itself."""
    compact_load_factor: float = 0.6
    """Used slots for each slot of the table, above which it is compacted."""
    compact_tombstone_ratio: float = 0.2
    """Share of obsolete records above which it is compacted."""
    compact_min_interval: float = 30.0
    """Seconds between two compactions, or two checks whether one is due."""
    fsync: str = "registration"
    """Whether a registration is on disk before it is acknowledged: `registration` or `never`."""

    @classmethod
    def from_opts(cls, opts: Mapping[str, Any]) -> RegistryOptions:
        """The options of a configuration. Raises ValueError without a `cachedir` and for invalid values."""
        given = {field: opts[name] for name, field in _FIELDS.items() if opts.get(name) is not None}
        if not given.get("cachedir") or not isinstance(given["cachedir"], str):
            raise ValueError("the resource registry needs the option `cachedir`: a folder that the master may write to")
        options = cls(**given)
        if not isinstance(options.capacity, int) or not 1 <= options.capacity <= CAPACITY_MAX:
            raise ValueError(f"resource_index_primary_capacity has to be a number from 1 to {CAPACITY_MAX}")
        if options.fsync not in {"registration", "never"}:
            raise ValueError("registry_fsync has to be `registration` or `never`")
        return options


_FIELDS = {
    "cachedir": "cachedir",
    "resource_index_primary_capacity": "capacity",
    "resource_registry_compact_load_factor": "compact_load_factor",
    "resource_registry_compact_tombstone_ratio": "compact_tombstone_ratio",
    "resource_registry_compact_min_interval": "compact_min_interval",
    "registry_fsync": "fsync",
}
"""The options of the master's configuration."""


class ResourceRegistry(Registry):
    """The registry in `<cachedir>/resources`, shared by all processes that open it. See `Registry`.

    `opts` is the configuration of the master. Raises ValueError for invalid options, and StoreError when the folder
    cannot be used. `report` takes sentences about damage. `over` puts another primary in front of that in the file.
    """

    def __init__(
        self,
        opts: Mapping[str, Any],
        *,
        report: Callable[[str], None] = log.error,
        over: Callable[[FilePrimary], Primary] = lambda file: file,
    ) -> None:
        self._options = options = RegistryOptions.from_opts(opts)
        world = Environment(entropy=os.urandom, wall_ns=time.time_ns, boot=_boot_id(), report=report)
        path = os.path.join(options.cachedir, FILE)
        super().__init__(
            over(FilePrimary(path, world, capacity=options.capacity, sync=options.fsync == "registration"))
        )
        self._looked_at = -options.compact_min_interval

    def maybe_compact(self, *, force_check: bool = False) -> tuple[bool, dict[str, Any]]:
        """Compact if the table is full enough or enough of the log is obsolete; returns whether it did, and `stats`.

        It checks at most once in `compact_min_interval` seconds, unless `force_check` is set.
        """
        now = time.monotonic()
        stats = self.stats()
        if not force_check and now - self._looked_at < self._options.compact_min_interval:
            return False, stats
        self._looked_at = now
        found = stats["primary"]
        spent = found["records"] - found["rows"]
        options = self._options
        due = found["load"] >= options.compact_load_factor or found["garbage"] >= options.compact_tombstone_ratio
        if not due or max(spent, found["used"]) < COMPACT_MIN_RECORDS:
            return False, stats
        self.compact()
        return True, self.stats()

    def close(self) -> None:
        """Release all resources; `get_registry` opens another registry on demand. A second close does nothing."""
        for place in [place for place, registry in _registries.items() if registry is self]:
            del _registries[place]
        super().close()


class InertRegistry(Registry):
    """An empty registry for a configuration without `cachedir`: registrations have no effect."""

    def __init__(self) -> None:
        super().__init__(MemoryPrimary(MemoryRows()))

    def register(
        self,
        minion: str,  # noqa: ARG002 - the signature is that of a registry
        resources: Mapping[str, Iterable[str]],  # noqa: ARG002 - as above
        *,
        conflict: Conflict = Conflict.REFUSE,  # noqa: ARG002 - as above
        yields: Yields = never,  # noqa: ARG002 - as above
    ) -> Registration:
        """No effect."""
        return Registration(0, 0, (), 0)

    def maybe_compact(self, *, force_check: bool = False) -> tuple[bool, dict[str, Any]]:  # noqa: ARG002 - as above
        """No effect."""
        return False, self.stats()


_registries: dict[tuple[int, str], ResourceRegistry] = {}


def get_registry(opts: Mapping[str, Any]) -> ResourceRegistry | InertRegistry:
    """The registry of this process for that `cachedir`, opened once; an inert one without a `cachedir`."""
    cachedir = opts.get("cachedir")
    if not cachedir:
        return InertRegistry()
    place = os.getpid(), os.path.realpath(cachedir)
    if place not in _registries:
        _registries[place] = ResourceRegistry(opts)
    return _registries[place]


def _boot_id() -> bytes:
    """The kernel's boot id; if the kernel has none, every opening counts as a new start."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="utf-8") as file:
            return bytes.fromhex(file.read().strip().replace("-", ""))
    except (OSError, ValueError):
        return os.urandom(16)
