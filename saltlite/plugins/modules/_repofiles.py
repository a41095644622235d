"""Files that describe repositories of rpm packages (`NAME.repo`), as dnf, yum and zypper read them.

What belongs here: reading such files and changing one repository in them. Comments, the order of lines and whatever is
not understood stay as they are. It knows nothing of which settings make sense.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from saltlite.errors import CommandExecutionError, SaltInvocationError
from saltlite.plugins.modules._safe_files import write_whole

_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:+@()-]*", re.ASCII)
_KEY = re.compile(r"[a-z_][a-z0-9_.-]*", re.ASCII)
_SECTION = re.compile(r"^\[(.+)\]\s*$")
_SETTING = re.compile(r"^([^=:\s\[#;][^=:]*?)\s*[=:]\s*(.*)$")


def checked_id(repo: Any) -> str:
    """The id of a repository, which is also the name of its file; or SaltInvocationError."""
    if not _ID.fullmatch(str(repo)):
        raise SaltInvocationError(f"{repo!r} is not the id of a repository.")
    return str(repo)


def read(folders: Sequence[str]) -> dict[str, dict[str, Any]]:
    """All repositories of the folders: `{id: {"file": path, key: value}}`, with `comments` where there are any."""
    found: dict[str, dict[str, Any]] = {}
    for folder in folders:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            for name in sorted(os.listdir(folder)):
                if name.endswith(".repo"):
                    path = os.path.join(folder, name)
                    found |= {repo: {**values, "file": path} for repo, values in stanzas(path).items()}
    return found


def stanzas(path: str) -> dict[str, dict[str, Any]]:
    """The repositories of one file: `{id: {key: value}}`. A value of several lines is one text with line ends.

    Raises CommandExecutionError when it cannot be read.
    """
    return stanzas_of(_text(path))


def stanzas_of(text: str) -> dict[str, dict[str, Any]]:
    """The repositories of the text of a file, as `stanzas`."""
    found: dict[str, dict[str, Any]] = {}
    for repo, lines in _sections(text):
        if repo is None:
            continue
        values = found.setdefault(repo, {})
        key = ""
        for line in lines[1:]:
            setting = _SETTING.match(line)
            if line.startswith(("#", ";")):
                values.setdefault("comments", []).append(line[1:].strip())
            elif setting:
                key = setting[1].strip().lower()
                values[key] = setting[2].strip()
            elif line[:1].isspace() and line.strip() and key:
                values[key] = f"{values[key]}\n{line.strip()}".strip()
    return found


def changed(path: str, repo: str, values: Mapping[str, Any]) -> str:
    """The text of the file with these values of a repository set, and those that are None removed.

    File and repository need not be there yet. Raises SaltInvocationError for what cannot be written as key and value,
    CommandExecutionError for a file that cannot be read.
    """
    lines = {key: _written(key, value) for key, value in values.items()}
    text = _text(path) if os.path.exists(path) else ""
    sections = _sections(text)
    if repo not in [name for name, _ in sections]:
        if text.strip():
            sections[-1][1].append("")
        sections.append((repo, [f"[{repo}]"]))
    out: list[str] = []
    for name, body in sections:
        out += _changed(body, lines) if name == repo else body
    return "\n".join(out).strip("\n") + "\n"


def without(path: str, repo: str) -> str:
    """The text of the file without a repository; "" when it was the only one."""
    sections = _sections(_text(path))
    if {name for name, _ in sections} <= {None, repo}:
        return ""
    kept = [line for name, body in sections if name != repo for line in body]
    return "\n".join(kept).strip("\n") + "\n"


def save(path: str, text: str) -> None:
    """Put the text in place whole; mode and owner stay. Without a text the file goes."""
    if text:
        write_whole(path, text.encode("utf-8", "surrogateescape"), new_mode=0o644)
    else:
        os.unlink(path)


def _sections(text: str) -> list[tuple[str | None, list[str]]]:
    """The lines of a file by repository; those before the first one under None."""
    found: list[tuple[str | None, list[str]]] = [(None, [])]
    for line in text.splitlines():
        heading = _SECTION.match(line)
        if heading:
            found.append((heading[1].strip(), []))
        found[-1][1].append(line)
    return found


def _changed(body: Sequence[str], lines: Mapping[str, list[str]]) -> Iterator[str]:
    """The lines of one repository with some of its values replaced; new ones stand behind the last value."""
    left = dict(lines)
    kept: list[str] = []
    dropping = False
    for line in body:
        setting = _SETTING.match(line)
        if setting:
            key = setting[1].strip().lower()
            dropping = key in lines
            if dropping:
                kept += left.pop(key, [])
                continue
        elif dropping and line[:1].isspace() and line.strip():
            continue  # goes on with a value that was replaced
        else:
            dropping = False
        kept.append(line)
    end = len(kept)
    while end > 1 and not kept[end - 1].strip():
        end -= 1
    yield from kept[:end]
    for added in left.values():
        yield from added
    yield from kept[end:]


def _written(key: str, value: Any) -> list[str]:
    """The lines of one value; none for None."""
    if not _KEY.fullmatch(key):
        raise SaltInvocationError(f"{key!r} is not the name of a setting of a repository.")
    if value is None:
        return []
    if isinstance(value, bool):
        value = "1" if value else "0"
    parts = [str(each) for each in value] if isinstance(value, list | tuple) else str(value).split("\n")
    if any(ord(character) < 32 and character != "\t" for part in parts for character in part):
        raise SaltInvocationError(f"{key} holds control characters.")
    first, *more = parts or [""]
    # Each further line is indented: it belongs to the value whatever it holds, and cannot begin another repository.
    return [f"{key}={first}", *(f"    {part.strip()}" for part in more if part.strip())]


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as stream:
            return stream.read()
    except OSError as error:
        raise CommandExecutionError(f"{path} cannot be read: {error.strerror}") from error
