"""Users of a Linux machine, through the programs of the shadow suite.

``root`` selects the files of the system in that folder; no name service is asked.

:maintainer:    The saltlite authors
:maturity:      new
:depends:       useradd, usermod, userdel
:platform:      Linux
"""

from __future__ import annotations

import grp
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from saltlite.errors import CommandExecutionError, SaltInvocationError
from saltlite.plugins.modules import _accounts, _programs

if TYPE_CHECKING:
    import pwd

    from saltlite.loader.hints import __grains__

__virtualname__ = "user"

__risk__ = {"delete": "remove"}

GECOS = ("fullname", "roomnumber", "workphone", "homephone", "other")
"""The parts of a user's comment, in order; only the last may contain commas."""

_HOME_NOT_REMOVED = 12


def __virtual__() -> str | tuple[bool, str]:  # noqa: N807 - the name that the loader asks for
    if __grains__.get("kernel", "Linux") != "Linux":
        return False, "The useradd execution module cannot be loaded: only works on Linux."
    return __virtualname__


def add(  # noqa: PLR0913, PLR0917 - the arguments are Salt's
    name: str, uid: int | str | None = None, gid: int | str | None = None, groups: list[str] | str | None = None,
    home: str | None = None, shell: str | None = None, unique: bool = True, system: bool = False,
    fullname: str | None = "", roomnumber: str | int | None = "", workphone: str | int | None = "",
    homephone: str | int | None = "", other: str | int | None = "", createhome: bool = True,
    loginclass: str | None = None, nologinit: bool = False, root: str | None = None, usergroup: bool | None = None,
    local: bool = False,
) -> bool:  # fmt: skip
    """Add a user.

    ``gid`` is the number or name of the primary group, ``groups`` are additional ones. ``usergroup`` says whether to
    create a group with the user's name; the default is that of the system. ``unique=False`` allows a ``uid`` of another
    user, ``system`` takes a number of the range for system users. ``createhome=False`` creates no home folder,
    ``nologinit`` keeps the user out of lastlog and faillog. ``local`` adds the user to the local files with libuser's
    ``luseradd``. ``loginclass`` is not supported on Linux.

    CLI Example::

        saltlite '*' user.add bob
        saltlite '*' user.add bob 1500 staff groups=audio,video shell=/bin/bash fullname='Bob Builder'
    """
    user, folder = _accounts.new_name(name, "user"), _programs.folder(root)
    if loginclass:
        raise SaltInvocationError("Linux has no login classes: loginclass cannot be given.")
    if local and (folder or nologinit or not unique):
        raise SaltInvocationError("local=True cannot be combined with root, nologinit or unique=False.")
    further = _group_names(groups or [])
    comment = _comment(dict(zip(GECOS, (fullname, roomnumber, workphone, homephone, other), strict=True)))
    argv: list[Any] = ["luseradd" if local else "useradd", *_accounts.in_root(folder)]
    argv += _primary(user, gid, further, usergroup, folder, local=local)
    if uid not in (None, ""):
        argv += ["-u", _programs.number(uid, "uid")]
    for option, text, what in (("-d", home, "home folder"), ("-s", shell, "shell"), ("-c", comment, "comment")):
        argv += [option, _programs.value(text, what)] if text else []
    argv += ["-M"] if not createhome else [] if local else ["-m"]
    argv += ["-G", ",".join(further)] if further and not local else []
    flags = (("-l", nologinit), ("-o", not unique), ("-r", system))
    _programs.checked([*argv, *[option for option, given in flags if given], "--", user])
    return chgroups(user, further, append=True) if further and local else True


def delete(name: str, remove: bool = False, force: bool = False, root: str | None = None, local: bool = False) -> bool:
    """Remove a user. ``remove`` also removes the home folder and the mail, ``force`` also a user who is logged in.
    ``local`` removes the user from the local files with libuser's ``luserdel``.

    CLI Example::

        saltlite '*' user.delete bob
        saltlite '*' user.delete bob remove=True force=True
    """
    user, folder = _accounts.user_name(name), _programs.folder(root)
    if local and (folder or force):
        raise SaltInvocationError("local=True cannot be combined with root or force.")
    flags = [option for option, given in (("-r", remove), ("-f", force)) if given]
    argv = ["luserdel" if local else "userdel", *_accounts.in_root(folder), *flags, "--", user]
    done = _programs.run(argv)
    # Debian's userdel reports a missing mail spool as a failure to remove the home folder.
    only_mail = done.retcode == _HOME_NOT_REMOVED and "mail" in done.stderr and "home directory" not in done.stderr
    if done.retcode and not only_mail:
        raise done.failure()
    return True


