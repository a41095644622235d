"""`user`: the users of a machine."""

from __future__ import annotations

from typing import Any, TypedDict

from saltlite.interfaces import Interface


class UserInfo(TypedDict):
    """Properties of a user on every platform."""

    name: str
    groups: list[str]
    home: str
    fullname: str


class UserInterface(Interface):
    """Users with their ids, groups and homes."""

    __modulename__ = "user"
    __version__ = "1.0"

    def add(
        self, name: str, *, groups: list[str] | None = None, home: str | None = None, fullname: str | None = ""
    ) -> bool:
        """Add a user; return whether it was added."""
        return False

    def delete(self, name: str, *, force: bool = False) -> bool:
        """Remove a user; return whether it was removed."""
        return False

    def info(self, name: str) -> UserInfo | dict[str, Any]:
        """The properties of a user; empty if it does not exist."""
        return {}

    def list_users(self) -> list[str]:
        """The names of all users."""
        return []

    def list_groups(self, name: str) -> list[str]:
        """The groups of a user."""
        return []

    def getent(self, refresh: bool = False) -> list[UserInfo]:
        """The properties of all users."""
        return []

    def rename(self, name: str, new_name: str) -> bool:
        """Rename a user."""
        return False

    def chhome(self, name: str, home: str) -> bool:
        """Change the home folder."""
        return False

    def chgroups(self, name: str, groups: list[str] | str, append: bool = False) -> bool:
        """Set the groups of a user, or add to them."""
        return False

    def chfullname(self, name: str, fullname: str) -> bool:
        """Change the full name."""
        return False

    @Interface.supported(
        os_family=["Solaris"], os=["DragonFly", "FreeBSD", "MacOS"], kernel=["Linux", "NetBSD", "OpenBSD"]
    )
    def chgid(self, name: str, gid: int) -> bool:
        """Change the group id."""
        return False

    @Interface.supported(
        os_family=["Solaris"], os=["DragonFly", "FreeBSD", "MacOS"], kernel=["Linux", "NetBSD", "OpenBSD"]
    )
    def chshell(self, name: str, shell: Any) -> bool:
        """Change the login shell."""
        return False

    @Interface.supported(
        os_family=["Solaris"], os=["DragonFly", "FreeBSD", "MacOS"], kernel=["Linux", "NetBSD", "OpenBSD"]
    )
    def chuid(self, name: str, uid: int) -> bool:
        """Change the user id."""
        return False

    @Interface.supported(os_family=["Solaris"], os=["DragonFly", "FreeBSD"], kernel=["Linux", "NetBSD", "OpenBSD"])
    def chhomephone(self, name: str, homephone: Any) -> bool:
        """Change the telephone number at home."""
        return False

    @Interface.supported(os_family=["Solaris"], os=["DragonFly", "FreeBSD"], kernel=["Linux", "NetBSD", "OpenBSD"])
    def chroomnumber(self, name: str, roomnumber: Any) -> bool:
        """Change the room number."""
        return False

    @Interface.supported(os_family=["Solaris"], os=["DragonFly", "FreeBSD"], kernel=["Linux", "NetBSD", "OpenBSD"])
    def chworkphone(self, name: str, workphone: Any) -> bool:
        """Change the telephone number at work."""
        return False

    @Interface.supported(os=["DragonFly", "FreeBSD"], kernel=["NetBSD", "OpenBSD"])
    @Interface.not_applicable(kernel=["Linux"])
    def chloginclass(self, name: str, loginclass: Any) -> bool:
        """Change the login class."""
        return False

    @Interface.supported(os=["DragonFly", "FreeBSD"], kernel=["NetBSD", "OpenBSD"])
    @Interface.not_applicable(kernel=["Linux"])
    def get_loginclass(self, name: str) -> dict[str, str] | str:
        """The login class."""
        return {}

    @Interface.supported(os=["MacOS"], kernel=["Linux", "NetBSD", "OpenBSD"])
    def primary_group(self, name: str) -> str:
        """The primary group."""
        return ""

    @Interface.supported(os_family=["Windows"])
    def addgroup(self, name: str, group: str) -> bool:
        """Add a user to a group."""
        return False

    @Interface.supported(kernel=["Linux", "NetBSD", "OpenBSD"])
    def chother(self, name: str, other: Any) -> bool:
        """Change the other fields of the full name."""
        return False

    @Interface.supported(os_family=["Windows"])
    def chprofile(self, name: str, profile: Any) -> bool:
        """Change the profile folder."""
        return False

    @Interface.supported(os_family=["Windows"])
    def current(self, sam: bool = False) -> str:
        """The user that runs the minion."""
        return ""

    @Interface.supported(os=["MacOS"])
    def disable_auto_login(self) -> bool:
        """Disable the automatic login."""
        return False

    @Interface.supported(os=["MacOS"])
    def enable_auto_login(self, name: str, password: str) -> bool:
        """Enable the automatic login of a user."""
        return False

    @Interface.supported(os_family=["Windows"])
    def getUserSid(self, username: str) -> str:
        """The same as `get_user_sid`."""
        return ""

    @Interface.supported(os=["MacOS"])
    def get_auto_login(self) -> str | bool:
        """The user of the automatic login."""
        return ""

    @Interface.supported(os_family=["Windows"])
    def get_user_sid(self, username: str) -> str:
        """The security identifier of a user."""
        return ""

    @Interface.supported(os_family=["Windows"])
    def removegroup(self, name: str, group: str) -> bool:
        """Remove a user from a group."""
        return False

    @Interface.supported(os_family=["Windows"])
    def setpassword(self, name: str, password: str) -> bool:
        """Set the password."""
        return False

    @Interface.supported(os_family=["Windows"])
    def update(
        self, name: str, password: str | None = None, fullname: Any = None, description: Any = None, home: Any = None
    ) -> bool | str:
        """Change the properties of a user."""
        return False
