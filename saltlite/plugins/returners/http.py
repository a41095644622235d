"""
Send returns and events to an HTTP server: one POST of a JSON map with a list in ``returns`` or ``events``.

The settings are in ``returner_config: {http: {...}}`` of the master:

``url``
    Required. Certificates of ``https`` are verified. Plain ``http`` is meant for this machine.
``token_file``
    A file whose content is sent as ``Authorization: Bearer``, with ``http`` to this machine only. The master's
    ``user`` must be able to read it.
``ca_file``
    Trusted certificates instead of the system's.
``timeout``
    Seconds to wait for the connection and for the answer; default 10.

Status 200 to 299 accepts the whole list. 400 to 499 rejects it for good, except 401, 403, 408, 425 and 429, which are
retried like all other errors. Redirects are not followed.

:maintainer:    The saltlite authors
:maturity:      new
:platform:      all
"""

from __future__ import annotations

import http.client
import json
import ssl
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from saltlite.errors import CommandExecutionError, SaltInvocationError
from saltlite.plugins.returners._plain import plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from saltlite.loader.hints import __opts__

_AGAIN = frozenset({401, 403, 408, 425, 429})
"""Statuses that may change: the server is busy, or the token is wrong."""
_ANSWER_MAX = 64 * 1024
_PORTS = {"https": 443, "http": 80}
_HERE = ("localhost", "127.0.0.1", "::1")


def returner(ret: dict[str, Any]) -> None:
    """Send one return.

    CLI Example: ``saltlite '*' test.ping --return http``
    """
    return_many([ret])


def return_many(rets: Sequence[dict[str, Any]]) -> None:
    """Send these returns.

    CLI Example: ``saltlite '*' test.ping --return http``
    """
    _post({"returns": list(rets)})


def event_return(events: Sequence[dict[str, Any]]) -> None:
    """Send these events.

    CLI Example: ``saltlite-run event.send app/released``
    """
    _post({"events": list(events)})


def _post(content: dict[str, Any]) -> None:
    settings = __opts__["returner_config"].get("http") or {}
    url = urlsplit(str(settings.get("url") or ""))
    if url.scheme not in _PORTS or not url.hostname:
        raise CommandExecutionError("returner_config: http needs a url, as in https://logs.example.org/saltlite")
    headers = {"Content-Type": "application/json", "User-Agent": "saltlite"}
    try:
        if settings.get("token_file"):
            if url.scheme == "http" and url.hostname not in _HERE:
                raise CommandExecutionError(
                    f"the token is not sent to {url.hostname} in the open: use https in its url"
                )
            with open(settings["token_file"], encoding="ascii") as file:
                headers["Authorization"] = f"Bearer {file.read().strip()}"
        status = _answer(url, json.dumps(plain(content)).encode(), headers, settings)
    except (OSError, ValueError, http.client.HTTPException) as error:
        # ssl.SSLError and network errors are OSErrors.
        raise CommandExecutionError(f"{url.hostname} did not take it: {error}") from error
    if 200 <= status < 300:
        return
    text = f"{url.hostname} answered {status} {http.client.responses.get(status, '')}".rstrip()
    if 400 <= status < 500 and status not in _AGAIN:
        raise SaltInvocationError(text)
    raise CommandExecutionError(text)


def _answer(url: Any, body: bytes, headers: dict[str, str], settings: dict[str, Any]) -> int:
    port, timeout_s = url.port or _PORTS[url.scheme], float(settings.get("timeout", 10))
    connection = http.client.HTTPConnection(url.hostname, port, timeout=timeout_s)
    if url.scheme == "https":
        context = ssl.create_default_context(cafile=settings.get("ca_file") or None)
        connection = http.client.HTTPSConnection(url.hostname, port, timeout=timeout_s, context=context)
    try:
        where = url.path or "/"
        connection.request("POST", f"{where}?{url.query}" if url.query else where, body, headers)
        answer = connection.getresponse()
        answer.read(_ANSWER_MAX)
        return answer.status
    finally:
        connection.close()