def getent(refresh: bool = False, root: str | None = None) -> list[dict[str, Any]]:  # noqa: ARG001 - Salt's argument
    """Information about all users, in the format of ``user.info``. ``refresh`` has no effect: nothing is cached.

    CLI Example: ``saltlite '*' user.getent``
    """
    folder = _programs.folder(root)
    named: dict[str, set[str]] = {}
    numbered: dict[int, str] = {}
    for group in _accounts.groups(folder):
        numbered.setdefault(group.gr_gid, group.gr_name)
        for member in group.gr_mem:
            named.setdefault(member, set()).add(group.gr_name)
    return [
        _shown(one, sorted(named.get(one.pw_name, set()) | {numbered.get(one.pw_gid, str(one.pw_gid))}))
        for one in _accounts.users(folder)
    ]


def info(name: str, root: str | None = None) -> dict[str, Any]:
    """Information about a user: ``name``, ``uid``, ``gid``, ``groups``, ``home``, ``shell``, ``passwd``, ``fullname``,
    ``roomnumber``, ``workphone``, ``homephone`` and ``other``; an empty dict if there is none.

    CLI Example: ``saltlite '*' user.info root``
    """
    found = _accounts.user(_accounts.user_name(name), _programs.folder(root))
    return {} if found is None else _shown(found, list_groups(name, root))


def list_users(root: str | None = None) -> list[str]:
    """The names of all users, sorted.

    CLI Example: ``saltlite '*' user.list_users``
    """
    return sorted(one.pw_name for one in _accounts.users(_programs.folder(root)))


def list_groups(name: str, root: str | None = None) -> list[str]:
    """The names of the groups of a user, including the primary one, sorted; an empty list if there is no such user.

    CLI Example: ``saltlite '*' user.list_groups bob``
    """
    folder = _programs.folder(root)
    user = _accounts.user(_accounts.user_name(name), folder)
    if user is None:
        return []
    if folder is None:
        found = set()
        for gid in os.getgrouplist(user.pw_name, user.pw_gid):
            try:
                found.add(grp.getgrgid(gid).gr_name)
            except KeyError:
                found.add(str(gid))
        return sorted(found)
    known = _accounts.groups(folder)
    primary = [one.gr_name for one in known if one.gr_gid == user.pw_gid] or [str(user.pw_gid)]
    return sorted({*primary, *[one.gr_name for one in known if user.pw_name in one.gr_mem]})


def primary_group(name: str) -> str:
    """The name of the primary group of a user.

    CLI Example: ``saltlite '*' user.primary_group bob``
    """
    user = _existing(name, None)
    try:
        return grp.getgrgid(user.pw_gid).gr_name
    except KeyError as error:
        raise CommandExecutionError(
            f"The primary group of '{name}' has the number {user.pw_gid} and no name"
        ) from error


def rename(name: str, new_name: str, root: str | None = None) -> bool:
    """Rename a user; the home folder and the groups keep their names.

    CLI Example: ``saltlite '*' user.rename bob robert``
    """
    folder = _programs.folder(root)
    wanted = _accounts.new_name(new_name, "user")
    if _accounts.user(wanted, folder) is not None:
        raise CommandExecutionError(f"User '{wanted}' already exists")
    return _modify(_existing(name, folder), ["-l", wanted], folder)


def chuid(name: str, uid: int, root: str | None = None) -> bool:
    """Change the number of a user; the files in the home folder are updated.

    CLI Example: ``saltlite '*' user.chuid bob 4376``
    """
    folder, number = _programs.folder(root), _programs.number(uid, "uid")
    user = _existing(name, folder)
    return user.pw_uid == number or _modify(user, ["-u", number], folder)


def chgid(name: str, gid: int | str, root: str | None = None) -> bool:
    """Change the primary group of a user, by number or name.

    CLI Example: ``saltlite '*' user.chgid bob 4376``
    """
    folder, wanted = _programs.folder(root), _accounts.group_name(gid)
    user = _existing(name, folder)
    return str(user.pw_gid) == wanted or _modify(user, ["-g", wanted], folder)


def chshell(name: str, shell: str, root: str | None = None) -> bool:
    """Change the login shell of a user.

    CLI Example: ``saltlite '*' user.chshell bob /bin/zsh``
    """
    folder, wanted = _programs.folder(root), _programs.value(shell, "shell")
    user = _existing(name, folder)
    return user.pw_shell == wanted or _modify(user, ["-s", wanted], folder)


