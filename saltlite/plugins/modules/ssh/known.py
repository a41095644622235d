"""Hosts that users know: the files ``known_hosts``, by the programs of OpenSSH.

``ssh-keygen`` gets a copy of the file, so that it never writes where a user could lead it.
"""

from __future__ import annotations

import itertools
import os
import pwd
import tempfile
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from saltlite.errors import CommandExecutionError, SaltInvocationError
from saltlite.plugins.modules import _safe_files

from . import keylines
from .keylines import one_line, same_fingerprint, type_in

if TYPE_CHECKING:
    from saltlite.loader.hints import __salt__

_PORT = 22
_SYSTEM = "/etc/ssh/ssh_known_hosts"
_ATTEMPTS = 5
"""How often a host is asked that says nothing."""


def get_known_host_entries(
    user: str | None,
    hostname: str,
    config: str | None = None,
    port: int | None = None,
    fingerprint_hash_type: str | None = None,
) -> Any:
    """
    What a user, or without one the system, knows of a host: a list of ``hostname``, ``key``, ``enc``, ``fingerprint``;
    ``None`` when it is nothing.

    CLI Example::

        saltlite '*' ssh.get_known_host_entries deploy git.example.org
        saltlite '*' ssh.get_known_host_entries '' git.example.org port=2222
    """
    place = _place(user, config)
    if isinstance(place, dict):
        return place
    name = _ssh_name(hostname, port)
    data = _safe_files.read_user_file(*place)
    entries = list(_entries(_keygen(["-F", name], data)[0], fingerprint_hash_type)) if data else []
    return entries or None


def recv_known_host_entries(
    hostname: str,
    enc: str | None = None,
    port: int | None = None,
    hash_known_hosts: bool = True,
    timeout: int = 5,
    fingerprint_hash_type: str | None = None,
) -> list[dict[str, str]] | None:
    """
    The keys that a host shows, as ``get_known_host_entries``; ``None`` when it shows none in that many seconds.

    CLI Example::

        saltlite '*' ssh.recv_known_host_entries git.example.org enc=ed25519 port=2222
    """
    words = ["ssh-keyscan", "-T", str(_whole(timeout, "timeout"))]
    words += ["-p", str(_whole(port, "port"))] if port else []
    words += ["-t", _word(enc, "a type of keys")] if enc else []
    words += ["-H"] if hash_known_hosts else []
    for _ in range(_ATTEMPTS):
        done = __salt__["cmd.run_all"](
            [*words, "--", _word(hostname, "the name of a host")], python_shell=False, ignore_retcode=True
        )
        entries = list(_entries(done["stdout"], fingerprint_hash_type))
        if entries:
            return entries
    return None


def check_known_host(
    user: str | None = None,
    hostname: str | None = None,
    key: str | None = None,
    fingerprint: str | None = None,
    config: str | None = None,
    port: int | None = None,
    fingerprint_hash_type: str | None = None,
) -> Any:
    """
    What ``set_known_host`` would do: ``add``, ``update``, or nothing, as the host ``exists``.

    CLI Example::

        saltlite '*' ssh.check_known_host deploy git.example.org fingerprint='SHA256:uNiVztksCsDhcc0u9e8BrMiJL+K'
    """
    if not hostname:
        return _error("hostname argument required")
    entries = get_known_host_entries(user, hostname, config, port, fingerprint_hash_type)
    if not entries:
        return "add"
    if isinstance(entries, dict):
        return entries
    if key:
        return "exists" if key in [entry["key"] for entry in entries] else "update"
    if fingerprint:
        return "exists" if _has(entries, fingerprint) else "update"
    return "exists"


def rm_known_host(
    user: str | None = None, hostname: str | None = None, config: str | None = None, port: int | None = None
) -> dict[str, str]:
    """
    Have a user, or without one the system, know a host no more: ``{"status": "removed", "comment": ...}``.

    CLI Example::

        saltlite '*' ssh.rm_known_host deploy git.example.org
    """
    if not hostname:
        return _error("hostname argument required")
    return _changed(user, config, ["-R", _ssh_name(hostname, port)], "removed")


