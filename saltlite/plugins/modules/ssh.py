"""SSH keys: authorised keys and known hosts of users, and the keys of this machine.

Files of users are replaced atomically and belong to the user. A minion that runs as root follows no symbolic link below
the home of another user. Private keys are returned only on request: with ``private=True``, or by file name.

:maintainer:    The saltlite authors
:maturity:      new
:depends:       ssh-keygen and ssh-keyscan, for known hosts
:platform:      Linux
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import itertools
import os
import pwd
import re
import tempfile
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from saltlite.errors import CommandExecutionError, SaltInvocationError
from saltlite.plugins.modules import _safe_files
from saltlite.plugins.modules._commands import run_needed

if TYPE_CHECKING:
    from saltlite.loader.hints import __context__, __salt__


# --- Lines of keys, in the form of sshd(8): options, type, key, comment ---

_TYPE = re.compile(r"(?:(?:sk-)?ssh-|(?:sk-)?ecdsa-|rsa-sha2-)[a-z0-9@.-]+")

_SHORT = {
    "ssh-rsa": {"r", "rsa"},
    "ssh-dss": {"d", "dsa", "dss"},
    "ecdsa-sha2-nistp256": {"e", "ecdsa"},
    "ssh-ed25519": {"ed25519"},
}


class KeyLine(NamedTuple):
    """A key in authorized_keys."""

    options: list[str]
    enc: str
    key: str
    comment: str

    def text(self) -> str:
        """Return the line with its line break."""
        options = ",".join(self.options) + " " if self.options else ""
        return f"{options}{self.enc} {self.key} {self.comment}".rstrip() + "\n"


def _parse(line: str) -> KeyLine | None:
    """Parse the key of a line; None for comments and other lines."""
    rest = line.strip()
    if not rest or rest.startswith("#"):
        return None
    first, more = _cut(rest)
    options: list[str] = []
    if not _TYPE.fullmatch(first):
        options = _options(first)
        first, more = _cut(more)
    words = more.split()
    if not _TYPE.fullmatch(first) or not words:
        return None
    return KeyLine(options, first, words[0], " ".join(words[1:]))


def _cut(text: str) -> tuple[str, str]:
    """Split off the first word, in which quoted white space does not count."""
    text = text.lstrip()
    quoted = False
    for place, character in enumerate(text):
        if character == '"' and text[place - 1 : place] != "\\":
            quoted = not quoted
        elif character in " \t" and not quoted:
            return text[:place], text[place:].lstrip()
    return text, ""


def _options(text: str) -> list[str]:
    found, quoted, start = [], False, 0
    for place, character in enumerate(text):
        if character == '"' and text[place - 1 : place] != "\\":
            quoted = not quoted
        elif character == "," and not quoted:
            found.append(text[start:place])
            start = place + 1
    return [*found, text[start:]]


def _refined(enc: Any) -> str:
    """Return the full name of a key type. Raises CommandExecutionError."""
    text = str(enc)
    for name, short in _SHORT.items():
        if text in short:
            return name
    if _TYPE.fullmatch(text):
        return text
    raise CommandExecutionError(f"Incorrect encryption key type '{text}'.")


def _fingerprint(key: str, hash_type: str | None) -> str | None:
    """Return the digest of a key as hexadecimal digits with colons; None if it is no key."""
    kind = (hash_type or "sha256").lower()
    if kind not in hashlib.algorithms_guaranteed or kind.startswith("shake"):
        raise CommandExecutionError(f"The fingerprint_hash_type {hash_type} is not supported.")
    try:
        raw = base64.b64decode(key, validate=True)
    except (binascii.Error, ValueError):
        return None
    if not raw:
        return None
    return hashlib.new(kind, raw, usedforsecurity=False).digest().hex(":")


def _same_fingerprint(one: str, other: str) -> bool:
    """Compare fingerprints; the first may have OpenSSH's form `SHA256:…`."""
    if one.startswith("SHA256:"):
        try:
            return base64.b64decode(one[7:] + "=" * (-len(one[7:]) % 4)).hex(":") == other
        except (binascii.Error, ValueError):
            return False
    return one.removeprefix("MD5:").lower() == other