def chhome(name: str, home: str, persist: bool = False, root: str | None = None) -> bool:
    """Change the home folder of a user; ``persist`` moves the content of the old one.

    CLI Example: ``saltlite '*' user.chhome bob /srv/bob persist=True``
    """
    folder, wanted = _programs.folder(root), _programs.value(home, "home folder")
    if not wanted.startswith("/"):
        raise SaltInvocationError(f"The home folder is an absolute path, not {wanted!r}.")
    user = _existing(name, folder)
    return user.pw_dir == wanted or _modify(user, [*(["-m"] if persist else []), "-d", wanted], folder)


def chgroups(name: str, groups: list[str] | str, append: bool = False, root: str | None = None) -> bool:
    """Set the groups of a user besides the primary one, as a list or separated by commas; ``append`` keeps the others.

    CLI Example::

        saltlite '*' user.chgroups bob wheel,audio
        saltlite '*' user.chgroups bob docker append=True
    """
    folder, wanted = _programs.folder(root), _group_names(groups)
    user = _existing(name, folder)
    present = set(list_groups(user.pw_name, root))
    if set(wanted) == present or (append and set(wanted) <= present):
        return True
    return _modify(user, [*(["-a"] if append else []), "-G", ",".join(wanted)], folder)


def chfullname(name: str, fullname: str | None, root: str | None = None) -> bool:
    """Change the full name of a user.

    CLI Example: ``saltlite '*' user.chfullname bob 'Bob Builder'``
    """
    return _change_comment(name, "fullname", fullname, root)


def chroomnumber(name: str, roomnumber: str | int | None, root: str | None = None) -> bool:
    """Change the room number of a user.

    CLI Example: ``saltlite '*' user.chroomnumber bob 123``
    """
    return _change_comment(name, "roomnumber", roomnumber, root)


def chworkphone(name: str, workphone: str | int | None, root: str | None = None) -> bool:
    """Change the work telephone number of a user.

    CLI Example: ``saltlite '*' user.chworkphone bob 7735550123``
    """
    return _change_comment(name, "workphone", workphone, root)


def chhomephone(name: str, homephone: str | int | None, root: str | None = None) -> bool:
    """Change the home telephone number of a user.

    CLI Example: ``saltlite '*' user.chhomephone bob 7735551234``
    """
    return _change_comment(name, "homephone", homephone, root)


def chother(name: str, other: str | int | None, root: str | None = None) -> bool:
    """Change the last part of the comment of a user, which is free text.

    CLI Example: ``saltlite '*' user.chother bob 'until June'``
    """
    return _change_comment(name, "other", other, root)


def _existing(name: Any, root: str | None) -> pwd.struct_passwd:
    user = _accounts.user(_accounts.user_name(name), root)
    if user is None:
        raise CommandExecutionError(f"User '{name}' does not exist")
    return user


def _modify(user: pwd.struct_passwd, options: Sequence[Any], root: str | None) -> bool:
    _programs.checked(["usermod", *_accounts.in_root(root), *options, "--", user.pw_name])
    return True


def _primary(
    user: str, gid: Any, further: Sequence[str], usergroup: bool | None, root: str | None, *, local: bool
) -> list[str]:
    """The options of useradd for the primary group."""
    if gid not in (None, ""):
        return ["-g", _accounts.group_name(gid)]
    if usergroup:
        return [] if local else ["-U"]
    # useradd fails if the group exists; listing it among the groups means to use it.
    if user in further and _accounts.group(user, root) is not None:
        return ["-g", user]
    if usergroup is None:
        return []
    return ["-n" if local else "-N"]


def _group_names(given: Any) -> list[str]:
    names = given.split(",") if isinstance(given, str) else list(given or ())
    return [_accounts.group_name(one) for one in names if one != ""]


def _parts(user: pwd.struct_passwd) -> dict[str, str]:
    given = user.pw_gecos.split(",", len(GECOS) - 1)
    return dict(zip(GECOS, [*given, *[""] * (len(GECOS) - len(given))], strict=True))


def _comment(parts: dict[str, Any]) -> str:
    texts = [_programs.value(text, key, without=":" if key == "other" else ":,") for key, text in parts.items()]
    return ",".join(texts).rstrip(",")


def _change_comment(name: Any, key: str, value: Any, root: Any) -> bool:
    folder = _programs.folder(root)
    user = _existing(name, folder)
    parts = _parts(user)
    wanted = _comment({**parts, key: value})
    return wanted == _comment(dict(parts)) or _modify(user, ["-c", wanted], folder)


def _shown(user: pwd.struct_passwd, groups: list[str]) -> dict[str, Any]:
    return {
        "name": user.pw_name,
        "uid": user.pw_uid,
        "gid": user.pw_gid,
        "groups": groups,
        "home": user.pw_dir,
        "shell": user.pw_shell,
        "passwd": user.pw_passwd,
        **_parts(user),
    }