def hash_known_hosts(user: str | None = None, config: str | None = None) -> dict[str, str]:
    """
    Replace the names of hosts by their hashes: ``{"status": "updated", "comment": ...}``. No copy with names is left.

    CLI Example::

        saltlite '*' ssh.hash_known_hosts deploy
    """
    return _changed(user, config, ["-H"], "updated")


def set_known_host(  # noqa: PLR0913 - Salt's signature
    user: str | None = None,
    hostname: str | None = None,
    fingerprint: str | None = None,
    key: str | None = None,
    port: int | None = None,
    enc: str | None = None,
    config: str | None = None,
    *,
    hash_known_hosts: bool = True,
    timeout: int = 5,
    fingerprint_hash_type: str | None = None,
) -> dict[str, Any]:
    """
    Have a user, or without one the system, know a host by its key, or by those that it shows now.

    With a ``fingerprint`` one of these must have it; without both whoever answers is believed. The answer has the
    status ``exists`` with the ``keys``, ``updated`` with the ``old`` and ``new`` entries, or ``error`` with its reason.

    CLI Example::

        saltlite '*' ssh.set_known_host deploy git.example.org fingerprint='SHA256:uNiVztksCsDhcc0u9e8BrMiJL+K'
        saltlite '*' ssh.set_known_host hostname=git.example.org enc=ed25519 key=AAAAC3NzaC1lZDI1NTE5AAAA
    """
    if not hostname:
        return _error("hostname argument required")
    if port is not None and _whole(port, "port") != _PORT and hash_known_hosts:
        return _error("argument port can not be used in conjunction with argument hash_known_hosts")
    stored = get_known_host_entries(user, hostname, config, port, fingerprint_hash_type)
    if isinstance(stored, dict):
        return stored
    keys = [entry["key"] for entry in stored or () if enc is None or entry["enc"] == enc]
    differs = not stored or (fingerprint and not _has(stored, fingerprint)) or (key and key not in keys)
    if not differs and (key or fingerprint):
        return {"status": "exists", "keys": keys}
    new: list[dict[str, str]] | None
    if key:
        new = [_given(hostname, port, enc, key)]
    else:
        new = recv_known_host_entries(
            hostname, enc, port, hash_known_hosts=hash_known_hosts, timeout=timeout,
            fingerprint_hash_type=fingerprint_hash_type,
        )  # fmt: skip
        if not new:
            return _error("Unable to receive remote host keys")
        if fingerprint and not _has(new, fingerprint):
            return _error(
                "Remote host public keys found but none of their fingerprints match the one you have provided"
            )
        if not differs and {entry["key"] for entry in new} == set(keys):
            return {"status": "exists", "keys": keys}
    _put(user, config, _ssh_name(hostname, port), enc, new)
    if key and hash_known_hosts:
        _changed(user, config, ["-H"], "updated")
    return {"status": "updated", "old": stored, "new": new}


def _put(user: str | None, config: str | None, name: str, enc: str | None, new: list[dict[str, str]]) -> None:
    """Write the entries in the place of those that the host has of the same types, or of any without `enc`."""
    place = _place(user, config)
    if isinstance(place, dict):
        raise CommandExecutionError(place["error"])
    path, owner = place
    data = _safe_files.read_user_file(path, owner) or b""
    lines = data.decode(errors="surrogateescape").split("\n")
    for number in sorted(_numbers(_keygen(["-F", name], data)[0], enc) if data else (), reverse=True):
        del lines[number - 1]
    if lines[-1] == "":
        del lines[-1]
    lines += [f"{entry['hostname']} {entry['enc']} {entry['key']}" for entry in new]
    mode = 0o600 if owner else 0o644
    _safe_files.write_user_file(
        path, owner, "".join(f"{line}\n" for line in lines).encode(errors="surrogateescape"), mode=mode
    )


