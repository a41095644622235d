"""Where the master's socket is, for the CLI's hot path, without a YAML parser.

Two options decide it: `root_dir` and `sock_dir`. This reader follows quotes, brackets and block scalars only as far as
it takes to know that a line at the left margin is a key of the file. When it cannot be certain about a line that names
one of the two options, the answer is None and the caller asks `saltlite.config.load`. An answer is always the one that
`load` would give. Mistakes elsewhere in the file are not looked for: the daemons and `config check` report them.
"""

from __future__ import annotations

from saltlite.config.paths import (
    DEFAULT_ROOT_DIR,
    DEFAULT_SOCK_DIR,
    config_files,
    default_under,
    given_under,
    master_socket,
    read_config_file,
    socket_path_fits,
)

_WANTED = ("root_dir", "sock_dir")
_ODD = ("\r", "\t", "\0", "\x85", "\u2028", "\u2029", "\ufeff", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e")
"""What some readers take for the end of a line or for white space."""
_LETTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_")
_KEY = _LETTERS | frozenset("0123456789.-")
_PATH = _KEY | frozenset("/@+=")
_SPECIAL = frozenset("'\"[]{}|>&*!")
"""Characters that may begin or end a value of several lines, or refer to another value."""
_REFERRING = frozenset("&*!?%@`")
"""Anchors, aliases, tags, complex keys; and what YAML reserves."""


def socket_path(config_dir: str) -> str | None:
    """The path of the master's socket, or None when only `load_master` can tell.

    Reads `config_dir`/master and `config_dir`/master.d/*.conf. Other options are not checked.
    """
    found: dict[str, str] = {}
    try:
        for path in config_files(config_dir, "master"):
            values = _wanted_values(read_config_file(path))
            if values is None:
                return None
            found.update(values)
    except OSError:
        return None
    root_dir = found.get("root_dir", DEFAULT_ROOT_DIR)
    if "sock_dir" in found:
        sock_dir = given_under(root_dir, found["sock_dir"])
    else:
        sock_dir = default_under(root_dir, DEFAULT_SOCK_DIR)
    socket = master_socket(sock_dir)
    return socket if socket_path_fits(socket) else None


def _wanted_values(content: bytes) -> dict[str, str] | None:
    """The wanted options of one file, or None when it is not certain what they are."""
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return None
    if any(odd in text for odd in _ODD):
        return None
    reader = _Reader()
    if all(map(reader.take, text.split("\n"))) and not reader.is_open:
        return reader.values
    return None


class _Reader:
    """Takes the lines of a file, one after the other."""

    def __init__(self) -> None:
        self.values: dict[str, str] = {}
        self._began = False
        self._quote = ""
        self._depth = 0  # of [ and {
        self._at_value = False
        self._in_block_scalar = False
        self._certain = True
        self._after_wanted = False
        self._indent = 0  # of the last line with content
        self._bare = False  # whether that was text without a key or a dash, which the next line may continue
        self._complete = True  # whether it ended with a value

    @property
    def is_open(self) -> bool:
        """Whether a quote or a bracket waits for its end."""
        return bool(self._quote or self._depth)

    def take(self, line: str) -> bool:
        """False when only a YAML parser can tell what the file says."""
        stripped = line.strip(" ")
        if self.is_open:
            return not _names_wanted(line) and self._follow(line, 0)
        if not stripped or stripped[0] == "#":
            return True
        if line[0] == " " or stripped == "-" or line.startswith("- "):
            return self._nested(line, stripped)
        self._in_block_scalar = False
        if not self._began and stripped == "---":
            self._began = True
            return True
        self._began = True
        return self._key(line)

    def _key(self, line: str) -> bool:
        key, colon, value = line.partition(":")
        if not colon or key[:1] not in _LETTERS or not _KEY.issuperset(key) or value[:1] not in ("", " "):
            return False
        self._indent, self._bare, self._complete = 0, False, bool(value.strip(" "))
        self._after_wanted = key in _WANTED
        if self._after_wanted:
            path = _path_in(value)
            if not self._certain or path is None or key in self.values:
                return False
            if key == "root_dir" and path[0] != "/":
                return False
            self.values[key] = path
            return True
        return not _names_wanted(line) and self._follow(line, len(key))

    def _nested(self, line: str, stripped: str) -> bool:
        if not self._began or self._after_wanted or _names_wanted(line):
            return False
        if self._in_block_scalar:
            return True
        indent = len(line) - len(line.lstrip(" "))
        if stripped[0] in _SPECIAL and self._complete and (self._bare or indent > self._indent):
            # It may be the rest of a plain scalar, in which quotes and brackets are text.
            self._certain = False
            self._in_block_scalar = True
            return True
        self._indent = indent
        self._bare = not stripped.startswith("-") and ":" not in stripped
        self._complete = stripped[-1] not in ":-"
        return self._follow(line, indent)

    def _follow(self, line: str, start: int) -> bool:
        """Follow quotes and brackets to the end of the line. False for what refers to other values."""
        if not self.is_open and _SPECIAL.isdisjoint(line):
            return True
        self._at_value = not self._quote
        position = start + 1 if start and not self.is_open and line[start] == ":" else start
        while position < len(line):
            char, following = line[position], line[position + 1 : position + 2]
            if self._quote:
                position += self._quoted(char, following)
                continue
            if char == "#" and line[position - 1 : position] in ("", " "):
                break
            if self._at_value and not self._depth and char in "|>":
                # The text below is no YAML as far as the margin. Where the scalar of an inner value ends is not known.
                self._in_block_scalar = True
                self._certain = self._certain and line[0] in _LETTERS
                break
            if self._at_value and char in _REFERRING:
                return False
            if char != " ":
                self._structure(char, following)
            position += 1
        return True

    def _quoted(self, char: str, following: str) -> int:
        """One character inside quotes; how many were read."""
        if (char == "\\" and self._quote == '"') or (char == self._quote == following == "'"):
            return 2
        if char == self._quote:
            self._quote = ""
        return 1

    def _structure(self, char: str, following: str) -> None:
        """One character outside quotes: whether a value begins behind it."""
        ends_word = following in ("", " ")
        if self._at_value and char in "'\"":
            self._quote, self._at_value = char, False
        elif char in "[{" and (self._at_value or self._depth):
            self._depth, self._at_value = self._depth + 1, True
        elif self._depth and char in "]}":
            self._depth, self._at_value = self._depth - 1, False
        elif (char == ":" and (ends_word or self._depth)) or (self._depth and char == ","):
            self._at_value = True
        elif not (self._at_value and char == "-" and ends_word):
            self._at_value = False


def _names_wanted(line: str) -> bool:
    return "root_dir" in line or "sock_dir" in line


def _path_in(value: str) -> str | None:
    """The path that follows the colon of an option, or None when it is not plainly one."""
    path = value.partition(" #")[0].strip(" ")
    if len(path) > 1 and path[0] in "'\"" and path[-1] == path[0]:
        path = path[1:-1]
    return path if path and "/" in path and path[0] not in "-@+=" and _PATH.issuperset(path) else None
