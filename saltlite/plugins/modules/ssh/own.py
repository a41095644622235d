"""Keys of this machine and of its users."""

from __future__ import annotations

import base64
import binascii
import os
import pwd
import re

from saltlite.errors import CommandExecutionError
from saltlite.plugins.modules import _safe_files

_HOST_KEY = re.compile(r"ssh_host_(?P<type>.+)_key(?P<pub>(?P<cert>-cert)?\.pub)?")
_KINDS = ("id_rsa", "id_dsa", "id_ecdsa", "id_ed25519")
_OPENSSH = b"openssh-key-v1\0"


def host_keys(keydir: str | None = None, private: bool = False, certs: bool = True) -> dict[str, str]:
    """
    The keys that this machine shows to who connects: ``{"ed25519.pub": text, ...}``.

    Private keys are shown with ``private=True`` only (Salt shows them unless told not to). A key that cannot be read
    is an empty text.

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
    """
    The keys of users, by the names of their files below ``.ssh``; of all users without names.

    ``pubfile`` names another file, ``False`` leaves the public ones away. Private keys are shown when ``prvfile`` names
    one, or is ``True`` (Salt shows them unless told not to).

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
    """
    Whether the private key in a file wants a passphrase; False for a file that is none.

    CLI Example::

        saltlite '*' ssh.key_is_encrypted /etc/deploy/id_ed25519
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
