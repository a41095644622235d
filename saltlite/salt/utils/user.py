"""`salt.utils.user`: users and groups, and becoming one."""

from __future__ import annotations

import getpass
import grp
import os
import pwd

from saltlite.errors import CommandExecutionError
from saltlite.salt.utils.decorators.jinja import jinja_filter


def get_user() -> str:
    """The name of the user whose rights this process has."""
    return pwd.getpwuid(os.geteuid()).pw_name


@jinja_filter("get_uid")
def get_uid(user: str | None = None) -> int | None:
    """The number of a user, by default of this process; None for an unknown one."""
    if user is None:
        return os.geteuid()
    try:
        return pwd.getpwnam(user).pw_uid
    except KeyError:
        return None


def get_specific_user() -> str:
    """The user of this process, `sudo_<name>` for root by sudo."""
    user = get_user()
    return f"sudo_{os.environ['SUDO_USER']}" if user == "root" and "SUDO_USER" in os.environ else user


def get_default_group(user: str) -> str:
    """The name of the user's primary group. Raises KeyError."""
    return grp.getgrgid(pwd.getpwnam(user).pw_gid).gr_name


def get_group_list(user: str, include_default: bool = True) -> list[str]:
    """The names of the user's groups, sorted; empty for an unknown user."""
    try:
        primary = pwd.getpwnam(user).pw_gid
        numbers = os.getgrouplist(user, primary)
    except KeyError:
        return sorted(group.gr_name for group in grp.getgrall() if user in group.gr_mem)
    names = set()
    for number in numbers:
        if include_default or number != primary:
            try:
                names.add(grp.getgrgid(number).gr_name)
            except KeyError:
                continue  # a number without a name
    return sorted(names)


def get_group_dict(user: str | None = None, include_default: bool = True) -> dict[str, int]:
    """Name -> number of the user's groups."""
    return {name: grp.getgrnam(name).gr_gid for name in get_group_list(user or get_user(), include_default)}


def get_gid_list(user: str, include_default: bool = True) -> list[int]:
    """The numbers of the user's groups, sorted."""
    return sorted(set(get_group_dict(user, include_default).values()))


def get_gid(group: str | None = None) -> int | None:
    """The number of a group, by default of this process; None for an unknown one."""
    if group is None:
        return os.getegid()
    try:
        return grp.getgrnam(group).gr_gid
    except KeyError:
        return None


def chugid(runas: str, group: str | None = None) -> None:
    """Make this process one of the user and the group, by default his primary one.

    Raises KeyError for an unknown user, and CommandExecutionError.
    """
    account = pwd.getpwnam(runas)
    try:
        number = grp.getgrnam(group).gr_gid if group else account.pw_gid
    except KeyError as error:
        raise CommandExecutionError(f"Failed to fetch the GID for {group}. Error: {error}") from error
    groups = get_gid_list(runas)
    try:
        if os.getgid() != number:
            os.setgid(number)
        if sorted(os.getgroups()) != groups:
            os.setgroups(groups)
        if os.getuid() != account.pw_uid:
            os.setuid(account.pw_uid)
    except OSError as error:
        raise CommandExecutionError(f"Failed to become the user {runas} with the groups {groups}: {error}") from error


def chugid_and_umask(runas: str | None, umask: int | None, group: str | None = None) -> None:
    """As `chugid` if it changes anything, and set the umask."""
    current = getpass.getuser()
    user = runas or current
    if user != current or (group and group != get_default_group(current)):
        chugid(user, group or get_default_group(user))
    if umask is not None:
        os.umask(umask)
