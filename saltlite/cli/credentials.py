"""Who asks, when it is not the user of this process: a login for one command (-a), or one that is kept (-T).

A password comes from the terminal or from a descriptor, never from an argument or the environment, where other
processes can read it; and it is sent to nobody but root, this user, and the owner of the master's configuration.
"""

from __future__ import annotations

import contextlib
import getpass
import json
import os
import sys
from typing import TYPE_CHECKING

from saltlite.errors import LoginError, UsageError
from saltlite.platform.privileges import read_secret, write_secret

if TYPE_CHECKING:
    from saltlite.cli.options import Parsed
    from saltlite.client.local import LocalClient

TOKEN_FILE = "~/.saltlite_token"  # noqa: S105 - the name of a file
PASSWORD_MAX = 4096
"""Bytes that are read from a descriptor."""


def log_in(client: LocalClient, parsed: Parsed, config_dir: str) -> None:
    """Make the client somebody's: of the token that is kept, or of a new login.

    Raises LoginError for a login that is refused, UsageError when there is neither a token nor a backend to ask.
    """
    backend = parsed.options.get("auth")
    client.require_server(_trusted(config_dir))
    if backend is None:
        client.token = _kept(client.path)
        if not client.token:
            raise LoginError("no login is kept here: `saltlite -T -a pam ...` asks for a password and keeps the login")
        return
    keeps = parsed.on("make_token")
    token = _kept(client.path) if keeps else ""
    if token and _is_good(client, token, backend):
        client.token = token
        return
    user = parsed.options.get("username") or getpass.getuser()
    client.log_in(backend, user, _password(parsed, user), keep=keeps)
    if keeps:
        _keep(client.path, client.token)


def _is_good(client: LocalClient, token: str, backend: str) -> bool:
    client.token = token
    with contextlib.suppress(LoginError):
        return bool(client.call("whoami")["eauth"] == backend)
    client.token = ""
    return False


def _trusted(config_dir: str) -> frozenset[int]:
    owners = {0, os.geteuid()}
    with contextlib.suppress(OSError):
        owners.add(os.stat(config_dir).st_uid)
    return frozenset(owners)


def _password(parsed: Parsed, user: str) -> str:
    descriptor = parsed.options.get("password_fd")
    if descriptor is not None:
        try:
            with os.fdopen(descriptor, "rb", closefd=False) as file:
                return file.readline(PASSWORD_MAX).rstrip(b"\r\n").decode()
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"no password could be read from descriptor {descriptor}: {error}") from error
    if not sys.stdin.isatty():
        raise UsageError("there is no terminal to ask for the password: give it on a descriptor, as in --password-fd 0")
    return getpass.getpass(f"password of {user}: ")


def _path() -> str:
    return os.path.expanduser(TOKEN_FILE)


def _tokens() -> dict[str, str]:
    """Socket path -> token."""
    raw = read_secret(_path())
    try:
        found = json.loads(raw) if raw else {}
    except ValueError:
        return {}
    return {str(path): str(token) for path, token in found.items()} if isinstance(found, dict) else {}


def _kept(socket_path: str) -> str:
    return _tokens().get(socket_path, "")


def _keep(socket_path: str, token: str) -> None:
    write_secret(_path(), json.dumps({**_tokens(), socket_path: token}).encode())
