"""`salt.utils.http`: requests over HTTP, as the module `http` sends them."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping
from typing import Any

from saltlite import __version__
from saltlite.salt.modules import function_of
from saltlite.salt.utils.decorators.jinja import jinja_filter

USERAGENT = f"saltlite/{__version__}"

_UNUSED = frozenset({
    "data_render", "data_renderer", "handle", "header_render", "header_renderer", "node", "persist_session",
    "session_cookie_jar", "stream", "template_dict",
})  # fmt: skip
_HIDDEN = "XXXXXXXXXX"
_BUNDLES = (
    "/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/pki/tls/certs/ca-bundle.trust.crt",
    "/etc/ssl/certs/ca-bundle.crt", "/var/lib/ca-certificates/ca-bundle.pem", "/etc/ssl/ca-bundle.pem",
)  # fmt: skip


@jinja_filter("http_query")
def query(url: str, method: str = "GET", **options: Any) -> dict[str, Any]:
    """Send a request, with the arguments of the function `http.query`.

    What only changes how Salt works inside has no effect. Raises SaltInvocationError for what would change the result:
    a stream, a handle, a template.
    """
    send = function_of("http", "query")
    assert send is not None  # noqa: S101 - it ships
    given = {name: value for name, value in options.items() if not (name in _UNUSED and not value)}
    for name in ("node", "session_cookie_jar", "header_callback", "streaming_callback"):
        given.pop(name, None)
    found: dict[str, Any] = send(url, method, **{**given, "opts": given.get("opts") or {"verify_ssl": True}})
    return found


def get_ca_bundle(opts: Mapping[str, Any] | None = None) -> str | None:
    """The file of trusted certificates: option `ca_bundle`, or the system's; None if there is none."""
    chosen: str | None = (opts or {}).get("ca_bundle")
    if chosen is not None:
        return chosen
    return next((path for path in _BUNDLES if os.path.exists(path)), None)


def sanitize_url(url: str, hide_fields: Any) -> str:
    """The URL with the values of these fields of its query, or all, as XXXXXXXXXX."""
    if hide_fields == "ALL":
        return re.sub(r"(?<==)[^&;]*", _HIDDEN, url) if "?" in url else url
    names: Collection[str] = hide_fields if isinstance(hide_fields, list) else ()
    for name in names:
        url = re.sub(rf"([?&;]{re.escape(name)}=)[^&;]*", rf"\g<1>{_HIDDEN}", url)
    return url
