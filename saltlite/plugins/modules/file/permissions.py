"""Owner, group, mode, attributes and SELinux labels of files."""

from __future__ import annotations

import errno
import fcntl
import os
import struct
from typing import TYPE_CHECKING, Any

from saltlite.errors import CommandExecutionError, CommandNotFoundError, SaltInvocationError
from saltlite.plugins.modules._safe_files import checked_path, held, pinned, sentence, shown

from .labels import differing_parts, label_parts, set_selinux_context
from .stats import failed, get_mode, group_to_gid, octal, octal_text, stats, user_to_uid

if TYPE_CHECKING:
    from collections.abc import Iterable


# --- Attributes: the flags of lsattr and chattr ---

LETTERS = {
    "s": 0x1, "u": 0x2, "c": 0x4, "S": 0x8, "i": 0x10, "a": 0x20, "d": 0x40, "A": 0x80, "E": 0x800, "I": 0x1000,
    "j": 0x4000, "t": 0x8000, "D": 0x10000, "T": 0x20000, "e": 0x80000, "C": 0x800000, "P": 0x20000000,
}  # fmt: skip
"""Letter -> bit."""

_GET = 0x80086601
_SET = 0x40086602

_NONE = {errno.ENOTTY, errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS}


def read_flags(path: str) -> list[str] | None:
    """Return the attribute letters of a file or folder; None for links, pipes and unsupported file systems."""
    fd = _open(path)
    if fd is None:
        return None
    try:
        bits = _bits(fd)
    finally:
        os.close(fd)
    return None if bits is None else [letter for letter, bit in LETTERS.items() if bits & bit]


def changed_flags(path: str, add: str, remove: str) -> None:
    """Add and remove attributes. Raises CommandExecutionError."""
    fd = _open(path)
    bits = None if fd is None else _bits(fd)
    try:
        if fd is None or bits is None:
            raise CommandExecutionError(f"The file system of {shown(path)} keeps no attributes.")
        for letter in add:
            bits |= LETTERS[letter]
        for letter in remove:
            bits &= ~LETTERS[letter]
        fcntl.ioctl(fd, _SET, struct.pack("l", bits))
    except OSError as error:
        reason = error.strerror or str(error)
        raise CommandExecutionError(f"The attributes of {shown(path)} cannot be set: {reason}.") from error
    finally:
        if fd is not None:
            os.close(fd)


def _open(path: str) -> int | None:
    try:
        # O_NONBLOCK: do not wait for the other end of a pipe.
        with pinned(path, follow_symlinks=False) as place:
            flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
            return os.open(place.name, flags, dir_fd=place.folder)
    except OSError as error:
        if error.errno in {errno.ELOOP, errno.ENXIO, errno.ENODEV}:
            return None
        raise sentence(path, "read", error) from error


def _bits(fd: int) -> int | None:
    try:
        answer = fcntl.ioctl(fd, _GET, struct.pack("l", 0))
    except OSError as error:
        if error.errno in _NONE:
            return None
        raise
    return int(struct.unpack("l", answer)[0])


KEEP = -1
"""Tells the kernel's chown to keep owner or group."""


def set_mode(path: str, mode: str | int, *, test: bool = False) -> str:
    """Set the mode of a file, in octal digits; return its new mode.

    CLI Example: ``saltlite '*' file.set_mode /etc/passwd 0644``
    """
    name = checked_path(path)
    wanted = octal(mode)
    if not os.path.exists(name):
        raise CommandExecutionError(f"{shown(name)}: File not found")
    if test:
        return octal_text(wanted)
    try:
        with held(name) as same:
            os.chmod(same, wanted)
    except OSError as error:
        raise failed(f"The mode of {shown(name)} cannot be set", error) from error
    return get_mode(name)


def chown(
    path: str, user: str | int | None, group: str | int | None, recurse: bool = False, *, test: bool = False
) -> str | None:
    """Set the owner and group of a file, each by name or number; None or an empty text keeps it.

    A link is followed unless its target is missing. ``recurse`` changes everything in a folder without following links.
    Returns ``User does not exist``, ``Group does not exist`` or ``File not found``, or None on success.

    CLI Example::

        saltlite '*' file.chown /etc/passwd root root
        saltlite '*' file.chown /srv/app app app recurse=True
    """
    name = checked_path(path)
    uid, gid, wrong = owner_numbers(user, group)
    follow = os.path.exists(name) and not recurse
    if not os.path.lexists(name):
        wrong += "File not found"
    if wrong or test:
        return wrong or None
    _give(name, uid, gid, follow_symlinks=follow)
    if recurse and os.path.isdir(name) and not os.path.islink(name):
        _give_tree(name, uid, gid)
    return None


