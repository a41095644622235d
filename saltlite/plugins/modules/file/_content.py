"""What a managed file is to contain: a file of this minion, or bytes; and how it differs from what is there."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from saltlite.errors import CommandExecutionError
from saltlite.plugins.modules._safe_files import blocks, read_whole

from ._text import EDIT_BYTES_MAX, UTF8, diff, is_binary, lines_of
from .hashing import get_hash
from .stats import get_mode

if TYPE_CHECKING:
    from saltlite.loader.hints import __salt__

_RENDERED = "saltlite-rendered-"

OBFUSCATED = "<Obfuscated Template>"


class Content(NamedTuple):
    """A file at `path`, or with an empty path `data`."""

    path: str = ""
    data: bytes = b""

    def size(self) -> int:
        """Bytes."""
        return os.path.getsize(self.path) if self.path else len(self.data)

    def pieces(self) -> Iterable[bytes]:
        """What to write, piece by piece. Raises CommandExecutionError."""
        return blocks(self.path) if self.path else (self.data,)

    def whole(self) -> bytes:
        """All of it. Raises CommandExecutionError."""
        return read_whole(self.path) if self.path else self.data

    def is_in(self, path: str) -> bool:
        """Whether the file at `path` has exactly this content. Raises CommandExecutionError."""
        if os.path.getsize(path) != self.size():
            return False
        return get_hash(path) == get_hash(self.path) if self.path else read_whole(path) == self.data


def of_text(contents: Any, encoding: str | None = None, errors: str = "strict") -> Content:
    """The content that a caller gave as text or bytes."""
    if isinstance(contents, bytes):
        return Content(data=contents)
    text = str(contents)
    return Content(data=text.encode(encoding, errors) if encoding else UTF8.encode(text))


def difference(old: str | None, new: Content) -> str:
    """A unified diff of a file, or of nothing with None, and its new content, as `file.get_diff` words it."""
    if __salt__["config.option"]("obfuscate_templates"):
        return OBFUSCATED
    if max(new.size(), os.path.getsize(old) if old else 0) > EDIT_BYTES_MAX:
        return f"(no diff of files of more than {EDIT_BYTES_MAX} bytes)"
    before, after = read_whole(old) if old else b"", new.whole()
    binary = is_binary(before), is_binary(after)
    if any(binary):
        return {
            (True, True): "Replace binary file",
            (True, False): "Replace binary file with text file",
            (False, True): "Replace text file with binary file",
        }[binary]
    old_lines, new_lines = (lines_of(each.decode(UTF8.name, UTF8.errors)) for each in (before, after))
    return diff(old_lines, new_lines)


def keep_rendered(text: str) -> str:
    """Write what a template came to into a private file; its path, for `drop_rendered`."""
    import tempfile

    fd, path = tempfile.mkstemp(prefix=_RENDERED)
    with open(fd, "wb") as stream:
        stream.write(UTF8.encode(text))
    return path


def drop_rendered(path: str) -> None:
    """Remove the file if it is one of `keep_rendered`."""
    if not os.path.basename(path).startswith(_RENDERED):
        return
    import tempfile

    if os.path.dirname(path) == tempfile.gettempdir():
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)


def content_of(
    sfn: str, source: str | None, source_sum: Mapping[str, str], saltenv: str, present: str, *, verify: bool = True
) -> Content | None:
    """The content that a source has, fetched if need be; None when the file at `present` has its digest already.

    `sfn` is the file here if it has been fetched. Raises CommandExecutionError when there is no such source, or it does
    not have its digest.
    """
    digest, kind = source_sum.get("hsum", "").lower(), source_sum.get("hash_type", "sha256")
    if digest and present and get_hash(present, kind) == digest:
        return None
    path = sfn or (__salt__["cp.cache_file"](source, saltenv) if source else "")
    if not path:
        raise CommandExecutionError(f"Source file '{source}' not found")
    # What the master serves is compared with its own digest when it is fetched.
    if verify and digest and not str(source).startswith("salt://") and (found := get_hash(path, kind)) != digest:
        raise CommandExecutionError(
            f"Specified {kind} checksum for {source} ({digest}) does not match actual checksum ({found})."
        )
    return Content(path)


def mode_of(source: str, saltenv: str) -> str:
    """The mode of a source in octal digits. Raises CommandExecutionError."""
    if source.startswith("salt://"):
        return str(__salt__["cp.stat_file"](source, saltenv) or "0644")
    return get_mode(source.removeprefix("file://"))
