"""`group`: the groups of a machine."""

from __future__ import annotations

from typing import Any, TypedDict

from saltlite.interfaces import Interface


class GroupInfo(TypedDict):
    """Properties of a group on every platform."""

    name: str
    members: list[str]


class GroupInterface(Interface):
    """Groups and their members."""

    __modulename__ = "group"
    __version__ = "1.0"

    def add(self, name: str) -> bool:
        """Add a group; return whether it was added."""
        return False

    def delete(self, name: str) -> bool:
        """Remove a group; return whether it was removed."""
        return False

    def info(self, name: str) -> GroupInfo | dict[str, Any]:
        """The properties of a group; empty if it does not exist."""
        return {}

    def getent(self, refresh: bool = False) -> list[GroupInfo]:
        """The properties of all groups."""
        return []

    @Interface.supported(
        os_family=["Windows"], os=["DragonFly", "FreeBSD", "MacOS"], kernel=["AIX", "Linux", "NetBSD", "OpenBSD"]
    )
    def adduser(self, name: str, username: str) -> bool:
        """Add a user to a group."""
        return False

    @Interface.supported(
        os_family=["Solaris"], os=["DragonFly", "FreeBSD", "MacOS"], kernel=["AIX", "Linux", "NetBSD", "OpenBSD"]
    )
    def chgid(self, name: str, gid: int) -> bool:
        """Change the group id."""
        return False

    @Interface.supported(
        os_family=["Windows"], os=["DragonFly", "FreeBSD", "MacOS"], kernel=["AIX", "Linux", "NetBSD", "OpenBSD"]
    )
    def deluser(self, name: str, username: str) -> bool:
        """Remove a user from a group."""
        return False

    @Interface.supported(
        os_family=["Windows"], os=["DragonFly", "FreeBSD", "MacOS"], kernel=["AIX", "Linux", "NetBSD", "OpenBSD"]
    )
    def members(self, name: str, members_list: str | list[str]) -> bool:
        """Set the members of a group."""
        return False

    @Interface.supported(os_family=["Windows"])
    def list_groups(self, refresh: bool = False) -> list[str]:
        """The names of all groups."""
        return []