def lchown(path: str, user: str | int | None, group: str | int | None, *, test: bool = False) -> str | None:
    """Like ``file.chown``, for a link itself.

    CLI Example: ``saltlite '*' file.lchown /path/to/link root root``
    """
    name = checked_path(path)
    uid, gid, wrong = owner_numbers(user, group)
    if not os.path.lexists(name):
        wrong += "File not found"
    if not wrong and not test:
        _give(name, uid, gid, follow_symlinks=False)
    return wrong or None


def chgrp(path: str, group: str | int, recurse: bool = False, *, test: bool = False) -> str | None:
    """Set the group of a file; return what ``file.chown`` returns.

    CLI Example: ``saltlite '*' file.chgrp /etc/passwd root``
    """
    return chown(path, "", group, recurse, test=test)


def lsattr(path: str) -> dict[str, list[str]]:
    """Return the attributes of a file as letters of ``chattr``, or those of everything in a folder.

    Empty if the file system has none.

    CLI Example: ``saltlite '*' file.lsattr foo1.txt``
    """
    name = checked_path(path)
    if not os.path.exists(name):
        raise SaltInvocationError(f"File or directory does not exist: {shown(name)}")
    listed = [os.path.join(name, each) for each in sorted(os.listdir(name))] if os.path.isdir(name) else [name]
    found = {each: read_flags(each) for each in listed}
    return {each: flags for each, flags in found.items() if flags is not None}


def chattr(*files: str, operator: str | None = None, attributes: str | None = None, test: bool = False) -> bool:
    """Add attributes to files or remove them: ``operator`` is ``add`` or ``remove``, ``attributes`` letters of chattr.

    CLI Example: ``saltlite '*' file.chattr foo1.txt foo2.txt operator=add attributes=ai``
    """
    if operator not in {"add", "remove"}:
        raise SaltInvocationError("Need an operator: 'add' or 'remove' to modify attributes.")
    letters = str(attributes or "")
    if not letters or not set(letters) <= set(LETTERS):
        raise SaltInvocationError(f"Need attributes: [{''.join(LETTERS)}]")
    for each in files:
        name = checked_path(each)
        add, remove = (letters, "") if operator == "add" else ("", letters)
        if not test:
            changed_flags(name, add, remove)
    return True


def check_perms(  # noqa: PLR0913, PLR0917 - Salt's arguments
    name: str, ret: dict[str, Any] | None, user: str | int | None, group: str | int | None, mode: str | int | None,
    attrs: str | None = None, follow_symlinks: bool = False, seuser: str | None = None, serole: str | None = None,
    setype: str | None = None, serange: str | None = None, *, test: bool = False,
) -> tuple[dict[str, Any], dict[str, Any]]:  # fmt: skip
    """Set owner, group, mode, attributes and SELinux label, and return what changed and what was there before.

    The first dict has ``name``, ``changes``, ``comment`` and ``result``, or extends ``ret``. The second has ``luser``,
    ``lgroup`` and ``lmode``, and for differences ``cuser``, ``cgroup`` and ``cmode``. None keeps a value. The mode of a
    link is ignored unless ``follow_symlinks``.

    CLI Example: ``saltlite '*' file.check_perms /etc/sudoers '{}' root root 400 ai``
    """
    path = checked_path(name)
    label = label_parts(seuser, serole, setype, serange)
    report = ret or {"name": name, "changes": {}, "comment": [], "result": True}
    before = stats(path, follow_symlinks=follow_symlinks)
    itself = os.path.islink(path) and not follow_symlinks
    wanted: dict[str, Any] = {} if mode is None or itself else {"mode": octal_text(octal(mode))}
    wanted |= {key: value for key, value in (("user", user), ("group", group)) if value not in (None, "")}
    differing = {key: value for key, value in wanted.items() if not _is(before, key, value)}
    perms = {
        "luser": before["uid"] if isinstance(user, int) else before["user"],
        "lgroup": before["gid"] if isinstance(group, int) else before["group"],
        "lmode": before["mode"],
        **{f"c{key}": value for key, value in differing.items()},
    }
    errors: list[str] = []
    if differing and not test:
        errors += _bring(path, differing, before, itself=itself)
    after = before if test else stats(path, follow_symlinks=follow_symlinks)
    for key in (key for key in ("user", "group", "mode") if key in differing):
        if test or _is(after, key, differing[key]):
            report["changes"][key] = differing[key]
        else:
            report["result"] = False
            errors.append(f"Failed to change {key} to {differing[key]}")
    if attrs is not None and not itself and not os.path.isdir(path):
        errors += _bring_flags(path, attrs, report, test=test)
    if label and not itself:
        errors += _bring_label(path, label, report, test=test)
    if errors:
        report["result"] = False
    _add_comments(report, errors)
    return report, perms