def _type_in(key: str) -> str | None:
    """Return the type encoded in a key; None if it is no key."""
    try:
        raw = base64.b64decode(key, validate=True)
    except (binascii.Error, ValueError):
        return None
    name = raw[4 : 4 + int.from_bytes(raw[:4], "big")].decode("ascii", "replace")
    return name if _TYPE.fullmatch(name) else None


def _one_line(value: Any, what: str) -> str:
    """Return a text without line breaks. Raises SaltInvocationError."""
    text = "" if value is None else str(value)
    if any(character in text for character in "\0\n\r"):
        raise SaltInvocationError(f"{what} is one line.")
    return text


# --- authorized_keys ---

__risk__ = {"rm_auth_key": "remove", "rm_auth_key_from_file": "remove"}

_CONFIG = ".ssh/authorized_keys"
_FILE_MODE = 0o600


def auth_keys(
    user: str | list[str] | None = None, config: str = _CONFIG, fingerprint_hash_type: str | None = None
) -> dict[str, Any]:
    """Return the authorised keys of a user, ``{key: {"enc", "comment", "options", "fingerprint"}}``.

    For several users, or for all without a name, by user; users without the file are skipped.

    CLI Example::

        saltlite '*' ssh.auth_keys root
        saltlite '*' ssh.auth_keys user='[deploy, web]'
        saltlite '*' ssh.auth_keys
    """
    if isinstance(user, str) and user:
        return _keys(user, config, fingerprint_hash_type) or {}
    names = user if isinstance(user, list) and user else sorted({entry.pw_name for entry in pwd.getpwall()})
    found = {str(name): _keys(str(name), config, fingerprint_hash_type, strict=bool(user)) for name in names}
    return {name: keys for name, keys in found.items() if keys is not None}


def check_key(  # noqa: PLR0913 - Salt's signature
    user: str,
    key: str,
    enc: str,
    comment: str,
    options: list[str] | None,
    config: str = _CONFIG,
    cache_keys: Any = None,  # noqa: ARG001 - Salt's argument
    *,
    fingerprint_hash_type: str | None = None,
) -> str:
    """Return what ``set_auth_key`` would do: ``add``, ``update``, or nothing because the key ``exists``.

    CLI Example: ``saltlite '*' ssh.check_key deploy AAAAC3NzaC1lZDI1NTE5AAAA ssh-ed25519 me@example.org '[]'``
    """
    current = auth_keys(user, config, fingerprint_hash_type)
    if key not in current:
        return "add"
    there = KeyLine(current[key]["options"], current[key]["enc"], key, current[key]["comment"])
    return "exists" if there == _line(key, enc, comment, options) else "update"


def check_key_file(
    user: str, source: str, config: str = _CONFIG, saltenv: str = "base", fingerprint_hash_type: str | None = None
) -> dict[str, str]:
    """Return what ``set_auth_key_from_file`` would do with each key of a file of the master or of this minion.

    CLI Example: ``saltlite '*' ssh.check_key_file deploy salt://ssh/deploy.pub``
    """
    return {
        line.key: check_key(
            user, line.key, line.enc, line.comment, line.options, config, fingerprint_hash_type=fingerprint_hash_type
        )
        for line in _source(source, saltenv) or ()
    }


