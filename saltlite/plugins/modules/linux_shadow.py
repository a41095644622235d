"""Passwords of a Linux machine, and their expiry.

``root`` selects the files of the system in that folder. Passwords and hashes are passed to programs through standard
input, never as arguments, and never appear in errors or logs. Changes of an unknown user return False, as in Salt, with
the reason as a note and the return code 1.

:maintainer:    The saltlite authors
:maturity:      new
:depends:       chpasswd, chage, usermod
:platform:      Linux
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from saltlite.decorators import note
from saltlite.errors import CommandExecutionError, SaltInvocationError
from saltlite.plugins.modules import _accounts, _programs

if TYPE_CHECKING:
    from saltlite.loader.hints import __context__, __grains__

__virtualname__ = "shadow"

__risk__ = {"del_password": "open-account"}

_KEYS = ("name", "passwd", "lstchg", "min", "max", "warn", "inact", "expire")
_DAYS = re.compile(r"-1|[0-9]+", re.ASCII)
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_HASH = re.compile(r"[!*].*|!?\$[0-9a-z]+\$.+|!?[./0-9A-Za-z]{13}", re.ASCII)


def __virtual__() -> str | tuple[bool, str]:  # noqa: N807 - the name that the loader asks for
    if __grains__.get("kernel", "Linux") != "Linux":
        return False, "The shadow execution module cannot be loaded: only works on Linux."
    return __virtualname__


def default_hash() -> str:
    """The hash with which no login by password is possible.

    CLI Example: ``saltlite '*' shadow.default_hash``
    """
    return "!"


def info(name: str, root: str | None = None) -> dict[str, Any]:
    """The password entry of a user: ``name``, ``passwd`` (the hash), ``lstchg``, ``min``, ``max``, ``warn``, ``inact``
    and ``expire`` in days, -1 for unset ones. All values are empty if there is no such user.

    CLI Example: ``saltlite '*' shadow.info root``
    """
    row = _row(_accounts.user_name(name), _programs.folder(root))
    if row is None:
        return dict.fromkeys(_KEYS, "")
    numbers = [int(text) if re.fullmatch(r"-?[0-9]+", text, re.ASCII) else -1 for text in row[2 : len(_KEYS)]]
    return dict(zip(_KEYS, [*row[:2], *numbers], strict=True))


def list_users(root: str | None = None) -> list[str]:
    """The names of all users with a password entry, sorted.

    CLI Example: ``saltlite '*' shadow.list_users``
    """
    return sorted(row[0] for row in _accounts.passwords(_programs.folder(root)))


def gen_password(password: str, crypt_salt: str | None = None, algorithm: str = "sha512") -> str:
    """The hash of a password, in the format that ``shadow.set_password`` takes.

    ``algorithm`` is sha512, sha256, blowfish, md5 or crypt, if the system's libcrypt supports it. ``crypt_salt`` is a
    custom salt; the default is a random one. For sha512 and sha256 it may be ``rounds=50000$salt``.

    CLI Example::

        saltlite '*' shadow.gen_password 'I_am_password'
        saltlite '*' shadow.gen_password 'I_am_password' crypt_salt='I_am_salt' algorithm=sha256
    """
    return _accounts.hashed(str(password), algorithm, None if crypt_salt is None else str(crypt_salt))


def set_password(name: str, password: str, use_usermod: bool = False, root: str | None = None) -> bool:  # noqa: ARG001 - Salt's argument
    """Set the password of a user to a hash; see ``shadow.gen_password``.

    The date of the last change becomes today. ``use_usermod`` has no effect: the hash is always written to the standard
    input of chpasswd, and never passed as an argument.

    CLI Example: ``saltlite '*' shadow.set_password root '$1$UYCIxa628.9qXjpQCjM4a..'``
    """
    user, folder, hash_ = _accounts.user_name(name), _programs.folder(root), str(password)
    if not hash_ or re.search(r"[:\x00-\x1f\x7f]", hash_):
        raise SaltInvocationError("The hash was not set: it is empty, or contains a colon or a control character.")
    if not _known(user, folder):
        return False
    if not _HASH.fullmatch(hash_):
        note("The new value is not a hash, so no login with it is possible: make one with shadow.gen_password.")
    _programs.checked(["chpasswd", *_accounts.in_root(folder), "-e"], stdin=f"{user}:{hash_}\n")
    return bool(info(user, root)["passwd"] == hash_)


def del_password(name: str, root: str | None = None) -> bool:
    """Remove the password of a user, who can then log in without one. A forced password change at the next login
    (``shadow.set_date bob 0``) stays in effect.

    CLI Example: ``saltlite '*' shadow.del_password bob``
    """
    user, folder = _accounts.user_name(name), _programs.folder(root)
    if not _known(user, folder):
        return False
    due = info(user, root)["lstchg"] == 0
    _programs.checked(["usermod", *_accounts.in_root(folder), "-p", "", "--", user])
    if due:  # usermod updates the date of the last change
        _set(user, "lstchg", 0, "-d", root)
    return bool(info(user, root)["passwd"] == "")


def lock_password(name: str, root: str | None = None) -> bool:
    """Lock the password of a user; other ways to log in, such as keys, still work.

    CLI Example: ``saltlite '*' shadow.lock_password bob``
    """
    return _lock(name, root, locked=True)


def unlock_password(name: str, root: str | None = None) -> bool:
    """Unlock the password of a user. It fails if the user would then have no password.

    CLI Example: ``saltlite '*' shadow.unlock_password bob``
    """
    return _lock(name, root, locked=False)


def set_inactdays(name: str, inactdays: int, root: str | None = None) -> bool:
    """Set for how many days after its expiry a password can still be changed at login; -1 for ever.

    CLI Example: ``saltlite '*' shadow.set_inactdays bob 7``
    """
    return _set(name, "inact", inactdays, "-I", root)


def set_maxdays(name: str, maxdays: int, root: str | None = None) -> bool:
    """Set after how many days a password must be changed; -1 for never.

    CLI Example: ``saltlite '*' shadow.set_maxdays bob 90``
    """
    return _set(name, "max", maxdays, "-M", root)


def set_mindays(name: str, mindays: int, root: str | None = None) -> bool:
    """Set after how many days a password can be changed again.

    CLI Example: ``saltlite '*' shadow.set_mindays bob 7``
    """
    return _set(name, "min", mindays, "-m", root)


def set_warndays(name: str, warndays: int, root: str | None = None) -> bool:
    """Set how many days before the expiry of a password its user is warned.

    CLI Example: ``saltlite '*' shadow.set_warndays bob 7``
    """
    return _set(name, "warn", warndays, "-W", root)


def set_date(name: str, date: int | str, root: str | None = None) -> bool:
    """Set the date of the last password change, as days since 1970-01-01 or ``YYYY-MM-DD``; 0 forces a change at the
    next login.

    CLI Example: ``saltlite '*' shadow.set_date bob 0``
    """
    return _set(name, "lstchg", date, "-d", root)


def set_expire(name: str, expire: int | str, root: str | None = None) -> bool:
    """Set when the account expires, as days since 1970-01-01 or ``YYYY-MM-DD``; -1 for never.

    CLI Example::

        saltlite '*' shadow.set_expire bob -1
        saltlite '*' shadow.set_expire bob 2030-12-31
    """
    return _set(name, "expire", expire, "-E", root)


def _row(user: str, root: str | None) -> list[str] | None:
    return next((row for row in _accounts.passwords(root) if row[0] == user), None)


def _known(user: str, root: str | None) -> bool:
    exists = _accounts.user(user, root) is not None
    return exists or _accounts.failed(__context__, f"User '{user}' does not exist")


def _lock(name: Any, root: Any, *, locked: bool) -> bool:
    user, folder = _accounts.user_name(name), _programs.folder(root)
    row = _row(user, folder)
    if row is None:
        return _accounts.failed(__context__, f"User '{user}' does not exist, or has no entry in the shadow file")
    if row[1].startswith("!") == locked:
        return True
    done = _programs.checked(["usermod", *_accounts.in_root(folder), "-L" if locked else "-U", "--", user])
    if str(info(user, root)["passwd"]).startswith("!") != locked:
        # usermod reports success when it refuses to leave an account without a password.
        raise CommandExecutionError(f"The password was not {'locked' if locked else 'unlocked'}: {done.reason()}")
    return True


def _set(name: Any, key: str, given: Any, option: str, root: Any) -> bool:
    user, folder, text = _accounts.user_name(name), _programs.folder(root), str(given)
    dated = key in {"lstchg", "expire"} and _DATE.fullmatch(text)
    if isinstance(given, bool) or not (dated or _DAYS.fullmatch(text)):
        raise SaltInvocationError(
            f"{given!r} is not a number of days{' or a date YYYY-MM-DD' if dated is None else ''}."
        )
    if not _known(user, folder):
        return False
    if str(info(user, root)[key]) != text:
        _programs.checked(["chage", *_accounts.in_root(folder), option, text, "--", user])
    return bool(dated) or str(info(user, root)[key]) == text
