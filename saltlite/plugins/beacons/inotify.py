"""Events about files that change, by the kernel's inotify. It needs no package.

``files`` maps paths to settings: ``mask`` lists what is watched (create, delete and modify by default), ``recurse``
watches folders below, ``auto_add`` also those that are created later, ``exclude`` lists globs of paths, or
``{pattern: {regex: true}}``. ``coalesce: true`` joins equal changes of one look::

    beacons:
      inotify:
        - files:
            /etc/important.conf: {mask: [modify]}
            /srv/app: {mask: [create, delete], recurse: true, auto_add: true, exclude: ['*.tmp']}
        - disable_during_state_run: true

:maintainer:    The saltlite authors
:maturity:      new
:platform:      Linux
"""

from __future__ import annotations

import ctypes
import errno
import fnmatch
import os
import re
import struct
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from saltlite.plugins.beacons import _settings

if TYPE_CHECKING:
    from saltlite.loader.hints import __context__

_MASKS = {
    "access": 0x1, "modify": 0x2, "attrib": 0x4, "close_write": 0x8, "close_nowrite": 0x10, "open": 0x20,
    "moved_from": 0x40, "moved_to": 0x80, "create": 0x100, "delete": 0x200, "delete_self": 0x400, "move_self": 0x800,
    "unmount": 0x2000, "ignored": 0x8000, "onlydir": 0x1000000, "excl_unlink": 0x4000000, "oneshot": 0x80000000,
}  # fmt: skip
_DEFAULT = ("create", "delete", "modify")
_IS_DIR, _Q_OVERFLOW, _IGNORED = 0x40000000, 0x4000, 0x8000
_HEAD = struct.Struct("iIII")
_READ_BYTES = 65_536
_WATCHES_MAX = 8192
"""Folders and files that one beacon watches; more are not watched, and an event says so."""
_CLOEXEC_NONBLOCK = os.O_CLOEXEC | os.O_NONBLOCK


def validate(config: Any) -> tuple[bool, str]:
    """Check the configuration."""
    problem = _settings.problem_of_list(config, "inotify")
    files: Any = {} if problem else _settings.settings(config).get("files")
    if not problem and (not isinstance(files, Mapping) or not files):
        problem = "The beacon inotify needs `files`, a map from paths to settings."
    for path, about in files.items() if not problem else ():
        if not isinstance(about, Mapping | None):
            problem = f"The settings of {path} are a map."
            continue
        unknown = set((about or {}).get("mask") or ()) - set(_MASKS)
        if unknown:
            problem = f"The mask of {path} has no {min(unknown)!r}: there are {', '.join(_MASKS)}."
        problem = problem or next(
            (f"{name} of {path} is true or false." for name in ("recurse", "auto_add") if not _is_flag(about, name)), ""
        )
    return (False, problem) if problem else _settings.VALID


def _is_flag(about: Mapping[str, Any] | None, name: str) -> bool:
    return isinstance((about or {}).get(name, False), bool)


def beacon(config: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What has changed since the last call."""
    about = _settings.settings(config)
    watcher: _Watcher | None = __context__.get(_key(about))
    if watcher is None:
        watcher = __context__[_key(about)] = _Watcher()
    watcher.watch(about["files"])
    found: list[dict[str, Any]] = []
    for event in watcher.events(about["files"]):
        if not about.get("coalesce") or event not in found:
            found.append(event)
    return found


def close(config: list[dict[str, Any]]) -> None:
    """Forget what has changed, and watch nothing until the next call."""
    watcher: _Watcher | None = __context__.pop(_key(_settings.settings(config)), None)
    if watcher is not None:
        watcher.close()


def _key(about: Mapping[str, Any]) -> str:
    return f"inotify.{about.get('_beacon_name', 'inotify')}"


class _Watcher:
    """One inotify descriptor. `_paths` has the path and the configured path of each watch."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._fd = self._libc.inotify_init1(_CLOEXEC_NONBLOCK)
        if self._fd < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        self._paths: dict[int, tuple[str, str]] = {}
        self._watched: set[str] = set()
        self._full = False

    def close(self) -> None:
        os.close(self._fd)

    def watch(self, files: Mapping[str, Any]) -> None:
        """Watch the configured paths that exist and are not watched yet."""
        for top, about in files.items():
            if top not in self._watched:
                self._add_tree(top, top, about or {})

    def events(self, files: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """What the kernel has noted."""
        if self._full:
            self._full = False
            yield {"change": "watches_full", "path": f"more than {_WATCHES_MAX} paths", "tag": ""}
        while data := self._read():
            at = 0
            while at < len(data):
                wd, mask, _cookie, size = _HEAD.unpack_from(data, at)
                name = os.fsdecode(data[at + _HEAD.size : at + _HEAD.size + size].rstrip(b"\0"))
                at += _HEAD.size + size
                yield from self._event(files, wd, mask, name)

    def _event(self, files: Mapping[str, Any], wd: int, mask: int, name: str) -> Iterator[dict[str, Any]]:
        if mask & _Q_OVERFLOW:
            yield {"change": "queue_overflow", "path": "", "tag": ""}
            return
        if wd not in self._paths:
            return
        folder, top = self._paths[wd]
        path, about = os.path.join(folder, name) if name else folder, files.get(top) or {}
        if mask & _IGNORED:
            # It was deleted or moved: it is watched again as soon as it is there again.
            del self._paths[wd]
            self._watched.discard(folder)
        if mask & _IS_DIR and mask & _MASKS["create"] and about.get("auto_add") and about.get("recurse"):
            self._add_tree(path, top, about)
        wanted = _mask_of(about)
        changes = [word for word, bit in _MASKS.items() if mask & wanted & bit]
        if changes and not _is_excluded(path, about):
            change = "|".join(f"IN_{word.upper()}" for word in changes) + ("|IN_ISDIR" if mask & _IS_DIR else "")
            yield {"tag": top, "path": path, "change": change}

    def _add_tree(self, path: str, top: str, about: Mapping[str, Any]) -> None:
        # Folders have to be noticed when they are created, whatever the mask.
        mask = _mask_of(about) | (_MASKS["create"] if about.get("auto_add") else 0)
        self._add(path, top, mask)
        if about.get("recurse"):
            for folder, folders, _files in os.walk(path):
                for name in folders:
                    self._add(os.path.join(folder, name), top, mask)

    def _add(self, path: str, top: str, mask: int) -> None:
        if len(self._paths) >= _WATCHES_MAX:
            self._full = True
            return
        wd = self._libc.inotify_add_watch(self._fd, os.fsencode(path), ctypes.c_uint32(mask))
        if wd >= 0:
            self._paths[wd] = path, top
            self._watched.add(path)
        elif ctypes.get_errno() == errno.ENOSPC:
            self._full = True

    def _read(self) -> bytes:
        try:
            return os.read(self._fd, _READ_BYTES)
        except BlockingIOError:
            return b""


def _mask_of(about: Mapping[str, Any]) -> int:
    bits = 0
    for word in about.get("mask") or _DEFAULT:
        bits |= _MASKS[word]
    return bits


def _is_excluded(path: str, about: Mapping[str, Any]) -> bool:
    for one in about.get("exclude") or ():
        if isinstance(one, Mapping):
            pattern = next(iter(one))
            if re.search(pattern, path):
                return True
        elif fnmatch.fnmatch(path, str(one)):
            return True
    return False