def set_auth_key(  # noqa: PLR0913 - Salt's signature
    user: str,
    key: str,
    enc: str = "ssh-rsa",
    comment: str = "",
    options: list[str] | None = None,
    config: str = _CONFIG,
    cache_keys: Any = None,  # noqa: ARG001 - Salt's argument
    *,
    fingerprint_hash_type: str | None = None,
) -> str:
    """Authorise a key for a user: ``new``, ``replace`` if its options or comment changed, ``no change``.

    ``invalid`` and ``Invalid public key`` mean that it is no key, ``fail`` that there is no such user or home.

    CLI Example::

        saltlite '*' ssh.set_auth_key deploy AAAAC3NzaC1lZDI1NTE5AAAA enc=ed25519 comment=me@example.org
        saltlite '*' ssh.set_auth_key deploy AAAAC3NzaC1lZDI1NTE5AAAA enc=ed25519 options='[no-pty]'
    """
    if len(str(key).split()) != 1:
        return "invalid"
    wanted = _line(key, enc, comment, options)
    try:
        owner = _safe_files.account(user)
    except CommandExecutionError:
        return "fail"
    if _fingerprint(wanted.key, fingerprint_hash_type) is None:
        return "Invalid public key"
    path = _path(owner, config)
    if path.startswith(owner.pw_dir) and not os.path.isdir(owner.pw_dir):
        return "fail"
    lines = _lines(path, owner)
    there = [number for number, line in enumerate(lines) if (_parse(line) or _NO_KEY).key == wanted.key]
    if there and all(_parse(lines[number]) == wanted for number in there):
        return "no change"
    for number in there:
        lines[number] = wanted.text()
    _write(path, owner, lines if there else [*lines, wanted.text()])
    return "replace" if there else "new"


def set_auth_key_from_file(
    user: str, source: str, config: str = _CONFIG, saltenv: str = "base", fingerprint_hash_type: str | None = None, *,
    options: list[str] | None = None,
) -> str:  # fmt: skip
    """Authorise all keys of a file for a user, with these options or the file's; return the most important answer.

    CLI Example: ``saltlite '*' ssh.set_auth_key_from_file deploy salt://ssh/deploy.pub``
    """
    lines = _source(source, saltenv)
    if not lines:
        return "fail"
    results = [
        set_auth_key(
            user, line.key, line.enc, line.comment, options or line.options, config,
            fingerprint_hash_type=fingerprint_hash_type,
        )
        for line in lines
    ]  # fmt: skip
    return next(
        each for each in ("fail", "Invalid public key", "replace", "new", "no change", *results) if each in results
    )


def rm_auth_key(user: str, key: str, config: str = _CONFIG, fingerprint_hash_type: str | None = None) -> str:  # noqa: ARG001 - Salt's argument
    """Remove an authorised key of a user: ``Key removed``, or ``Key not present``.

    CLI Example: ``saltlite '*' ssh.rm_auth_key deploy AAAAC3NzaC1lZDI1NTE5AAAA``
    """
    owner = _safe_files.account(user)
    path = _path(owner, config)
    lines = _lines(path, owner)
    kept = [line for line in lines if (_parse(line) or _NO_KEY).key != key]
    if len(kept) == len(lines):
        return "Key not present"
    _write(path, owner, kept)
    return "Key removed"


def rm_auth_key_from_file(
    user: str, source: str, config: str = _CONFIG, saltenv: str = "base", fingerprint_hash_type: str | None = None
) -> str:
    """Remove all keys in a file of the master or of this minion from a user's authorised keys.

    CLI Example: ``saltlite '*' ssh.rm_auth_key_from_file deploy salt://ssh/deploy.pub``
    """
    lines = _source(source, saltenv)
    if not lines:
        return "fail"
    results = {rm_auth_key(user, line.key, config, fingerprint_hash_type) for line in lines}
    return "Key removed" if "Key removed" in results else "Key not present"


_NO_KEY = KeyLine([], "", "", "")


def _keys(user: str, config: str, hash_type: str | None, *, strict: bool = True) -> dict[str, Any] | None:
    """Return the keys of a user, None without a file; unreadable files are an error only if `strict`."""
    try:
        owner = _safe_files.account(user)
        data = _safe_files.read_user_file(_path(owner, config), owner)
    except CommandExecutionError:
        if strict:
            raise
        return None
    if data is None:
        return None
    found = {}
    for text in data.decode(errors="replace").splitlines():
        line = _parse(text)
        printed = _fingerprint(line.key, hash_type) if line else None
        if line and printed:
            found[line.key] = {
                "enc": line.enc,
                "comment": line.comment,
                "options": line.options,
                "fingerprint": printed,
            }
    return found


def _line(key: str, enc: str, comment: str, options: Any) -> KeyLine:
    given = options.split(",") if isinstance(options, str) else options or []
    listed = [_one_line(option, "An option of a key") for option in given]
    return KeyLine(
        listed, _refined(enc), str(key).strip(), " ".join(_one_line(comment, "The comment of a key").split())
    )


