"""Where the master's socket is, for the CLI's hot path, without a YAML parser.

A reader of lines that understands few of them. Whenever a file holds anything that could make two readers
disagree (quotes over several lines, flow collections, anchors, tabs, odd line breaks …) the answer is None
and the caller asks `saltlite.config.load`; an answer is always the one that `load` would give.
"""

from __future__ import annotations

import re

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

# What ends on its own line, whatever stands around it: no quote or bracket stays open, and nothing in it can
# start a comment, an anchor, a tag, a block scalar or another key.
_WORD = r"[A-Za-z0-9_./][A-Za-z0-9_./@+=-]*(?::[A-Za-z0-9_./@+=-]+)*"
_VALUE = rf"""(?:{_WORD}(?: {_WORD})*|"[A-Za-z0-9_./ -]*"|'[A-Za-z0-9_./ -]*'|\[\]|\{{\}})"""
_END = r" *(?: #.*)?"
_TOP = re.compile(rf"([A-Za-z_][A-Za-z0-9_.]*):(?: +({_VALUE}))?{_END}")
_INNER = re.compile(rf" +(?:- +)*(?:[A-Za-z_][A-Za-z0-9_.]*:(?: +{_VALUE})?|{_VALUE}){_END}")
_BLANK = re.compile(r" *(?:#.*)?")
_PATH = re.compile(r"(?=[^/]*/)[A-Za-z0-9_./][A-Za-z0-9_./@+=-]*")
_TEXT = re.compile(r"[\n\x20-\x7e]*")

_WANTED = ("root_dir", "sock_dir")


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
    """The wanted options of one file, or None when the file is not plain enough."""
    text = content.decode("latin-1")
    if not _TEXT.fullmatch(text):
        return None
    values: dict[str, str] = {}
    previous = ""
    for line in text.split("\n"):
        if _BLANK.fullmatch(line):
            continue
        if match := _TOP.fullmatch(line):
            previous, value = match[1], match[2]
            if previous in _WANTED:
                if previous in values or value is None or not _PATH.fullmatch(value):
                    return None
                if previous == "root_dir" and not value.startswith("/"):
                    return None
                values[previous] = value
        elif not previous or previous in _WANTED or not _INNER.fullmatch(line):
            # An indented first line moves the top level, and one below a wanted option continues its value.
            return None
    return values
