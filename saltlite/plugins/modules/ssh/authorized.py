"""Keys that may log in as a user: the file ``authorized_keys``."""

from __future__ import annotations

import os
import pwd
from typing import TYPE_CHECKING, Any

from saltlite.errors import CommandExecutionError
from saltlite.plugins.modules import _safe_files

from .keylines import KeyLine, fingerprint, one_line, parse, refined

if TYPE_CHECKING:
    from saltlite.loader.hints import __context__, __salt__

__risk__ = {"rm_auth_key": "remove", "rm_auth_key_from_file": "remove"}

_CONFIG = ".ssh/authorized_keys"
_FILE_MODE = 0o600


def auth_keys(
    user: str | list[str] | None = None, config: str = _CONFIG, fingerprint_hash_type: str | None = None
) -> dict[str, Any]:
    """
    The keys that may log in as a user, ``{key: {"enc", "comment", "options", "fingerprint"}}``.

    With several users, or none for all, the same by user: those without such a file are left out.

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
    """
    What ``set_auth_key`` would do: ``add``, ``update``, or nothing, as the key ``exists``.

    CLI Example::

        saltlite '*' ssh.check_key deploy AAAAC3NzaC1lZDI1NTE5AAAA ssh-ed25519 me@example.org '[]'
    """
    current = auth_keys(user, config, fingerprint_hash_type)
    if key not in current:
        return "add"
    there = KeyLine(current[key]["options"], current[key]["enc"], key, current[key]["comment"])
    return "exists" if there == _line(key, enc, comment, options) else "update"


def check_key_file(
    user: str,
    source: str,
    config: str = _CONFIG,
    saltenv: str = "base",
    fingerprint_hash_type: str | None = None,
) -> dict[str, str]:
    """
    What ``set_auth_key_from_file`` would do with each key of a file of the master, or of this minion.

    CLI Example::

        saltlite '*' ssh.check_key_file deploy salt://ssh/deploy.pub
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
    """
    Let a key log in as a user: ``new``, ``replace`` where its options or comment were others, ``no change``.

    ``invalid`` and ``Invalid public key`` say that it is no key, ``fail`` that there is no such user or home.

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
    if fingerprint(wanted.key, fingerprint_hash_type) is None:
        return "Invalid public key"
    path = _path(owner, config)
    if path.startswith(owner.pw_dir) and not os.path.isdir(owner.pw_dir):
        return "fail"
    lines = _lines(path, owner)
    there = [number for number, line in enumerate(lines) if (parse(line) or _NO_KEY).key == wanted.key]
    if there and all(parse(lines[number]) == wanted for number in there):
        return "no change"
    for number in there:
        lines[number] = wanted.text()
    _write(path, owner, lines if there else [*lines, wanted.text()])
    return "replace" if there else "new"


def set_auth_key_from_file(
    user: str,
    source: str,
    config: str = _CONFIG,
    saltenv: str = "base",
    fingerprint_hash_type: str | None = None,
    *,
    options: list[str] | None = None,
) -> str:
    """
    Let all keys of a file log in as a user, with these options or those of the file; the answer that weighs most.

    CLI Example::

        saltlite '*' ssh.set_auth_key_from_file deploy salt://ssh/deploy.pub
    """
    lines = _source(source, saltenv)
    if not lines:
        return "fail"
    said = [
        set_auth_key(
            user, line.key, line.enc, line.comment, options or line.options, config,
            fingerprint_hash_type=fingerprint_hash_type,
        )
        for line in lines
    ]  # fmt: skip
    return next(each for each in ("fail", "Invalid public key", "replace", "new", "no change", *said) if each in said)


def rm_auth_key(user: str, key: str, config: str = _CONFIG, fingerprint_hash_type: str | None = None) -> str:  # noqa: ARG001 - Salt's argument
    """
    Have a key log in as a user no more: ``Key removed``, or ``Key not present``.

    CLI Example::

        saltlite '*' ssh.rm_auth_key deploy AAAAC3NzaC1lZDI1NTE5AAAA
    """
    owner = _safe_files.account(user)
    path = _path(owner, config)
    lines = _lines(path, owner)
    kept = [line for line in lines if (parse(line) or _NO_KEY).key != key]
    if len(kept) == len(lines):
        return "Key not present"
    _write(path, owner, kept)
    return "Key removed"


def rm_auth_key_from_file(
    user: str,
    source: str,
    config: str = _CONFIG,
    saltenv: str = "base",
    fingerprint_hash_type: str | None = None,
) -> str:
    """
    Have all keys of a file of the master, or of this minion, log in as a user no more.

    CLI Example::

        saltlite '*' ssh.rm_auth_key_from_file deploy salt://ssh/deploy.pub
    """
    lines = _source(source, saltenv)
    if not lines:
        return "fail"
    said = {rm_auth_key(user, line.key, config, fingerprint_hash_type) for line in lines}
    return "Key removed" if "Key removed" in said else "Key not present"


_NO_KEY = KeyLine([], "", "", "")


def _keys(user: str, config: str, hash_type: str | None, *, strict: bool = True) -> dict[str, Any] | None:
    """The keys of a user, None without a file; what cannot be read is an error only if `strict`."""
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
        line = parse(text)
        printed = fingerprint(line.key, hash_type) if line else None
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
    listed = [one_line(option, "An option of a key") for option in given]
    return KeyLine(listed, refined(enc), str(key).strip(), " ".join(one_line(comment, "The comment of a key").split()))


def _path(owner: pwd.struct_passwd, config: str) -> str:
    """The file of a user: `%u` is his name, `%h` his home, as in AuthorizedKeysFile of sshd_config(5)."""
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
    """The keys of a file that somebody wrote for this; what is wrong with it is in `__context__`, as Salt has it."""
    place = __salt__["cp.cache_file"](source, saltenv)
    if not place or not os.path.isfile(place):
        raise CommandExecutionError("Failed to pull key file from salt file server")
    text = _safe_files.read_user_file(place, None) or b""
    found = [line for line in map(parse, text.decode(errors="replace").splitlines()) if line]
    if not found:
        __context__["ssh_auth.error"] = f"No keys detected in {source}. Is file properly formatted?"
    return found