def _path(owner: pwd.struct_passwd, config: str) -> str:
    """Return the path of the file; `%u` is the user and `%h` the home, as in sshd_config(5)."""
    pieces, rest = [], str(config)
    while "%" in rest:
        before, _, rest = rest.partition("%")
        known = {"%": "%", "u": owner.pw_name, "h": owner.pw_dir, "U": str(owner.pw_uid)}
        if rest[:1] not in known:
            what = f"unknown token character '%{rest[0]}'" if rest else "Last character can't be escape character"
            raise CommandExecutionError(f"AuthorizedKeysFile path: {what}")
        pieces += [before, known[rest[0]]]
        rest = rest[1:]
    return os.path.join(owner.pw_dir, "".join(pieces) + rest)


def _lines(path: str, owner: pwd.struct_passwd) -> list[str]:
    text = (_safe_files.read_user_file(path, owner) or b"").decode(errors="surrogateescape")
    return [line if line.endswith("\n") else line + "\n" for line in text.split("\n") if line.strip()]


def _write(path: str, owner: pwd.struct_passwd, lines: list[str]) -> None:
    _safe_files.write_user_file(path, owner, "".join(lines).encode(errors="surrogateescape"), mode=_FILE_MODE)


def _source(source: str, saltenv: str) -> list[KeyLine] | None:
    """Return the keys of a source file; errors go to `__context__`, as in Salt."""
    place = __salt__["cp.cache_file"](source, saltenv)
    if not place or not os.path.isfile(place):
        raise CommandExecutionError("Failed to pull key file from salt file server")
    text = _safe_files.read_user_file(place, None) or b""
    found = [line for line in map(_parse, text.decode(errors="replace").splitlines()) if line]
    if not found:
        __context__["ssh_auth.error"] = f"No keys detected in {source}. Is file properly formatted?"
    return found


# --- known_hosts: ssh-keygen works on a copy, because the user could redirect where it writes ---

_PORT = 22
_SYSTEM = "/etc/ssh/ssh_known_hosts"
_ATTEMPTS = 5
"""Attempts to ask a silent host."""


def get_known_host_entries(
    user: str | None,
    hostname: str,
    config: str | None = None,
    port: int | None = None,
    fingerprint_hash_type: str | None = None,
) -> Any:
    """Return what a user, or the system, knows about a host: a list of ``hostname``, ``key``, ``enc``, ``fingerprint``;
    ``None`` for nothing.

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
    hostname: str, enc: str | None = None, port: int | None = None, hash_known_hosts: bool = True, timeout: int = 5,
    fingerprint_hash_type: str | None = None,
) -> list[dict[str, str]] | None:  # fmt: skip
    """Ask a host for its keys, as ``get_known_host_entries``; ``None`` when it sends none within the timeout.

    CLI Example: ``saltlite '*' ssh.recv_known_host_entries git.example.org enc=ed25519 port=2222``
    """
    words = ["ssh-keyscan", "-T", str(_whole(timeout, "timeout"))]
    words += ["-p", str(_whole(port, "port"))] if port else []
    words += ["-t", _word(enc, "a type of keys")] if enc else []
    words += ["-H"] if hash_known_hosts else []
    for _ in range(_ATTEMPTS):
        done = run_needed(
            __salt__["cmd.run_all"], [*words, "--", _word(hostname, "the name of a host")], ignore_retcode=True
        )
        entries = list(_entries(done["stdout"], fingerprint_hash_type))
        if entries:
            return entries
    return None


def check_known_host(
    user: str | None = None, hostname: str | None = None, key: str | None = None, fingerprint: str | None = None,
    config: str | None = None, port: int | None = None, fingerprint_hash_type: str | None = None,
) -> Any:  # fmt: skip
    """Return what ``set_known_host`` would do: ``add``, ``update``, or nothing because the host ``exists``.

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
    """Remove a host from the known hosts of a user, or the system: ``{"status": "removed", "comment": ...}``.

    CLI Example: ``saltlite '*' ssh.rm_known_host deploy git.example.org``
    """
    if not hostname:
        return _error("hostname argument required")
    return _changed(user, config, ["-R", _ssh_name(hostname, port)], "removed")


