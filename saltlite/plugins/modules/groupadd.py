"""Groups of a Linux machine, through the programs of the shadow suite.

``root`` selects the files of the system in that folder; no name service is asked. ``add``, ``delete`` and ``adduser``
return False when the program fails, as in Salt, with the reason as a note and the return code 1.

:maintainer:    The saltlite authors
:maturity:      new
:depends:       groupadd, groupmod, groupdel, gpasswd
:platform:      Linux
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from saltlite.errors import CommandExecutionError, SaltInvocationError
from saltlite.plugins.modules import _accounts, _programs

if TYPE_CHECKING:
    import grp

    from saltlite.loader.hints import __context__, __grains__

__virtualname__ = "group"

__risk__ = {"delete": "remove"}


def __virtual__() -> str | tuple[bool, str]:  # noqa: N807 - the name that the loader asks for
    if __grains__.get("kernel", "Linux") != "Linux":
        return False, "The groupadd execution module cannot be loaded: only works on Linux."
    return __virtualname__


def add(
    name: str, gid: int | str | None = None, system: bool = False, root: str | None = None, non_unique: bool = False,
    local: bool = False,
) -> bool:  # fmt: skip
    """Add a group.

    ``gid`` is its number, which may be that of another group with ``non_unique``. ``system`` takes a number of the
    range for system groups. ``local`` adds it to the local files with libuser's ``lgroupadd``.

    CLI Example: ``saltlite '*' group.add web 3456``
    """
    group, folder = _accounts.new_name(name, "group"), _programs.folder(root)
    argv: list[Any] = ["lgroupadd" if local else "groupadd"]
    if local and (folder or non_unique):
        raise SaltInvocationError("local=True cannot be combined with root or non_unique.")
    argv += _accounts.in_root(folder)
    if gid not in (None, ""):
        argv += ["-g", _programs.number(gid, "gid")]
        argv += ["-o"] if non_unique else []
    return _accounts.succeeds(__context__, [*argv, *(["-r"] if system else []), "--", group])


def delete(name: str, root: str | None = None, local: bool = False) -> bool:
    """Remove a group. ``local`` removes it from the local files with libuser's ``lgroupdel``.

    CLI Example: ``saltlite '*' group.delete web``
    """
    group, folder = _accounts.group_name(name), _programs.folder(root)
    if local and folder:
        raise SaltInvocationError("local=True cannot be combined with root.")
    argv = ["lgroupdel" if local else "groupdel", *_accounts.in_root(folder), "--", group]
    return _accounts.succeeds(__context__, argv)


def info(name: str, root: str | None = None) -> dict[str, Any]:
    """Information about a group: ``name``, ``passwd``, ``gid`` and ``members``; an empty dict if there is none.

    CLI Example: ``saltlite '*' group.info sudo``
    """
    found = _accounts.group(_accounts.group_name(name), _programs.folder(root))
    return {} if found is None else _shown(found)


def getent(refresh: bool = False, root: str | None = None) -> list[dict[str, Any]]:  # noqa: ARG001 - Salt's argument
    """Information about all groups. ``refresh`` has no effect: nothing is cached.

    CLI Example: ``saltlite '*' group.getent``
    """
    return [_shown(one) for one in _accounts.groups(_programs.folder(root))]


def chgid(name: str, gid: int, root: str | None = None, non_unique: bool = False) -> bool:
    """Change the number of a group; ``non_unique`` allows that of another group.

    CLI Example: ``saltlite '*' group.chgid web 4376``
    """
    folder, number = _programs.folder(root), _programs.number(gid, "gid")
    group = _existing(name, folder)
    if group.gr_gid != number:
        options = ["-o"] if non_unique else []
        _programs.checked(["groupmod", *_accounts.in_root(folder), *options, "-g", number, "--", group.gr_name])
    return True


def adduser(name: str, username: str, root: str | None = None) -> bool:
    """Add a user to a group; True also for a user who is already a member.

    CLI Example: ``saltlite '*' group.adduser web bob``
    """
    folder, user = _programs.folder(root), _accounts.user_name(username)
    group = _accounts.group(_accounts.group_name(name), folder)
    if group is None:
        return _accounts.failed(__context__, f"Group '{name}' does not exist")
    argv = ["gpasswd", *_accounts.in_root(folder), "-a", user, "--", group.gr_name]
    return user in group.gr_mem or _accounts.succeeds(__context__, argv)


def deluser(name: str, username: str, root: str | None = None) -> bool:
    """Remove a user from a group; True also for a user who is not a member.

    CLI Example: ``saltlite '*' group.deluser web bob``
    """
    folder, user = _programs.folder(root), _accounts.user_name(username)
    group = _existing(name, folder)
    if user in group.gr_mem:
        _programs.checked(["gpasswd", *_accounts.in_root(folder), "-d", user, "--", group.gr_name])
    return True


def members(name: str, members_list: str | list[str], root: str | None = None) -> bool:
    """Set the members of a group, as a list or separated by commas.

    CLI Example: ``saltlite '*' group.members web ann,bob``
    """
    folder = _programs.folder(root)
    given = members_list.split(",") if isinstance(members_list, str) else list(members_list or ())
    wanted = [_accounts.user_name(one) for one in given if one != ""]
    group = _existing(name, folder)
    if set(wanted) != set(group.gr_mem):
        _programs.checked(["gpasswd", *_accounts.in_root(folder), "-M", ",".join(wanted), "--", group.gr_name])
    return True


def _existing(name: Any, root: str | None) -> grp.struct_group:
    group = _accounts.group(_accounts.group_name(name), root)
    if group is None:
        raise CommandExecutionError(f"Group '{name}' does not exist")
    return group


def _shown(group: grp.struct_group) -> dict[str, Any]:
    return {"name": group.gr_name, "passwd": group.gr_passwd, "gid": group.gr_gid, "members": list(group.gr_mem)}
