"""Another web page on this API, such as SaltGUI: Salt's options `app`, `app_path`, `static` and `static_path`.

The files are public, as they are needed for the login. Only regular files that every user of this machine may read are
served. No part of a path may be a symbolic link or begin with a dot, so that a request cannot leave the folder and sees
no `.git`.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

from tornado.web import HTTPError

from saltlite.api.endpoint import Endpoint
from saltlite.config.api import ApiConfig

PIECE = 64 * 1024
"""Bytes that are sent at once."""
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
"""SaltGUI's pages have style attributes. Scripts come from files of this address only, as in the console."""
_TYPES = {
    "css": "text/css; charset=utf-8",
    "gif": "image/gif",
    "html": "text/html; charset=utf-8",
    "ico": "image/x-icon",
    "jpg": "image/jpeg",
    "js": "text/javascript; charset=utf-8",
    "json": "application/json",
    "mjs": "text/javascript; charset=utf-8",
    "png": "image/png",
    "svg": "image/svg+xml",
    "txt": "text/plain; charset=utf-8",
    "woff": "font/woff",
    "woff2": "font/woff2",
}
_OTHER_TYPE = "application/octet-stream"
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class WebApp(Endpoint):
    """`app_path` and everything below it: the page of `app`, without a login."""

    def streams(self) -> bool:
        """Pages have formats of their own, whatever Accept says."""
        return True

    def check_query(self) -> None:
        """The page reads its parameters itself."""

    async def get(self, *_path: str) -> None:
        """The page."""
        await send_app(self)


class StaticFiles(WebApp):
    """`static_path`/<path>: the files in the folder `static`, without a login."""

    async def get(self, *path: str) -> None:
        """One file, or 304 if the browser has it."""
        await send_file(self, self.context.config.static, path[0])


def web_app_paths(config: ApiConfig) -> dict[str, type[Endpoint]]:
    """Path -> endpoint, of what is configured."""
    found: dict[str, type[Endpoint]] = {}
    if config.static:
        found[rf"{re.escape(config.static_path)}/(.*)"] = StaticFiles
    if config.app:
        found[rf"{re.escape(config.app_path)}(?:/(.*))?"] = WebApp
    return found


async def send_app(endpoint: Endpoint) -> None:
    """Answer with the page of `app`. Raises HTTPError 404."""
    await send_file(endpoint, *os.path.split(endpoint.context.config.app))


async def send_file(endpoint: Endpoint, folder: str, path: str) -> None:
    """Answer with a file below a folder that every user of the machine may read. Raises HTTPError 404."""
    try:
        with _opened(folder, path) as file:
            await _answer(endpoint, file, _TYPES.get(path.rpartition(".")[2].lower(), _OTHER_TYPE))
    except OSError:
        raise HTTPError(404) from None


async def _answer(endpoint: Endpoint, file: BinaryIO, kind: str) -> None:
    found = os.fstat(file.fileno())
    endpoint.set_header("Content-Security-Policy", POLICY)
    endpoint.set_header("Referrer-Policy", "no-referrer")
    # A page that the browser kept for "back" would hold its stream of events, and there are six connections to a host.
    endpoint.set_header("Cache-Control", "no-store" if kind == _TYPES["html"] else "no-cache")
    endpoint.set_header("ETag", f'"{found.st_ino:x}-{found.st_size:x}-{found.st_mtime_ns:x}"')
    if endpoint.check_etag_header():
        endpoint.set_status(304)
        endpoint.finish()
        return
    endpoint.set_header("Content-Type", kind)
    endpoint.set_header("Content-Length", str(found.st_size))
    while piece := file.read(PIECE):
        endpoint.write(piece)
        await endpoint.flush()
    endpoint.finish()


@contextmanager
def _opened(folder: str, path: str) -> Iterator[BinaryIO]:
    """A public file below a folder. Raises OSError if there is none."""
    *names, last = path.split("/")
    if any(not name or name.startswith(".") or "\0" in name for name in (*names, last)):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    # The folder itself may be a symbolic link.
    here = os.open(folder, _FOLDER)
    try:
        for name in names:
            _require(here, stat.S_IXOTH)
            above, here = here, os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=here)
            os.close(above)
        _require(here, stat.S_IXOTH)
        file = os.open(last, _FILE, dir_fd=here)
    finally:
        os.close(here)
    with open(file, "rb") as opened:
        _require(file, stat.S_IROTH)
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        yield opened


def _require(opened: int, right: int) -> None:
    """Raises PermissionError if not every user has this right: the API's own user may read its secrets."""
    if not os.fstat(opened).st_mode & right:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