def hash_known_hosts(user: str | None = None, config: str | None = None) -> dict[str, str]:
    """Hash the names of known hosts, without a backup: ``{"status": "updated", "comment": ...}``.

    CLI Example: ``saltlite '*' ssh.hash_known_hosts deploy``
    """
    return _changed(user, config, ["-H"], "updated")


def set_known_host(  # noqa: PLR0913 - Salt's signature
    user: str | None = None, hostname: str | None = None, fingerprint: str | None = None, key: str | None = None,
    port: int | None = None, enc: str | None = None, config: str | None = None, *, hash_known_hosts: bool = True,
    timeout: int = 5, fingerprint_hash_type: str | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Add a host to the known hosts of a user, or the system, by its key or those that it sends now.

    With a ``fingerprint`` one of these keys must have it; without both, the answering host is trusted. The status is
    ``exists`` with the ``keys``, ``updated`` with the ``old`` and ``new`` entries, or ``error`` with the reason.

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
    """Replace the host's entries of the same types, or all of them without `enc`."""
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
    """Change the file with ssh-keygen."""
    place = _place(user, config)
    if isinstance(place, dict):
        return place
    path, owner = place
    data = _safe_files.read_user_file(path, owner)
    if data is None:
        return _error(f"Known hosts file {path} does not exist")
    reply, after = _keygen(words, data, shown=path)
    if after != data:
        _safe_files.write_user_file(path, owner, after, mode=0o600)
    return {"status": status, "comment": reply}


def _keygen(words: list[str], data: bytes, shown: str = "") -> tuple[str, bytes]:
    """Run ssh-keygen on a known_hosts file; return its output and the new content."""
    with tempfile.TemporaryDirectory(prefix="saltlite-ssh-") as folder:
        copy = os.path.join(folder, "known_hosts")
        with open(copy, "wb") as stream:
            stream.write(data)
        done = run_needed(
            __salt__["cmd.run_all"],
            ["ssh-keygen", *words, "-f", copy],
            ignore_retcode=True,
            redirect_stderr=bool(shown),
        )
        reply = "\n".join(line for line in done["stdout"].splitlines() if ".old" not in line)
        # Status 1: nothing was found.
        if done["retcode"] > 1 or done["retcode"] < 0:
            raise CommandExecutionError(f"ssh-keygen failed: {done['stderr'] or done['stdout']}")
        with open(copy, "rb") as stream:
            return reply.replace(copy, shown), stream.read()


def _entries(text: str, hash_type: str | None) -> Iterator[dict[str, str]]:
    for line in text.splitlines():
        words = line.split()
        # Marked lines are keys of authorities or revoked keys, not keys of hosts.
        if line.startswith(("#", "@")) or len(words) < 3:
            continue
        name, enc, key = words[:3]
        printed = _fingerprint(key, hash_type)
        if printed:
            yield {"hostname": name, "key": key, "enc": enc, "fingerprint": printed}


def _numbers(text: str, enc: str | None) -> Iterator[int]:
    """Parse the line numbers in the output of `ssh-keygen -F`: `# Host NAME found: line N`, then that line."""
    lines = text.splitlines()
    for above, line in itertools.pairwise(lines):
        number = above.split()[-1]
        if not above.startswith("#") or not number.isdecimal() or line.startswith("@"):
            continue
        if enc is None or enc in line.split()[1:2]:
            yield int(number)


def _given(hostname: str, port: int | None, enc: str | None, key: str) -> dict[str, str]:
    text = _one_line(key, "A key")
    kind = enc or _type_in(text)
    if kind is None or _fingerprint(text, None) is None or len(text.split()) != 1:
        raise SaltInvocationError("This is not a public key: give the base64 part of a key line.")
    return {"hostname": _ssh_name(hostname, port), "enc": _word(kind, "a type of keys"), "key": text}


def _has(entries: list[dict[str, str]], printed: str) -> bool:
    return any(_same_fingerprint(printed, entry["fingerprint"]) for entry in entries)


def _place(user: str | None, config: str | None) -> tuple[str, pwd.struct_passwd | None] | dict[str, str]:
    """Return the file and its owner, or an error in Salt's form."""
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


# --- Keys of this machine and of its users ---

_HOST_KEY = re.compile(r"ssh_host_(?P<type>.+)_key(?P<pub>(?P<cert>-cert)?\.pub)?")
_KINDS = ("id_rsa", "id_dsa", "id_ecdsa", "id_ed25519")
_OPENSSH = b"openssh-key-v1\0"


def host_keys(keydir: str | None = None, private: bool = False, certs: bool = True) -> dict[str, str]:
    """Return the host keys of this machine: ``{"ed25519.pub": text, ...}``.

    Private keys are included only with ``private=True`` (Salt includes them by default). An unreadable key is an empty
    text.

    CLI Example::

        saltlite '*' ssh.host_keys
        saltlite '*' ssh.host_keys keydir=/etc/ssh certs=False
    """
    folder = keydir or "/etc/ssh"
    try:
        names = sorted(os.listdir(folder))
    except OSError as error:
        raise CommandExecutionError(f"The folder {folder} cannot be read: {error.strerror}.") from error
    found = {}
    for name in names:
        match = _HOST_KEY.fullmatch(name)
        if match is None or (match["pub"] is None and not private) or (match["cert"] and not certs):
            continue
        try:
            data = _safe_files.read_user_file(os.path.join(os.path.abspath(folder), name), None)
        except CommandExecutionError:
            data = None
        found[match["type"] + (match["pub"] or "")] = (data or b"").decode(errors="replace").strip()
    return found


def user_keys(
    user: str | list[str] | None = None, pubfile: str | bool | None = None, prvfile: str | bool | None = None
) -> dict[str, dict[str, str]]:
    """Return the keys of users by their file names below ``.ssh``; without names, of all users.

    ``pubfile`` names another file, and ``False`` omits public keys. Private keys are included only if ``prvfile`` is a
    file name or ``True`` (Salt includes them by default).

    CLI Example::

        saltlite '*' ssh.user_keys
        saltlite '*' ssh.user_keys user=deploy prvfile=id_ed25519
        saltlite '*' ssh.user_keys user='[deploy, web]' pubfile=id_rsa.pub
    """
    names = [user] if isinstance(user, str) else user or sorted({entry.pw_name for entry in pwd.getpwall()})
    public = [f"{kind}.pub" for kind in _KINDS] if pubfile is None or pubfile is True else [pubfile] if pubfile else []
    private = list(_KINDS) if prvfile is True else [prvfile] if prvfile else []
    found: dict[str, dict[str, str]] = {}
    for name in names:
        try:
            owner = _safe_files.account(str(name))
        except CommandExecutionError:
            continue
        for file in (*public, *private):
            path = os.path.join(owner.pw_dir, ".ssh", str(file))
            try:
                data = _safe_files.read_user_file(path, owner) if os.path.isabs(owner.pw_dir) else None
            except CommandExecutionError:
                continue
            if data is not None:
                found.setdefault(str(name), {})[os.path.basename(path)] = data.decode(errors="replace").strip()
    return found


def key_is_encrypted(key: str) -> bool:
    """Return whether the private key in a file has a passphrase; False if it is no private key.

    CLI Example: ``saltlite '*' ssh.key_is_encrypted /etc/deploy/id_ed25519``
    """
    try:
        data = _safe_files.read_user_file(os.path.abspath(str(key)), None) or b""
    except CommandExecutionError:
        return False
    if b"BEGIN ENCRYPTED PRIVATE KEY" in data or re.search(rb"^Proc-Type: 4,ENCRYPTED", data, re.MULTILINE):
        return True
    match = re.search(rb"-----BEGIN OPENSSH PRIVATE KEY-----(.+?)-----END", data, re.DOTALL)
    try:
        raw = base64.b64decode(match[1]) if match else b""
    except binascii.Error:
        return False
    rest = raw.removeprefix(_OPENSSH)
    cipher = rest[4 : 4 + int.from_bytes(rest[:4], "big")]
    return raw.startswith(_OPENSSH) and cipher != b"none"
