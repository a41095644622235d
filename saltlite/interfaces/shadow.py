"""`shadow`: passwords and their expiry."""

from __future__ import annotations

from typing import Any, TypedDict

from saltlite.interfaces import Interface


class ShadowInfo(TypedDict):
    """Properties of a password on every platform."""

    name: str
    passwd: str


class ShadowInterface(Interface):
    """Passwords and their expiry."""

    __modulename__ = "shadow"
    __version__ = "1.0"

    @Interface.supported(os_family=["Solaris", "Windows"], os=["MacOS"], kernel=["Linux"])
    def info(self, name: str) -> ShadowInfo | dict[str, Any]:
        """The properties of the password of a user."""
        return {}

    @Interface.supported(os_family=["Solaris", "Windows"], os=["MacOS"], kernel=["Linux"])
    def set_password(self, name: str, password: str) -> bool:
        """Set the password, as a hash if the platform stores hashes."""
        return False

    @Interface.supported(os_family=["Solaris"], os=["MacOS"], kernel=["Linux"])
    def del_password(self, name: str) -> bool:
        """Let the user log in without a password."""
        return False

    @Interface.supported(os_family=["Windows"], os=["MacOS"], kernel=["Linux"])
    def set_expire(self, name: str, expire: int | str) -> bool:
        """Set the expiry date of the account."""
        return False

    @Interface.supported(os_family=["Solaris"], os=["MacOS"], kernel=["Linux"])
    def set_maxdays(self, name: str, maxdays: int) -> bool:
        """Set the days after which the password must be changed."""
        return False

    @Interface.supported(os_family=["Solaris"], os=["MacOS"], kernel=["Linux"])
    def set_mindays(self, name: str, mindays: int) -> bool:
        """Set the days before which the password cannot be changed."""
        return False

    @Interface.supported(os_family=["Solaris"], os=["MacOS"], kernel=["Linux"])
    def set_warndays(self, name: str, warndays: int) -> bool:
        """Set the days of warning before the expiry."""
        return False

    @Interface.supported(os_family=["Solaris"], kernel=["Linux"])
    def default_hash(self) -> str:
        """The hash of a missing password."""
        return ""

    @Interface.supported(os_family=["Solaris"], kernel=["Linux"])
    def gen_password(self, password: str, crypt_salt: Any = None, algorithm: str = "sha512") -> str:
        """The hash of a password."""
        return ""

    @Interface.supported(os=["MacOS"], kernel=["Linux"])
    def set_inactdays(self, name: str, inactdays: int) -> bool:
        """Set the days for which an expired password still works."""
        return False

    @Interface.supported(os=["MacOS"])
    def get_account_created(self, name: str) -> str:
        """The creation time of the account."""
        return ""

    @Interface.supported(os=["MacOS"])
    def get_change(self, name: str) -> str:
        """The date when the password must be changed."""
        return ""

    @Interface.supported(os=["MacOS"])
    def get_expire(self, name: str) -> str:
        """The expiry date of the account."""
        return ""

    @Interface.supported(os=["MacOS"])
    def get_last_change(self, name: str) -> str:
        """The time of the last change of the password."""
        return ""

    @Interface.supported(os=["MacOS"])
    def get_login_failed_count(self, name: str) -> str:
        """The number of failed logins."""
        return ""

    @Interface.supported(os=["MacOS"])
    def get_login_failed_last(self, name: str) -> str:
        """The time of the last failed login."""
        return ""

    @Interface.supported(os=["MacOS"])
    def get_maxdays(self, name: str) -> int:
        """The days after which the password must be changed."""
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
        """The number of failed logins."""
        return 0

    @Interface.supported(os_family=["Windows"])
    def require_password_change(self, name: str) -> bool:
        """Require a new password at the next login."""
        return False

    @Interface.supported(os=["MacOS"])
    def set_change(self, name: str, date: Any) -> bool:
        """Set the date when the password must be changed."""
        return False

    @Interface.supported(kernel=["Linux"])
    def set_date(self, name: str, date: Any) -> bool | None:
        """Set the day of the last change of the password."""
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