def _changed(user: str | None, config: str | None, words: list[str], status: str) -> dict[str, str]:
    """Have ssh-keygen change the file."""
    place = _place(user, config)
    if isinstance(place, dict):
        return place
    path, owner = place
    data = _safe_files.read_user_file(path, owner)
    if data is None:
        return _error(f"Known hosts file {path} does not exist")
    said, after = _keygen(words, data, shown=path)
    if after != data:
        _safe_files.write_user_file(path, owner, after, mode=0o600)
    return {"status": status, "comment": said}


def _keygen(words: list[str], data: bytes, shown: str = "") -> tuple[str, bytes]:
    """What ssh-keygen says of a file of known hosts, and what the file has then."""
    with tempfile.TemporaryDirectory(prefix="saltlite-ssh-") as folder:
        copy = os.path.join(folder, "known_hosts")
        with open(copy, "wb") as stream:
            stream.write(data)
        done = __salt__["cmd.run_all"](
            ["ssh-keygen", *words, "-f", copy], python_shell=False, ignore_retcode=True, redirect_stderr=bool(shown)
        )
        said = "\n".join(line for line in done["stdout"].splitlines() if ".old" not in line)
        # 1 says that nothing was found.
        if done["retcode"] > 1 or done["retcode"] < 0:
            raise CommandExecutionError(f"ssh-keygen failed: {done['stderr'] or done['stdout']}")
        with open(copy, "rb") as stream:
            return said.replace(copy, shown), stream.read()


def _entries(text: str, hash_type: str | None) -> Iterator[dict[str, str]]:
    for line in text.splitlines():
        words = line.split()
        # A marker says that a key signs others, or that it must not be believed: it is no key of a host.
        if line.startswith(("#", "@")) or len(words) < 3:
            continue
        name, enc, key = words[:3]
        printed = keylines.fingerprint(key, hash_type)
        if printed:
            yield {"hostname": name, "key": key, "enc": enc, "fingerprint": printed}


def _numbers(text: str, enc: str | None) -> Iterator[int]:
    """The numbers of lines in what `ssh-keygen -F` says: `# Host NAME found: line N`, and below it that line."""
    lines = text.splitlines()
    for above, line in itertools.pairwise(lines):
        number = above.split()[-1]
        if not above.startswith("#") or not number.isdecimal() or line.startswith("@"):
            continue
        if enc is None or enc in line.split()[1:2]:
            yield int(number)


def _given(hostname: str, port: int | None, enc: str | None, key: str) -> dict[str, str]:
    text = one_line(key, "A key")
    kind = enc or type_in(text)
    if kind is None or keylines.fingerprint(text, None) is None or len(text.split()) != 1:
        raise SaltInvocationError("That is no public key: the long word of a line of keys is needed.")
    return {"hostname": _ssh_name(hostname, port), "enc": _word(kind, "a type of keys"), "key": text}


def _has(entries: list[dict[str, str]], printed: str) -> bool:
    return any(same_fingerprint(printed, entry["fingerprint"]) for entry in entries)


def _place(user: str | None, config: str | None) -> tuple[str, pwd.struct_passwd | None] | dict[str, str]:
    """The file and whose it is, or Salt's form of an error."""
    path = str(config) if config else (".ssh/known_hosts" if user else _SYSTEM)
    if not user:
        return (path, None) if os.path.isabs(path) else _error("Cannot determine absolute path to file.")
    try:
        owner = _safe_files.account(user)
    except CommandExecutionError:
        return _error(f"User {user} does not exist")
    return os.path.join(owner.pw_dir, path), owner


def _error(reason: str) -> dict[str, str]:
    return {"status": "error", "error": reason}


def _ssh_name(hostname: str, port: int | None) -> str:
    name = _word(hostname, "the name of a host")
    number = _whole(port, "port") if port else _PORT
    return name if number == _PORT else f"[{name}]:{number}"


def _word(value: Any, what: str) -> str:
    text = str(value)
    if not text or text.startswith(("-", "#")) or any(character.isspace() or character == "\0" for character in text):
        raise SaltInvocationError(f"{text!r:.80} is not {what}.")
    return text


def _whole(value: Any, what: str) -> int:
    try:
        return int(value)
    except (TypeError, ValueError):
        raise SaltInvocationError(f"{what} is a whole number, not {value!r:.40}.") from None
