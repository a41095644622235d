"""The resource registry and the cache banks of a master that shares its store: copies of what the store has.

The store has the truth (`saltlite.master.store.sharing.SharedInventory`), where each change has a number. Targets are
resolved from files, as fast as on a master that is alone: all processes of a master share them, and a cursor beside
them says which change they contain. Whoever reads asks the store for the number of its last change, once in a request,
and brings the files up to it first. A change is committed in the store before the files have it.

Files that were lost or damaged are made anew from the store: the cursor does not fit a registry that was replaced, nor
does a bank without its mark (`LocalBank.is_copy`). Neither fits after a start of the machine, because files of banks
are not synced, nor after a failover that may have lost changes.

Values are sealed in the store: who can read the database learns no pillar from them, and who can write it forges none.
"""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from saltlite.errors import StoreError, UsageError
from saltlite.master.store.banks import FOLDER, LocalBank, LocalBanks, file_name, key_of
from saltlite.master.store.sealing import Seal
from saltlite.master.store.sharing import Owner, SharedInventory, SharedValue
from saltlite.model.ids import check_resource_id, check_resource_type, parse_minion_id, parse_srn
from saltlite.platform.files import WriteLock
from saltlite.resources.registry.layout import Change, encoded, owner_in, payload
from saltlite.resources.registry.mmap import FilePrimary, ResourceRegistry
from saltlite.resources.registry.registry import Figures, Follower, Verification
from saltlite.targeting.banks import NAMES, Changes, Value, check_bank, check_digest
from saltlite.targeting.banks import encoded as encoded_value

log = logging.getLogger(__name__)

CURSOR_FILE = ".cursor"
CURSOR_BYTES = 256
LOCK_FILE = ".lock"
DELETIONS_KEPT = 100_000
"""Changes after which a deletion is forgotten: a master that has not followed for longer copies everything anew."""
PRUNE_EVERY = 1_000


class Cursor(NamedTuple):
    """What the files of a master contain."""

    place: str
    boot: str
    """Since which start of the machine they were written."""
    seq: int
    """The last change."""
    registry: str
    """The file of the registry, and its last commit."""


