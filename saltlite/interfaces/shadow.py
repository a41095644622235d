"""`shadow`: passwords and how long they last."""

from __future__ import annotations

from typing import Any, TypedDict

from saltlite.interfaces import Interface


class ShadowInfo(TypedDict):
    """What is known of a password on every platform."""

    name: str
    passwd: str


class ShadowInterface(Interface):
    """Passwords, and how long they last."""

    __modulename__ = "shadow"
    __version__ = "1.0"

    @Interface.supported(os_family=["Solaris", "Windows"], os=["MacOS"], kernel=["Linux"])
    def info(self, name: str) -> ShadowInfo | dict[str, Any]:
        """What is known of the password of a user."""
        return {}

    @Interface.supported(os_family=["Solaris", "Windows"], os=["MacOS"], kernel=["Linux"])
    def set_password(self, name: str, password: str) -> bool:
        """Set the password, by its hash where the platform keeps hashes."""
        return False

    @Interface.supported(os_family=["Solaris"], os=["MacOS"], kernel=["Linux"])
    def del_password(self, name: str) -> bool:
        """Let the user log in without a password."""
        return False

    @Interface.supported(os_family=["Windows"], os=["MacOS"], kernel=["Linux"])
    def set_expire(self, name: str, expire: int | str) -> bool:
        """When the account ends."""
        return False

    @Interface.supported(os_family=["Solaris"], os=["MacOS"], kernel=["Linux"])
    def set_maxdays(self, name: str, maxdays: int) -> bool:
        """After how many days the password has to be changed."""
        return False

    @Interface.supported(os_family=["Solaris"], os=["MacOS"], kernel=["Linux"])
    def set_mindays(self, name: str, mindays: int) -> bool:
        """After how many days the password may be changed."""
        return False

    @Interface.supported(os_family=["Solaris"], os=["MacOS"], kernel=["Linux"])
    def set_warndays(self, name: str, warndays: int) -> bool:
        """How many days before its end the user is warned."""
        return False

    @Interface.supported(os_family=["Solaris"], kernel=["Linux"])
    def default_hash(self) -> str:
        """The hash that stands for no password."""
        return ""

    @Interface.supported(os_family=["Solaris"], kernel=["Linux"])
    def gen_password(self, password: str, crypt_salt: Any = None, algorithm: str = "sha512") -> str:
        """The hash of a password."""
        return ""

    @Interface.supported(os=["MacOS"], kernel=["Linux"])
    def set_inactdays(self, name: str, inactdays: int) -> bool:
        """How many days after its end the password still works."""
        return False

    @Interface.supported(os=["MacOS"])
    def get_account_created(self, name: str) -> str:
        """When the account was made."""
        return ""

    @Interface.supported(os=["MacOS"])
    def get_change(self, name: str) -> str:
        """When the password has to be changed."""
        return ""

    @Interface.supported(os=["MacOS"])
    def get_expire(self, name: str) -> str:
        """When the account ends."""
        return ""

    @Interface.supported(os=["MacOS"])
    def get_last_change(self, name: str) -> str:
        """When the password was changed."""
        return ""

    @Interface.supported(os=["MacOS"])
    def get_login_failed_count(self, name: str) -> str:
        """How often a login failed."""
        return ""

    @Interface.supported(os=["MacOS"])
    def get_login_failed_last(self, name: str) -> str:
        """When a login failed last."""
        return ""

    @Interface.supported(os=["MacOS"])
    def get_maxdays(self, name: str) -> int:
        """After how many days the password has to be changed."""
        return 0

    @Interface.supported(kernel=["Linux"])
    def list_users(self) -> list[str]:
        """The users that have a password entry."""
        return []

    @Interface.supported(kernel=["Linux"])
    def lock_password(self, name: str) -> bool:
        """Lock the password."""
        return False

    @Interface.supported(kernel=["AIX"])
    def locked(self, user: str) -> bool:
        """Whether the account is locked."""
        return False

    @Interface.supported(kernel=["AIX"])
    def login_failures(self, user: str) -> int:
        """How often a login failed."""
        return 0

    @Interface.supported(os_family=["Windows"])
    def require_password_change(self, name: str) -> bool:
        """Ask for a new password at the next login."""
        return False

    @Interface.supported(os=["MacOS"])
    def set_change(self, name: str, date: Any) -> bool:
        """When the password has to be changed."""
        return False

    @Interface.supported(kernel=["Linux"])
    def set_date(self, name: str, date: Any) -> bool | None:
        """When the password was changed, as a day number."""
        return False

    @Interface.supported(kernel=["AIX"])
    def unlock(self, user: str) -> bool:
        """Unlock the account."""
        return False

    @Interface.supported(os_family=["Windows"])
    def unlock_account(self, name: str) -> bool:
        """Unlock the account."""
        return False

    @Interface.supported(kernel=["Linux"])
    def unlock_password(self, name: str) -> bool:
        """Unlock the password."""
        return False

    @Interface.supported(os_family=["Windows"])
    def verify_password(self, name: str, password: str) -> bool:
        """Whether this is the password of the user."""
        return False