def owner_numbers(user: str | int | None, group: str | int | None) -> tuple[int, int, str]:
    """Return the numbers of user and group (KEEP for none) and lines of errors in the names."""
    uid = KEEP if user in (None, "") else user_to_uid(user)
    gid = KEEP if group in (None, "") else group_to_gid(group)
    wrong = "User does not exist\n" if isinstance(uid, str) else ""
    wrong += "Group does not exist\n" if isinstance(gid, str) else ""
    return (KEEP if isinstance(uid, str) else uid, KEEP if isinstance(gid, str) else gid, wrong)


def _is(found: dict[str, Any], key: str, value: Any) -> bool:
    numbers = {"user": "uid", "group": "gid", "mode": "mode"}
    return value in (found[key], found[numbers[key]])


def _bring(path: str, differing: dict[str, Any], before: dict[str, Any], *, itself: bool) -> list[str]:
    """Set what differs; return errors."""
    errors = []
    if "user" in differing or "group" in differing:
        try:
            wrong = (lchown if itself else chown)(path, differing.get("user"), differing.get("group"))
            errors += (wrong or "").split("\n")
        except CommandExecutionError as error:
            errors.append(str(error))
    # The kernel clears set-user-id when the owner changes, so the mode is set after that.
    if "mode" in differing or (("user" in differing or "group" in differing) and not itself):
        try:
            set_mode(path, differing.get("mode", before["mode"]))
        except CommandExecutionError as error:
            errors.append(str(error))
    return [each for each in errors if each]


def _bring_flags(path: str, attrs: str, report: dict[str, Any], *, test: bool) -> list[str]:
    found = read_flags(path)
    if found is None:
        return []
    add, remove = flag_changes(found, attrs)
    if not add and not remove:
        return []
    report["changes"]["attrs"] = {"old": "".join(found), "new": attrs}
    try:
        if not test:
            changed_flags(path, add, remove)
    except (CommandExecutionError, CommandNotFoundError) as error:
        del report["changes"]["attrs"]
        return [str(error)]
    return []


def _bring_label(path: str, wanted: dict[str, str], report: dict[str, Any], *, test: bool) -> list[str]:
    differing, before = differing_parts(path, wanted)
    if not differing:
        return []
    try:
        if not test:
            user, role, kind, category = (differing.get(part) for part in ("user", "role", "type", "range"))
            set_selinux_context(path, user, role, kind, category)
    except (CommandExecutionError, SaltInvocationError) as error:
        return [str(error)]
    report["changes"]["selinux"] = {"Old": _shown_parts(before), "New": _shown_parts(differing)}
    return []


def _shown_parts(parts: dict[str, str]) -> str:
    return " ".join(f"{part.capitalize()}: {text}" for part, text in parts.items())


def flag_changes(found: Iterable[str], attrs: str) -> tuple[str, str]:
    """Return the letters to add and to remove; `e` (extents) cannot be removed."""
    old, new = set(found), set(attrs)
    return "".join(sorted(new - old)), "".join(sorted(old - new - {"e"}))


def _add_comments(report: dict[str, Any], errors: list[str]) -> None:
    """Add messages to the comment, which is a list or a text."""
    earlier = report.get("comment")
    if isinstance(earlier, list):
        report["comment"] = "\n".join([*map(str, earlier), *errors])
    else:
        report["comment"] = "\n".join([*([str(earlier)] if earlier else []), *errors])


def _give(name: str, uid: int, gid: int, *, follow_symlinks: bool) -> None:
    try:
        with held(name, follow_symlinks=follow_symlinks) as same:
            os.chown(same, uid, gid)
    except (OSError, OverflowError) as error:
        if isinstance(error, OverflowError):
            raise SaltInvocationError(f"There can be no user {uid} or group {gid}: {error}.") from error
        raise failed(f"The owner of {shown(name)} cannot be set", error) from error


def _give_tree(top: str, uid: int, gid: int) -> None:
    """Change the owner of a tree through open folders, so that none can be replaced by a link meanwhile."""

    def stop(error: OSError) -> None:
        raise failed(f"{shown(error.filename or top)} cannot be read", error) from error

    with pinned(top, follow_symlinks=False) as place:
        tree = os.fwalk(place.name, onerror=stop, follow_symlinks=False, dir_fd=place.folder)
        for folder, folders, files, fd in tree:
            for each in (*folders, *files):
                try:
                    os.chown(each, uid, gid, dir_fd=fd, follow_symlinks=False)
                except FileNotFoundError:
                    continue  # removed meanwhile
                except OSError as error:
                    path = os.path.join(os.path.dirname(top), folder, each)
                    raise failed(f"The owner of {shown(path)} cannot be set", error) from error
