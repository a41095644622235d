"""The keys that sign repositories, as files. The program apt-key, which apt has given up, is not needed."""

from __future__ import annotations

import binascii
import contextlib
import os
import tempfile
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from saltlite.errors import CommandExecutionError, SaltInvocationError
from saltlite.plugins.modules import _apt, _packages

from . import _whole

if TYPE_CHECKING:
    from saltlite.loader.hints import __salt__

KEYRINGS = "/etc/apt/keyrings"
"""Where keys of single sources are kept, which name them with signed-by."""

_ARMOR = b"-----BEGIN PGP PUBLIC KEY BLOCK-----"
_ENDINGS = (".gpg", ".asc")
_SHORT_ID, _LONG_ID = 8, 16


class _Place(TypedDict, total=False):
    aptkey: bool
    keydir: str | None
    keyfile: str


def get_repo_keys(aptkey: bool = True, keydir: str | None = None) -> dict[str, dict[str, Any]]:
    """
    The keys that sign repositories, by id: ``{id: {fingerprint, uid, algorithm, bits, date_creation, …}}``.

    With ``aptkey`` those that every source may be signed with, otherwise those of ``keydir``
    (``/etc/apt/keyrings``). ``subkey`` has the same of the last subkey, ``file`` is where the key is.

    CLI Example::

        saltlite '*' pkg.get_repo_keys
        saltlite '*' pkg.get_repo_keys aptkey=False
    """
    folder = _folder(aptkey=aptkey, keydir=keydir)
    found: dict[str, dict[str, Any]] = {}
    # gpg makes files of its own below its home, and none of them are wanted here.
    with tempfile.TemporaryDirectory() as home:
        gpg = ["gpg", "--batch", "--no-options", "--homedir", home, "--show-keys", "--with-colons", "--"]
        for path in [*_key_files(folder), *([] if keydir or not aptkey else _one_file())]:
            done = _packages.run([*gpg, path])
            # A file that holds no key is one that apt warns of and does without.
            if "no valid OpenPGP data found" not in done.stderr:
                _apt.checked(done)
            found.update({row["keyid"]: {**row, "file": path} for row in _parsed(done.stdout)})
    return found


def add_repo_key(
    path: str | None = None,
    text: str | None = None,
    keyserver: str | None = None,
    keyid: str | None = None,
    saltenv: str = "base",
    **kwargs: Unpack[_Place],
) -> bool:
    """
    Trust a key that signs repositories: the file at ``path``, ``text``, or what ``keyserver`` has for ``keyid``.

    With ``aptkey`` every source may be signed with it; otherwise it is put into ``keydir`` (``/etc/apt/keyrings``),
    and a source has to name it with ``signed-by``. ``keyfile`` is the name of the file.

    CLI Example::

        saltlite '*' pkg.add_repo_key salt://apt/example.asc
        saltlite '*' pkg.add_repo_key salt://apt/example.asc aptkey=False keyfile=example.asc
    """
    if sum(bool(given) for given in (path, text, keyserver)) != 1:
        raise SaltInvocationError("Say where the key comes from, once: path, text, or keyserver and keyid.")
    given = _packages.take(kwargs, *_Place.__annotations__)
    folder = _folder(aptkey=given["aptkey"] is not False, keydir=given["keydir"])
    if keyserver:
        data, name = _received(str(keyserver), str(keyid or "")), f"{keyid}.gpg"
    elif path:
        data, name = _fetched(str(path), saltenv), os.path.basename(str(path))
    else:
        data, name = str(text).strip().encode() + b"\n", f"{keyid or 'key'}.asc"
    _store(data, folder, str(given["keyfile"] or name), named=bool(given["keyfile"]))
    return True


def del_repo_key(
    name: str | None = None, aptkey: bool = True, keydir: str | None = None, keyid: str | None = None
) -> str:
    """
    Trust a key no more: the file that holds it is removed. ``keyid`` has 8 or 16 digits. Returns the id.

    CLI Example::

        saltlite '*' pkg.del_repo_key keyid=0123ABCD
    """
    wanted = _key_id(keyid or name)
    keys = get_repo_keys(aptkey=aptkey, keydir=keydir)
    files = {row["file"] for key, row in keys.items() if key.endswith(wanted)}
    if not files:
        raise CommandExecutionError(f"There is no key {wanted} in {_folder(aptkey=aptkey, keydir=keydir)}.")
    for path in files:
        others = [key for key, row in keys.items() if row["file"] == path and not key.endswith(wanted)]
        if others:
            raise CommandExecutionError(f"{path} also holds {', '.join(others)}: remove the file, if that is meant.")
        _whole.remove(path)
    return wanted


