"""Answers to questions about served files: `file_request` in, `response` out (`saltlite.wire.messages`).

An MWorker answers what minions ask with it, one slice of hashing at a time; a process that has the files itself, as
`saltlite-call --local` has, asks it directly.
"""

from __future__ import annotations

import hashlib
import logging
import time
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence

from saltlite.errors import UsageError
from saltlite.files.ports import FileRoots, ServedFile
from saltlite.model.files import parse_env, parse_path
from saltlite.wire.limits import CHUNK, FILE_NAMES, FILE_NAMES_BYTES, MIB
from saltlite.wire.messages import Message, response_message

log = logging.getLogger(__name__)

SLICE = 1 * MIB
"""Bytes that are hashed at once: about two milliseconds."""
DIGESTS_MAX = 10_000
"""Digests that are remembered."""
LISTINGS_MAX = 16
"""Listings that are remembered for those who have not read all of one."""
SETTLED_S = 2.0
"""A file that was changed later than so long ago may change again without its times telling."""


class Finding:
    """The answer to one `find` whose file has to be hashed; its file is open until `step` has answered."""

    def __init__(self, desk: FileService, ask: Message, file: ServedFile) -> None:
        self._desk = desk
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
        return self._desk.hashed(self._n, self._file, self._hash.digest())


class FileService:
    """Answers for one set of roots. Use it from one process."""

    def __init__(self, roots: FileRoots) -> None:
        self._roots = roots
        self._digests: OrderedDict[tuple[int, ...], bytes] = OrderedDict()
        self._listings: OrderedDict[tuple[str, str, bool], Sequence[str]] = OrderedDict()

    def ask(self, questions: Iterable[Message]) -> Iterator[Message]:
        """Answer each question, however long it takes (`saltlite.files.ports.FileAsker`). Takes no files."""
        for question in questions:
            if question["t"] != "file_request":
                yield response_message(question["n"], "refused")
                continue
            answer = self.begin(question)
            while isinstance(answer, Finding):
                answer = answer.step() or answer
            yield answer

    def begin(self, ask: Message) -> Message | Finding:
        """The answer to a `file_request`, or what has to be stepped until it answers."""
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
        # Whoever reads on gets what the listing was at its beginning, wherever that is remembered.
        names = self._listings.pop(key, None) if after else None
        if names is None:
            env, prefix, folders = key
            names = self._roots.names(env, prefix, folders=folders)
        said = self._names(n, names, after)
        if said["more"]:
            self._listings[key] = names
            if len(self._listings) > LISTINGS_MAX:
                self._listings.popitem(last=False)
        return said

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
