"""Files of HTTP servers in the minion's cache, for `cp` and all modules that fetch files through it.

A copy is whole or not there: it is written beside its place, checked, and then renamed. Its place is Salt's:
`<cachedir>/extrn_files/<saltenv>/<host>/<path>`. Credentials in a URL are sent to its server, and are in no path, log
or message.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from saltlite.errors import CommandExecutionError, SaltInvocationError
from saltlite.plugins.modules import _safe_files, _web

FOLDER = "extrn_files"
CONNECT_S = 20.0
"""Seconds to wait for a silent server."""
WHOLE_S = 3600.0
"""Seconds for one file."""
BYTES_MAX = 16 * 1024**3
"""Bytes of one file."""

_NAME_MAX = 200
"""Characters of one name in the cache. A longer name is replaced by its digest, as is one that cannot name a file."""
_OK = 200
_NOT_MODIFIED = 304
_CALLED = "saltlite cp"


class Wanted(NamedTuple):
    """What a download must be, and how its server is verified."""

    digest: Mapping[str, str]
    """`hash_type` and `hsum`; empty for any content."""
    verify_ssl: bool = True
    use_etag: bool = False
    """Whether the copy stays if the server says by an ETag that it is the same."""


def cached_path(cachedir: str, url: str, env: str) -> str:
    """The place of a file's copy. Raises SaltInvocationError for an invalid URL."""
    try:
        parts = urlsplit(_web.without_login(url)[0])
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise SaltInvocationError(f"{shown(url)} is not a valid URL: {error}.") from error
    if not host:
        raise SaltInvocationError(f"{shown(url)} is not a valid URL: it has no host.")
    path = f"{parts.path}-{parts.query}" if parts.query else parts.path
    names = [_name(name) for name in path.split("/") if name]
    return os.path.join(cachedir, FOLDER, env, _name(f"{host}:{port}" if port else host), *(names or ["index"]))


def fetch(url: str, place: str, options: Mapping[str, Any], wanted: Wanted) -> None:
    """Download the file to `place`, in folders that are created for it; `options` are the minion's, for the proxy.

    Raises CommandExecutionError with the reason; what is at `place` then stays.
    """
    plain, name, secret = _web.without_login(url)
    headers = {"User-Agent": _CALLED} | ({"Authorization": _web.basic_login(name, secret)} if name else {})
    mark = f"{place}.etag"
    if wanted.use_etag and os.path.isfile(place) and os.path.isfile(mark):
        headers["If-None-Match"] = _safe_files.read_whole(mark).decode("latin-1")
    transport = _web.Transport(
        partial(_web.tls_context, options.get("ca_bundle"), wanted.verify_ssl, None), _web.proxy_for(plain, options)
    )
    limits = _web.Limits(CONNECT_S, WHOLE_S, BYTES_MAX)
    try:
        os.makedirs(os.path.dirname(place), mode=0o700, exist_ok=True)
        with _web.download(plain, headers, transport=transport, limits=limits) as answer:
            if answer.status == _NOT_MODIFIED and "If-None-Match" in headers:
                return
            if answer.status != _OK:
                raise CommandExecutionError(f"{shown(url)}: HTTP {answer.status}: {answer.reason}")
            _safe_files.write_whole(place, _checked(answer.blocks, url, wanted.digest), new_mode=0o600)
    except _web.NoAnswerError as error:
        raise CommandExecutionError(f"{shown(url)}: {error}") from error
    except OSError as error:
        raise CommandExecutionError(f"{shown(url)} cannot be kept here: {error.strerror} ({error.filename})") from error
    if wanted.use_etag and "etag" in answer.headers:
        _safe_files.write_whole(mark, answer.headers["etag"].encode("latin-1", "replace"), new_mode=0o600)


def shown(url: str) -> str:
    """The URL for messages, without credentials, query and fragment, which may be secret."""
    return _safe_files.shown(_web.without_login(url)[0].partition("#")[0].partition("?")[0])


def _checked(blocks: Iterator[bytes], url: str, digest: Mapping[str, str]) -> Iterator[bytes]:
    """The same blocks. Raises CommandExecutionError at the end if they have another digest."""
    kind, expected = digest.get("hash_type", "sha256"), digest.get("hsum", "").lower()
    found = hashlib.new(kind, usedforsecurity=False)
    for block in blocks:
        found.update(block)
        yield block
    if expected and found.hexdigest() != expected:
        raise CommandExecutionError(
            f"Specified {kind} checksum for {shown(url)} ({expected}) does not match actual checksum "
            f"({found.hexdigest()})."
        )


def _name(text: str) -> str:
    if text in {".", ".."} or len(text) > _NAME_MAX or not text.isprintable() or text.endswith(".etag"):
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return text