def _folder(*, aptkey: bool, keydir: str | None) -> str:
    folder = str(keydir) if keydir else _apt.places().trusted.rstrip("/") if aptkey else KEYRINGS
    if not os.path.isabs(folder):
        raise SaltInvocationError(f"{folder} is not the absolute path of a folder.")
    return folder


def _key_files(folder: str) -> list[str]:
    with contextlib.suppress(FileNotFoundError):
        return [os.path.join(folder, name) for name in sorted(os.listdir(folder)) if name.endswith(_ENDINGS)]
    return []


def _one_file() -> list[str]:
    """The file in which `apt-key` kept all keys; apt goes on trusting what is in it."""
    path = _apt.places().trusted_file
    return [path] if os.path.isfile(path) else []


def _key_id(text: str | None) -> str:
    digits = str(text or "").upper().removeprefix("0X")
    if len(digits) not in (_SHORT_ID, _LONG_ID) or not set(digits) <= set("0123456789ABCDEF"):
        raise SaltInvocationError(f"{text!r} is not the id of a key: that has {_SHORT_ID} or {_LONG_ID} digits.")
    return digits


def _fetched(path: str, saltenv: str) -> bytes:
    cached = __salt__["cp.cache_file"](path, saltenv)
    if not cached:
        raise CommandExecutionError(f"There is no file {path}.")
    with open(cached, "rb") as stream:
        return stream.read()


def _received(keyserver: str, keyid: str) -> bytes:
    """A key from a key server, through a keyring of its own that nobody else has."""
    with tempfile.TemporaryDirectory() as home:
        gpg = ["gpg", "--batch", "--no-options", "--homedir", home]
        for step in (["--keyserver", _packages.path(keyserver), "--recv-keys"], ["--armor", "--export"]):
            done = _apt.checked(_packages.run([*gpg, *step, "--", _key_id(keyid)]))
        return done.stdout.encode()


def _store(data: bytes, folder: str, name: str, *, named: bool) -> None:
    armored = data.lstrip().startswith(_ARMOR)
    # apt takes the ending for the truth: `.asc` is text, `.gpg` is not, and anything else it leaves aside.
    if not named:
        name = os.path.splitext(name)[0] + (".asc" if armored else ".gpg")
    if not name.endswith(_ENDINGS) or os.path.basename(name) != name or not name.isprintable():
        raise SaltInvocationError(f"{name!r} is not the name of a file of keys: it ends with .asc or .gpg.")
    if armored and name.endswith(".gpg"):
        data = _dearmored(data)
    elif not armored and (name.endswith(".asc") or not data[:1] or not data[0] & 0x80):
        raise CommandExecutionError(f"What was given for {name} is not a key.")
    try:
        os.makedirs(folder, mode=0o755, exist_ok=True)
    except OSError as error:
        raise CommandExecutionError(f"The folder {folder} cannot be made: {error.strerror}.") from error
    _whole.write(os.path.join(folder, name), data)


def _dearmored(data: bytes) -> bytes:
    """The packets inside of the text form (RFC 9580, section 6)."""
    _, _, body = data.replace(b"\r\n", b"\n").partition(b"\n\n")
    lines = body.partition(b"\n-----END")[0].split(b"\n")
    try:
        return binascii.a2b_base64(b"".join(line for line in lines if not line.startswith(b"=")), strict_mode=True)
    except ValueError as error:
        raise CommandExecutionError("What was given is not a key: its text form is damaged.") from error


def _parsed(colons: str) -> list[dict[str, Any]]:
    """The keys in what gpg lists with colons."""
    keys: list[dict[str, Any]] = []
    last: dict[str, Any] = {}
    for line in colons.splitlines():
        items = [int(item) if item.isdigit() and len(item) < _LONG_ID else item or None for item in line.split(":")]
        if items[0] in ("pub", "sub") and len(items) > 11:
            last = {
                "algorithm": items[3],
                "bits": items[2],
                "capability": items[11],
                "date_creation": items[5],
                "date_expiration": items[6],
                "keyid": str(line.split(":")[4]),
                "validity": items[1],
            }
            if items[0] == "pub":
                keys.append(last)
            elif keys:
                keys[-1]["subkey"] = last
        elif items[0] == "fpr" and last:
            last["fingerprint"] = line.split(":")[9]
        elif items[0] == "uid" and keys and "uid" not in keys[-1]:
            keys[-1].update(uid=items[9], uid_hash=items[7])
    return keys
