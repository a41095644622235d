"""The file server of one MWorker: it answers `file_request` and `file_put` of minions (`saltlite.wire.messages`).

Large files are hashed one slice a turn of the reactor, so that other handlers are not delayed. `saltlite-call --local`
uses `FileService` directly.

Uploads (`cp.push`) are stored below `<folder>/<minion id>/`: complete files in `files/`, under the path that the minion
gave, and partial ones in `arriving/`, named by their digest, so that a transfer resumes where it stopped. A minion can
fill only its own folder, within the limits.

`saltlite cp` puts its files into an environment that exists for one command (`CopyAreas`). Its name holds 128 random
bits and is never listed, so only minions that were given the name can read the files.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import logging
import os
import shutil
import time
from bisect import bisect_right
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

from saltlite.errors import SaltliteError, UsageError
from saltlite.files.roots import FileRoots, ServedFile
from saltlite.model.files import is_area, parse_env, parse_path
from saltlite.model.ids import MinionId, parse_minion_id
from saltlite.platform.files import open_beneath
from saltlite.platform.reactor import Reactor
from saltlite.platform.shared_memory import Marks, TurnBoard, TurnLabel
from saltlite.wire.limits import CHUNK, FILE_NAMES, FILE_NAMES_BYTES, MIB
from saltlite.wire.messages import Message, response_message

log = logging.getLogger(__name__)


# -- saltlite cp

AREA_NAME_BYTES = 16


class CopiedPiece(NamedTuple):
    """A part of a file."""

    path: str
    offset: int
    mode: int
    """The permission bits of the file on the minion."""
    data: bytes


class SharedAreas(Protocol):
    """The areas in the store of several masters."""

    def begin(self, area: str) -> None: ...

    def put(self, area: str, piece: CopiedPiece) -> None: ...

    def pieces(self, area: str) -> Iterable[CopiedPiece]:
        """All pieces, in order; none without that area. Raises SaltliteError if one is missing or damaged."""
        ...

    def end(self, area: str) -> None: ...


class CopyAreas:
    """The environments of `saltlite cp`, one folder each. Every error is a SaltliteError."""

    def __init__(self, folder: str, shared: SharedAreas | None = None) -> None:
        """`shared`: where masters that share a store have them as well."""
        self._folder = folder
        self._shared = shared

    def begin(self, entropy: Callable[[int], bytes]) -> str:
        """Make an area; its name."""
        area = f"copy-{entropy(AREA_NAME_BYTES).hex()}"
        with self._errors():
            os.makedirs(self._folder, mode=0o700, exist_ok=True)
            os.mkdir(os.path.join(self._folder, area), 0o700)
        if self._shared is not None:
            self._shared.begin(area)
        return area

    def put(self, area: str, path: str, offset: int, data: bytes, mode: int) -> None:
        """Write a piece of a file; `mode` are its permission bits on the minion."""
        folder, piece = self._place(area), CopiedPiece(path, offset, mode, data)
        with self._errors():
            _write(folder, piece)
        if self._shared is not None:
            self._shared.put(area, piece)

    def bring(self, area: str) -> None:
        """Copy an area of another master, if this one has none of that name."""
        place = os.path.join(self._folder, area)
        if self._shared is None or os.path.isdir(place):
            return
        fresh = os.path.join(self._folder, f".{os.getpid()}.{area}")
        with self._errors():
            try:
                for piece in self._shared.pieces(area):
                    os.makedirs(fresh, mode=0o700, exist_ok=True)
                    _write(fresh, piece)
                if os.path.isdir(fresh):
                    _rename_unless_there(fresh, place)
            finally:
                shutil.rmtree(fresh, ignore_errors=True)

    def end(self, area: str) -> None:
        """Remove an area and what is in it."""
        with self._errors():
            shutil.rmtree(self._place(area))
        if self._shared is not None:
            self._shared.end(area)

    def expire(self, before: float) -> None:
        """Remove the areas that were last written before that time, in wall-clock seconds."""
        with self._errors(), contextlib.suppress(FileNotFoundError):
            for area in os.listdir(self._folder):
                place = os.path.join(self._folder, area)
                with contextlib.suppress(FileNotFoundError):
                    if is_area(area.rpartition(".")[2]) and os.stat(place).st_mtime < before:
                        shutil.rmtree(place)

    def _place(self, area: str) -> str:
        place = os.path.join(self._folder, area)
        if not is_area(area) or not os.path.isdir(place):
            raise UsageError("the files to copy are gone: start the copy again")
        return place

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise SaltliteError(f"the files to copy cannot be stored in {self._folder}: {error.strerror}") from error


def _rename_unless_there(fresh: str, place: str) -> None:
    try:
        os.rename(fresh, place)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise


def _write(folder: str, piece: CopiedPiece) -> None:
    """Raises UsageError, and OSError."""
    name, offset, data = parse_path(piece.path), piece.offset, piece.data
    if not name or offset < 0:
        raise UsageError(f"{piece.path!r} is not a path of a file")
    place = os.path.join(folder, name)
    os.makedirs(os.path.dirname(place), mode=0o700, exist_ok=True)
    fd = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        os.fchmod(fd, piece.mode & 0o777 | 0o600)
        while data:
            written = os.pwrite(fd, data, offset)
            offset, data = offset + written, data[written:]
    finally:
        os.close(fd)
    # The age of an area whose client is gone.
    os.utime(folder)


# -- FileService

SLICE = 1 * MIB
"""Bytes hashed in one turn: about two milliseconds."""
DIGESTS_MAX = 10_000
"""Cached digests."""
LISTINGS_MAX = 16
"""Cached listings, for clients that have not read all pages."""
SETTLED_S = 2.0
"""A file modified more recently may change again with the same mtime, so its digest is not cached."""


class Finding:
    """One `find` whose file is being hashed; the file stays open until `step` has answered."""

    def __init__(self, service: FileService, ask: Message, file: ServedFile) -> None:
        self._service = service
        self._n: int = ask["n"]
        self._file = file
        self._hash = hashlib.sha256()
        self._offset = 0

    def step(self) -> Message | None:
        """Hash the next slice; the answer when it was the last."""
        try:
            data = self._file.read(self._offset, SLICE)
        except OSError as error:
            log.error("a served file cannot be read: %s; look at its disk", error.strerror)  # noqa: TRY400 - a sentence
            self._file.close()
            return response_message(self._n, "absent")
        self._hash.update(data)
        self._offset += len(data)
        if len(data) == SLICE:
            return None
        return self._service.hashed(self._n, self._file, self._hash.digest())


class FileService:
    """Answers requests for one set of roots, in one process."""

    def __init__(self, roots: FileRoots) -> None:
        self._roots = roots
        self._digests: OrderedDict[tuple[int, ...], bytes] = OrderedDict()
        self._listings: OrderedDict[tuple[str, str, bool], Sequence[str]] = OrderedDict()

    def ask(self, questions: Iterable[Message]) -> Iterator[Message]:
        """Answer each question, however long it takes (`saltlite.files.roots.FileAsker`). Takes no files."""
        for question in questions:
            if question["t"] != "file_request":
                yield response_message(question["n"], "refused")
                continue
            answer = self.begin(question)
            while isinstance(answer, Finding):
                answer = answer.step() or answer
            yield answer

    def begin(self, ask: Message) -> Message | Finding:
        """The answer to a `file_request`, or a hash to step until it answers."""
        n: int = ask["n"]
        try:
            path, after = parse_path(ask["path"]), parse_path(ask["after"])
            env = ask["env"] if ask["operation"] == "envs" else parse_env(ask["env"])
        except UsageError:
            return response_message(n, "absent")
        match ask["operation"]:
            case "envs":
                return self._names(n, self._roots.envs(), after)
            case "files" | "folders":
                return self._listed(n, (env, path, ask["operation"] == "folders"), after)
            case "find":
                return self._find(ask, env, path)
        return self._read(n, env, path, ask["offset"])

    def hashed(self, n: int, file: ServedFile, digest: bytes) -> Message:
        """The answer for a file with that digest; the file is closed."""
        if time.time() - file.mtime > SETTLED_S:
            self._digests[file.identity] = digest
            if len(self._digests) > DIGESTS_MAX:
                self._digests.popitem(last=False)
        file.close()
        return response_message(n, "ok", size=file.size, sha256=digest, mode=file.mode, mtime=file.mtime)

    def _find(self, ask: Message, env: str, path: str) -> Message | Finding:
        file = self._roots.open(env, path)
        if file is None:
            return response_message(ask["n"], "absent")
        known = self._digests.pop(file.identity, None)
        return Finding(self, ask, file) if known is None else self.hashed(ask["n"], file, known)

    def _read(self, n: int, env: str, path: str, offset: int) -> Message:
        file = self._roots.open(env, path)
        if file is None:
            return response_message(n, "absent")
        try:
            return response_message(n, "ok", size=file.size, data=file.read(offset, CHUNK))
        except OSError as error:
            log.error("%s cannot be read: %s; look at its disk", path, error.strerror)  # noqa: TRY400 - a sentence
            return response_message(n, "absent")
        finally:
            file.close()

    def _listed(self, n: int, key: tuple[str, str, bool], after: str) -> Message:
        # Later pages come from the cached listing of the first page.
        names = self._listings.pop(key, None) if after else None
        if names is None:
            env, prefix, folders = key
            names = self._roots.names(env, prefix, folders=folders)
        response = self._names(n, names, after)
        if response["more"]:
            self._listings[key] = names
            if len(self._listings) > LISTINGS_MAX:
                self._listings.popitem(last=False)
        return response

    def _names(self, n: int, names: Sequence[str], after: str) -> Message:
        start = bisect_right(names, after) if after else 0
        page: list[str] = []
        size = 0
        for name in names[start : start + FILE_NAMES]:
            size += len(name.encode())
            if size > FILE_NAMES_BYTES:
                break
            page.append(name)
        return response_message(n, "ok", names=page, more=start + len(page) < len(names))


# -- uploads

FREE_LEAST = 256 * 1024 * 1024
"""Bytes that uploads leave free on their disk, which the store may share."""
ARRIVING_MAX = 16
"""Partial files of one minion; the oldest is removed first."""


class Arrival:
    """A complete upload: hashed slice by slice, then moved into place."""

    def __init__(self, n: int, folder: str, message: Message) -> None:
        self._n = n
        self._folder = folder
        self._path: str = message["path"]
        self._digest: bytes = message["sha256"]
        self._hash = hashlib.sha256()
        self._size = 0

    def step(self) -> Message | None:
        """Hash the next slice; the answer when it was the last."""
        part = os.path.join(self._folder, "arriving", self._digest.hex())
        try:
            with open(part, "rb") as file:
                data = os.pread(file.fileno(), SLICE, self._size)
            self._hash.update(data)
            self._size += len(data)
            if len(data) == SLICE:
                return None
            if self._hash.digest() != self._digest:
                # It changed while it was read, or lost a piece: the minion sends it again from the beginning.
                os.unlink(part)
                return response_message(self._n, "ok", size=0)
            _into_place(part, os.path.join(self._folder, "files"), self._path)
        except FileNotFoundError:
            # Another transfer of the same content was first, and moved it to its own path.
            return response_message(self._n, "ok", size=0)
        except OSError as error:
            log.warning("a file of a minion cannot be stored in %s: %s", self._folder, error.strerror)
            return response_message(self._n, "refused")
        return response_message(self._n, "ok", size=self._size, sha256=self._digest)


class Uploads:
    """Receives the files that minions push."""

    def __init__(self, folder: str, largest: int) -> None:
        """`folder` has one folder a minion; `largest`: bytes of one file."""
        self._folder = folder
        self._largest = largest

    def put(self, minion: MinionId, message: Message) -> Message | Arrival:
        """Store one piece. The answer's `size` says how many bytes have arrived, which is the next offset. After the
        last piece, the answer's `sha256` says that the file is in place; if it is empty, the file must be sent again.
        """
        n, size, offset, data = message["n"], message["size"], message["offset"], message["data"]
        try:
            path = parse_path(message["path"])
        except UsageError:
            return response_message(n, "refused")
        if not path or size > self._largest or offset + len(data) > size:
            return response_message(n, "refused")
        folder = os.path.join(self._folder, parse_minion_id(minion))
        try:
            there = self._write(folder, message)
        except OSError as error:
            log.warning("a file of %s cannot be stored in %s: %s", minion, folder, error.strerror)
            return response_message(n, "refused")
        return Arrival(n, folder, message) if there == size else response_message(n, "ok", size=there)

    def _write(self, folder: str, message: Message) -> int:
        """Append the piece if nothing before it is missing; how many bytes the file has then."""
        arriving = os.path.join(folder, "arriving")
        os.makedirs(arriving, mode=0o700, exist_ok=True)
        part = os.path.join(arriving, message["sha256"].hex())
        if not os.path.exists(part):
            self._make_room(arriving, message["size"])
        fd = os.open(part, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            there = os.fstat(fd).st_size
            if message["offset"] == there and message["data"]:
                there += os.pwrite(fd, message["data"], there)
            return there
        finally:
            os.close(fd)

    def _make_room(self, arriving: str, size: int) -> None:
        names = [os.path.join(arriving, name) for name in os.listdir(arriving)]
        for stale in sorted(names, key=os.path.getmtime)[: max(0, len(names) - ARRIVING_MAX + 1)]:
            os.unlink(stale)
        if shutil.disk_usage(arriving).free - size < FREE_LEAST:
            raise OSError(errno.ENOSPC, "too little space is left on the disk")


def _into_place(part: str, files: str, path: str) -> None:
    """Rename `part` to `path` below `files`, making folders on the way. No link is followed out of there."""
    *folders, name = path.split("/")
    os.makedirs(files, mode=0o700, exist_ok=True)
    for depth in range(len(folders)):
        above = open_beneath(files, "/".join(folders[:depth]), os.O_RDONLY | os.O_DIRECTORY)
        try:
            with contextlib.suppress(FileExistsError):
                os.mkdir(folders[depth], 0o700, dir_fd=above)
        finally:
            os.close(above)
    folder = open_beneath(files, "/".join(folders), os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.rename(part, name, dst_dir_fd=folder)
    finally:
        os.close(folder)


Say = Callable[[Message], None]


class FileServer:
    """Answers the file messages of minions; hashes of large files take turns."""

    def __init__(
        self, reactor: Reactor, service: FileService, uploads: Uploads | None, marks: Marks | None = None
    ) -> None:
        """`uploads` is None where minions may not push files. `marks` show the supervisor which request is running."""
        self._marks = marks or TurnBoard([""]).marks("")
        self._reactor = reactor
        self._service = service
        self._uploads = uploads
        self._hashing: deque[tuple[Finding | Arrival, Say, TurnLabel]] = deque()

    def ask(self, minion: MinionId, message: Message, say: Say) -> None:
        """Answer a `file_request` or `file_put` of that minion by `say`, now or in a later turn."""
        answer: Message | Finding | Arrival
        if message["t"] == "file_request":
            answer = self._service.begin(message)
        elif self._uploads is None:
            answer = response_message(message["n"], "refused")
        else:
            answer = self._uploads.put(minion, message)
        if isinstance(answer, Finding | Arrival):
            self._work(answer, say)
        else:
            say(answer)

    def _work(self, work: Finding | Arrival, say: Say) -> None:
        """Hash the first slice now, which is enough for most files; further slices take turns with other files."""
        response = work.step()
        if response is not None:
            say(response)
            return
        if not self._hashing:
            self._reactor.call_soon(self._next_slice)
        self._hashing.append((work, say, self._marks.now))

    def _next_slice(self) -> None:
        work, say, turn = self._hashing.popleft()
        with self._marks.named(turn):
            response = work.step()
        if response is None:
            self._hashing.append((work, say, turn))
        if self._hashing:
            self._reactor.call_soon(self._next_slice)
        if response is not None:
            say(response)