class Projection:
    """The files of this master in one of its processes."""

    def __init__(self, rows: SharedInventory, opts: Mapping[str, Any], seal_key: bytes) -> None:
        """`opts` are those of `ResourceRegistry`; `seal_key` has 32 bytes. Raises StoreError."""
        self.rows = rows
        self._seal = Seal(seal_key)
        self._folder = os.path.join(opts["cachedir"], FOLDER)
        self._lock = WriteLock(os.path.join(self._folder, LOCK_FILE))
        self._files = LocalBanks(opts["cachedir"])
        # After a power failure all is copied anew.
        self.registry = ResourceRegistry({**opts, "registry_fsync": "never"}, over=self._over)
        self.banks = ProjectedBanks(self, self._files)
        self._registry = ""
        """`FilePrimary.version` when it was current the last time."""
        self._is_due = True
        self.follow()

    def _over(self, file: FilePrimary) -> ProjectedPrimary:
        self._file = file
        self._primary = ProjectedPrimary(self, file)
        return self._primary

    # -- following

    def look_again(self) -> None:
        """What was committed before this call is seen by all that is read after it."""
        self._is_due = True

    def look(self) -> None:
        """Follow, unless that was done in this request. Raises StoreError."""
        if self._is_due:
            self.follow()

    def look_at_registry(self) -> None:
        """Follow if the registry's file has changed. Raises StoreError."""
        if self._file.version() != self._registry:
            self.follow()

    def follow(self) -> None:
        """Bring the files up to the last committed change. Raises StoreError."""
        seq = self.rows.head().seq
        cursor = Cursor(self.rows.place, self._file.boot.hex(), seq, self._file.version())
        with self._as_store_errors():
            if self._read() != _packed(cursor) or not self._are_copies():
                self._catch_up()
        self._registry = self._file.version()
        self._is_due = False

    def committed(self, seq: int, apply: Callable[[], bool]) -> None:
        """The change of that number was committed by this process, and `apply` makes it in the files, unless it finds
        that they were lost. Raises StoreError."""
        with self._as_store_errors():
            if not self._is_next(seq, apply):
                self._catch_up()
        self._registry = self._file.version()

    def _is_next(self, seq: int, apply: Callable[[], bool]) -> bool:
        """Make the change if the files have all others."""
        with self._locked():
            cursor = Cursor(self.rows.place, self._file.boot.hex(), seq - 1, self._file.version())
            if self._read() != _packed(cursor) or not apply():
                return False
            self._write(cursor._replace(seq=seq, registry=self._file.version()))
        return True

    def _catch_up(self) -> None:
        with self._locked():
            known, head = self._known(), self.rows.head()
            if known is None and head.seq == 0:
                self._adopt()
                head = self.rows.head()
            place, boot = self.rows.place, self._file.boot.hex()
            if known is None or known[:2] != (place, boot) or not head.pruned <= known.seq <= head.seq:
                known = Cursor(place, boot, 0, "")
            if known.seq < head.seq or not self._are_copies():
                self._follow_values(known)
            self._follow_owners(known)
            self._write(Cursor(place, boot, head.seq, self._file.version()))

    def _follow_values(self, known: Cursor) -> None:
        gaps: dict[str, set[str]] = {
            name: set() for name in NAMES if not known.seq or not self._files.bank(name).is_copy()
        }
        for row in self._values(0 if gaps else known.seq):
            if row.bank in gaps:
                gaps[row.bank].add(row.key)
            elif row.seq <= known.seq or row.bank not in NAMES:
                continue
            self._set_value(row)
        for name, found in gaps.items():
            bank = self._files.bank(name)
            for key in bank.keys():  # noqa: SIM118 - a bank is not a dict
                if file_name(key) not in found:
                    bank.delete(key)
            bank.set_copy()

    def _values(self, after: int) -> Iterator[SharedValue]:
        while page := self.rows.values(after):
            yield from page
            after = page[-1].seq

    def _set_value(self, row: SharedValue) -> None:
        bank, key = self._files.bank(row.bank), key_of(row.key)
        if key is None:
            log.error("the store has %s under the invalid key %r, which are ignored", row.bank, row.key)
        elif row.data is None:
            bank.delete(key)
        else:
            try:
                data = self._seal.opened(row.data, row.bank, row.key, row.digest)
                bank.put_encoded(row.key, data, check_digest(row.digest), row.at)
            except (ValueError, UsageError):
                # Its minion has another digest, and sends it again.
                log.error("the %s of %r in the store were not put by a master, and are ignored", row.bank, key)  # noqa: TRY400 - a sentence
                bank.delete(key)

    def _follow_owners(self, known: Cursor) -> None:
        file = self._file
        with file.writing():
            is_whole = known.seq > 0 and file.version() == known.registry and not file.figures().incomplete
            if is_whole:
                changes = list(_registry_changes(self.rows.owners(known.seq)))
                if changes:
                    file.commit(changes)
                is_whole = not file.figures().incomplete
            if not is_whole:
                changes = _differences(self._primary.content(), _registry_changes(self.rows.owners(0)))
                if changes:
                    file.commit(changes)
                file.declare_complete()

    def _adopt(self) -> None:
        """The store is shared for the first time: it gets what this master has. Raises StoreError."""
        values = [
            SharedValue(name, key, digest, at, self.sealed(name, key, digest, data))
            for name in NAMES
            for key, data, digest, at in self._files.bank(name).contents()
        ]
        rows = self._primary.content().items()
        self.rows.adopt(values, [(key.decode(), owner_in(value)[0]) for key, value in rows])

    def sealed(self, bank: str, key: str, digest: str, data: bytes) -> bytes:
        """A value as the store has it."""
        return self._seal.seal(data, bank, key, digest)

    # -- the files

    def _are_copies(self) -> bool:
        return all(self._files.bank(name).is_copy() for name in NAMES)

    def _known(self) -> Cursor | None:
        try:
            place, boot, seq, registry = json.loads(self._read())
            return Cursor(str(place), str(boot), int(seq), str(registry))
        except (ValueError, TypeError):
            return None

    def _read(self) -> bytes:
        try:
            with open(os.path.join(self._folder, CURSOR_FILE), "rb", buffering=0) as file:
                return file.read(CURSOR_BYTES)
        except FileNotFoundError:
            return b""

    def _write(self, cursor: Cursor) -> None:
        # In place, as a rename has the file system write data at once. A part of it fits nothing.
        fd = os.open(os.path.join(self._folder, CURSOR_FILE), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        with open(fd, "wb", buffering=0) as file:
            file.write(_packed(cursor))

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """No other process of this master changes the files."""
        if not os.path.exists(os.path.join(self._folder, LOCK_FILE)):
            # Somebody has cleared the cache: the others lock a new file, too.
            self._lock.close()
            os.makedirs(self._folder, mode=0o700, exist_ok=True)
        with self._lock:
            yield

    @contextmanager
    def _as_store_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise StoreError(
                f"the cache {self._folder} cannot be used: {error.strerror}; see to the disk and the folder's owner"
            ) from error

    def close(self) -> None:
        """Release all files. A second call does nothing."""
        self.registry.close()
        self._files.close()
        self._lock.close()


def _packed(cursor: Cursor) -> bytes:
    return json.dumps(cursor).encode().ljust(CURSOR_BYTES)


def _registry_changes(owners: Iterable[Owner]) -> Iterator[Change]:
    """The rows of the registry, without impossible ones."""
    known: dict[tuple[str, str], bytes] = {}
    for srn, minion in owners:
        kind, bare_id = parse_srn(srn)
        value = known.get((minion or "", kind or ""))
        try:
            check_resource_id(bare_id)
            if minion is not None and value is None:
                value = known[minion, str(kind)] = payload(parse_minion_id(minion), check_resource_type(kind))
        except UsageError as error:
            log.error("the store has an owner of the resource %.80r, which is ignored: %s", srn, error)  # noqa: TRY400 - a sentence
            continue
        yield srn.encode(), value if minion is not None else None


def _differences(have: Mapping[bytes, bytes], wanted: Iterable[Change]) -> list[Change]:
    """The changes after which there are the wanted rows and no others."""
    rows = {key: value for key, value in wanted if value is not None}
    changed: list[Change] = [(key, value) for key, value in rows.items() if have.get(key) != value]
    return [*changed, *((key, None) for key in have if key not in rows)]


class ProjectedPrimary:
    """The port `saltlite.resources.registry.registry.Primary` over a file that follows the store."""

    def __init__(self, projection: Projection, file: FilePrimary) -> None:
        self._projection = projection
        self._file = file
        self._follower: Follower | None = None
        self._commit: Callable[[Sequence[Owner]], int] | None = None

    def get(self, key: bytes) -> bytes | None:
        self._projection.look()
        value = self._file.get(key)
        if value is None:
            self._projection.look_at_registry()
            value = self._file.get(key)
        return value

    def follow(self, follower: Follower) -> None:
        self._follower = follower
        self._file.follow(follower)

    def refresh(self) -> None:
        self._projection.look()
        self._file.refresh()
        # Rows that were damaged may have gone with that.
        self._projection.look_at_registry()
        self._file.refresh()

    @contextmanager
    def writing(self) -> Iterator[None]:
        with self._projection.rows.registering() as commit:
            self._projection.follow()
            self._commit = commit
            try:
                yield
            finally:
                self._commit = None

    def commit(self, changes: Sequence[Change]) -> None:
        if self._commit is None:
            raise StoreError("resources are registered inside `writing` only")
        encoded(changes)  # refuses what the file would refuse

        def apply() -> bool:
            version = self._file.version()
            with self._file.writing():
                if self._file.version() != version:
                    return False
                self._file.commit(changes)
                return not self._file.figures().incomplete

        owners = [(key.decode(), None if value is None else owner_in(value)[0]) for key, value in changes]
        self._projection.committed(self._commit(owners), apply)

    def content(self) -> dict[bytes, bytes]:
        """All rows of the file."""
        rows = _Rows()
        self._file.follow(rows)
        self._file.refresh()
        if self._follower is not None:
            self._file.follow(self._follower)
        return rows.rows

    def generation(self) -> int:
        return self._file.generation()

    def content_version(self) -> tuple[int, int]:
        return self._file.content_version()

    def figures(self) -> Figures:
        return self._file.figures()

    def compact(self) -> None:
        self._file.compact()

    def verify(self) -> Verification:
        found = self._file.verify()
        self._projection.follow()
        return found

    def declare_complete(self) -> None:
        self._file.declare_complete()

    def close(self) -> None:
        self._file.close()


class _Rows:
    """A follower that has all rows."""

    def __init__(self) -> None:
        self.rows: dict[bytes, bytes] = {}

    def clear(self) -> None:
        self.rows.clear()

    def apply(self, changes: Iterable[Change]) -> None:
        for key, value in changes:
            if value is None:
                self.rows.pop(key, None)
            else:
                self.rows[key] = value


class ProjectedBank:
    """The port `saltlite.targeting.banks.Bank` over files that follow the store."""

    def __init__(self, projection: Projection, file: LocalBank, name: str) -> None:
        self._projection = projection
        self._file = file
        self._name = name
        self._room = check_bank(name)

    def get(self, key: str) -> Value | None:
        self._projection.look()
        found = self._file.get(key)
        if found is None and not self._file.is_copy():
            self._projection.follow()
            found = self._file.get(key)
        return found

    def put(self, key: str, value: Mapping[str, Any], digest: str = "") -> None:
        name, data, at = file_name(key), encoded_value(value, *self._room), time.time()
        sealed = self._projection.sealed(self._name, name, check_digest(digest), data)
        seq = self._projection.rows.put_value(SharedValue(self._name, name, digest, at, sealed))

        def apply() -> bool:
            self._file.put_encoded(name, data, digest, at)
            return True

        self._projection.committed(seq, apply)
        if seq % PRUNE_EVERY == 0 and seq > DELETIONS_KEPT:
            self._projection.rows.prune(seq - DELETIONS_KEPT)

    def digest(self, key: str) -> str:
        self._projection.look()
        return self._file.digest(key)

    def delete(self, key: str) -> bool:
        seq = self._projection.rows.delete_value(self._name, file_name(key), time.time())

        def apply() -> bool:
            self._file.delete(key)
            return True

        if seq:
            self._projection.committed(seq, apply)
        return seq > 0

    def keys(self) -> list[str]:
        self._projection.look()
        return self._file.keys()

    def changed_at(self, key: str) -> float | None:
        self._projection.look()
        return self._file.changed_at(key)

    def changes(self, cursor: str) -> Changes:
        self._projection.look()
        return self._file.changes(cursor)


class ProjectedBanks:
    """The banks of a master that shares its store."""

    def __init__(self, projection: Projection, files: LocalBanks) -> None:
        self._projection = projection
        self._files = files
        self._banks: dict[str, ProjectedBank] = {}

    def bank(self, name: str) -> ProjectedBank:
        """One object a process and bank. Raises UsageError for an unknown one."""
        if name not in self._banks:
            self._banks[name] = ProjectedBank(self._projection, self._files.bank(name), name)
        return self._banks[name]

    def look_again(self) -> None:
        """As Projection.look_again."""
        self._projection.look_again()

    def close(self) -> None:
        """Give everything back."""
        self._projection.close()
