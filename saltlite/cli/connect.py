"""From the options of a command to a client of the right master, logged in where the options ask for it.

A password comes from the terminal or from a descriptor, never from an argument or the environment, where other
processes can read it. It is sent only to a server that root, this user or the owner of the configuration started.
"""

from __future__ import annotations

import os
import sys

from saltlite.client.connection import FleetClock
from saltlite.client.local import LocalClient
from saltlite.config import fast
from saltlite.config.paths import DEFAULT_CONFIG_DIR, master_socket
from saltlite.errors import LoginError, UsageError

TYPE_CHECKING = False  # importing typing takes as long as the rest of the command line
if TYPE_CHECKING:
    from saltlite.cli.console import Console
    from saltlite.cli.options import Parsed

TOKEN_FILE = "~/.saltlite_token"  # noqa: S105 - the name of a file
PASSWORD_MAX = 4096
"""Bytes that are read from a descriptor."""


def open_client(parsed: Parsed, console: Console | None = None) -> LocalClient:
    """A client of the master whose configuration folder `-c` names.

    It acts as the user of this process, or with -a and -T as the user who logs in. `console` then compares times with
    the clock of the fleet. Raises ConfigError and LoginError.
    """
    config_dir: str = parsed.options.get("config_dir", DEFAULT_CONFIG_DIR)
    client = LocalClient(fast.socket_path(config_dir) or _configured_socket(config_dir))
    if console is not None:
        console.now = client.clock = FleetClock(console.own_now)
    if "auth" in parsed.options or parsed.on("make_token"):
        log_in(client, parsed, config_dir)
    return client


def _configured_socket(config_dir: str) -> str:
    """The socket by a configuration that needs real YAML to be understood, or that is wrong, which this reports."""
    from saltlite.config.load import load_master

    return master_socket(load_master(config_dir).config.sock_dir)


def log_in(client: LocalClient, parsed: Parsed, config_dir: str) -> None:
    """Log the client in, with a stored token or a new login.

    Raises LoginError when the master refuses, UsageError when there is neither a token nor a backend.
    """
    backend = parsed.options.get("auth")
    client.require_server(_trusted_owners(config_dir))
    if backend is None:
        client.token = _tokens().get(client.path, "")
        if not client.token:
            raise LoginError(
                "no login is stored here: `saltlite -T -a pam ...` asks for a password and stores the login"
            )
        return
    keeps = parsed.on("make_token")
    token = _tokens().get(client.path, "") if keeps else ""
    if token and _is_valid(client, token, backend):
        client.token = token
        return
    import getpass

    user = parsed.options.get("username") or getpass.getuser()
    client.log_in(backend, user, _password(parsed, user), keep=keeps)
    if keeps:
        _store_token(client.path, client.token)


def _is_valid(client: LocalClient, token: str, backend: str) -> bool:
    client.token = token
    try:
        return bool(client.call("whoami")["eauth"] == backend)
    except LoginError:
        client.token = ""
        return False


def _trusted_owners(config_dir: str) -> frozenset[int]:
    ours = frozenset((0, os.geteuid()))
    try:
        return ours | {os.stat(config_dir).st_uid}
    except OSError:
        return ours


def _password(parsed: Parsed, user: str) -> str:
    descriptor = parsed.options.get("password_fd")
    try:
        return (ask_password(f"password of {user}: ") if descriptor is None else read_password(descriptor)).decode()
    except UnicodeDecodeError as error:
        raise UsageError(f"no password could be read from descriptor {descriptor}: {error}") from error


def read_password(descriptor: int) -> bytes:
    """One line from an open descriptor. Raises UsageError."""
    try:
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.readline(PASSWORD_MAX).rstrip(b"\r\n")
    except OSError as error:
        raise UsageError(f"no password could be read from descriptor {descriptor}: {error.strerror}") from error


def ask_password(question: str, instead: str = "give it on a descriptor, as in --password-fd 0") -> bytes:
    """Ask for a password at the terminal. Raises UsageError without one, which says what to do `instead`."""
    if not sys.stdin.isatty():
        raise UsageError(f"there is no terminal to ask for the password: {instead}")
    import getpass

    return getpass.getpass(question).encode()


def _tokens() -> dict[str, str]:
    """Socket path -> token."""
    import json

    from saltlite.platform.privileges import read_secret

    raw = read_secret(os.path.expanduser(TOKEN_FILE))
    try:
        found = json.loads(raw) if raw else {}
    except ValueError:
        return {}
    return {str(path): str(token) for path, token in found.items()} if isinstance(found, dict) else {}


def _store_token(socket_path: str, token: str) -> None:
    import json

    from saltlite.platform.privileges import write_secret

    write_secret(os.path.expanduser(TOKEN_FILE), json.dumps({**_tokens(), socket_path: token}).encode())
