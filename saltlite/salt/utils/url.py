"""`salt.utils.url`: `salt://` addresses, and logins in others."""

from __future__ import annotations

import re
from collections.abc import Collection
from urllib.parse import quote, urlparse, urlunparse, urlunsplit

from saltlite.salt.utils.stringutils import to_str

_SALT = "salt://"


def parse(url: str) -> tuple[str, str | None]:
    """(path, saltenv) of a `salt://` address; another one as it is, with None."""
    if not url.startswith(_SALT):
        return url, None
    path, mark, _ = url.removeprefix(_SALT).partition("?env=")
    if mark:  # the old form, which no longer means anything
        return path.lstrip("/"), None
    path, mark, saltenv = path.partition("?saltenv=")
    return path.lstrip("/"), saltenv if mark else None


def create(path: str, saltenv: str | None = None) -> str:
    """The `salt://` address of a path."""
    return _SALT + urlunsplit(("", "", to_str(path).replace("\\", "/"), f"saltenv={saltenv}" if saltenv else "", ""))


def is_escaped(url: str) -> bool:
    """Whether the path begins with `|`, so that it is taken as it stands."""
    scheme = urlparse(url).scheme
    if scheme == "salt":
        return parse(url)[0].startswith("|")
    return not scheme and url.startswith("|")


def escape(url: str) -> str:
    """The address with `|` before its path."""
    if is_escaped(url) or urlparse(url).scheme not in ("", "salt"):
        return url
    if not url.startswith(_SALT):
        return f"|{url}"
    path, saltenv = parse(url)
    return create(f"|{path}", saltenv)


def unescape(url: str) -> str:
    """The address without `|` before its path."""
    scheme = urlparse(url).scheme
    if scheme == "salt":
        path, saltenv = parse(url)
        return create(path.lstrip("|"), saltenv)
    return url if scheme else url.lstrip("|")


def add_env(url: str, saltenv: str) -> str:
    """The `salt://` address with this environment."""
    return create(parse(url)[0], saltenv) if url.startswith(_SALT) else url


def split_env(url: str) -> tuple[str, str | None]:
    """(the address without its environment, the environment)."""
    path, saltenv = parse(url)
    return (create(path), saltenv) if url.startswith(_SALT) else (url, None)


def validate(url: str, protos: Collection[str]) -> bool:
    """Whether the scheme of the address is one of these."""
    return urlparse(url).scheme in protos


def strip_proto(url: str) -> str:
    """The address without its scheme."""
    return re.sub("^[^:/]+://", "", url)


def add_http_basic_auth(
    url: str, user: str | None = None, password: str | None = None, https_only: bool = False
) -> str:
    """The address with a login. Raises ValueError with `https_only` for another scheme."""
    if user is None and password is None:
        return url
    parts = urlparse(url)
    if https_only and parts.scheme != "https":
        raise ValueError("Basic Auth only supported for HTTPS")
    login = quote(user or "", safe="") + ("" if password is None else f":{quote(password, safe='')}")
    return urlunparse(parts._replace(netloc=f"{login}@{parts.netloc}"))


def redact_http_basic_auth(output: str) -> str:
    """The text with every login of an address replaced."""
    return re.sub("(https?)://.*@", r"\1://<redacted>@", output, flags=re.IGNORECASE)
