"""One host of the pillar, checked: what reaches the command line of ssh is made here and nowhere else."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from saltlite.errors import CommandExecutionError

TIMEOUT_S = 30.0
PACKAGES_TIMEOUT_S = 600.0
"""How long a command about packages may take, when the caller does not say."""
TIMEOUT_MAX_S = 86_400.0
SECRET_MAX = 1000
"""Bytes of a password in UTF-8; ssh itself reads no more than 1023."""

_HOST = re.compile(r"[A-Za-z0-9_.:][A-Za-z0-9_.:%-]{0,254}", re.ASCII)
# What ssh and the shells of both sides read otherwise than as a name stays out; the rest is the other side's business.
_USER = re.compile(r"[^\s\x00-\x20\x7f\-'\"`$;&<>|(){}*?!\\][^\s\x00-\x20\x7f'\"`$;&<>|(){}*?!]{0,254}")
_PATH = re.compile(r"[/~][^\x00-\x1f\x7f\"]{0,4095}")
_OPTION = re.compile(r"[A-Za-z0-9]+(?: *= *| +)[^\x00-\x1f\x7f]+", re.ASCII)
_CHECKS = {"accept_new_host_keys": "accept-new", "ignore_host_keys": "no", "no_host_keys": "no"}
"""Option of the pillar -> StrictHostKeyChecking; without any of them, only known keys are accepted."""


@dataclass(frozen=True, slots=True)
class Host:
    """Where a resource is and how one gets there; times are seconds. Secrets are not shown."""

    resource_id: str
    host: str
    user: str = "root"
    port: int = 22
    priv: str | None = None
    priv_passwd: str | None = field(default=None, repr=False)
    passwd: str | None = field(default=None, repr=False)
    sudo: bool = False
    tty: bool = False
    timeout: float = TIMEOUT_S
    identities_only: bool = False
    use_auth_sock: bool = False
    accept_new_host_keys: bool = False
    ignore_host_keys: bool = False
    no_host_keys: bool = False
    known_hosts_file: str | None = None
    ssh_options: tuple[str, ...] = ()
    keepalive: bool = True
    keepalive_interval: int = 60
    keepalive_count_max: int = 3

    @property
    def place(self) -> str:
        """Where it is, for sentences."""
        return f"{self.user}@{self.host} port {self.port}"

    @property
    def has_secret(self) -> bool:
        """Whether ssh will ask something."""
        return self.passwd is not None or self.priv_passwd is not None

    @property
    def host_key_checking(self) -> str:
        """The value of StrictHostKeyChecking: `yes` unless the pillar names something else."""
        return next((check for name, check in _CHECKS.items() if getattr(self, name)), "yes")


_FIELDS = tuple(name for name in Host.__dataclass_fields__ if name != "resource_id")
_BOOLEANS = ("sudo", "tty", "identities_only", "use_auth_sock", *_CHECKS, "keepalive")
_NUMBERS = {"port": 65_535, "keepalive_interval": 86_400, "keepalive_count_max": 1000}


def host_of(resource_id: str, pillar: object) -> Host:
    """The host that the pillar describes under this id. Raises CommandExecutionError that names what is wrong."""
    where = f"Pillar of ssh, host {resource_id!r}:"
    if not isinstance(pillar, Mapping):
        raise CommandExecutionError(f"{where} it must be a mapping with at least `host`.")
    unknown = [name for name in pillar if name not in _FIELDS]
    if unknown:
        raise CommandExecutionError(f"{where} {unknown[0]!r} is not known; it may have {', '.join(_FIELDS)}.")
    given: dict[str, Any] = {name: value for name, value in pillar.items() if value is not None}
    if "host" not in given:
        raise CommandExecutionError(f"{where} `host` is missing: the name or address to connect to.")
    for name, value in given.items():
        problem = problem_of(name, value)
        if problem:
            raise CommandExecutionError(f"{where} {name} {problem}.")
    if sum(bool(given.get(name)) for name in _CHECKS) > 1:
        raise CommandExecutionError(f"{where} only one of {', '.join(_CHECKS)} can be set.")
    given["ssh_options"] = tuple(given.get("ssh_options", ()))
    given["timeout"] = float(given.get("timeout", TIMEOUT_S))
    return Host(resource_id, **given)


def check_user(name: object) -> str:
    """A user's name that is one to ssh, sudo and su. Raises CommandExecutionError."""
    if isinstance(name, str) and _USER.fullmatch(name):
        return name
    raise CommandExecutionError(f"{name!r} is not the name of a user.")


def problem_of(name: str, value: Any) -> str | None:  # noqa: C901, PLR0911, PLR0912, RUF100 - one case a kind of option
    """What is wrong with the value of an option, or None. The values of secrets are not repeated."""
    match name:
        case "host":
            return None if _matches(_HOST, value) else f"is {value!r}, which is no host name and no address"
        case "user":
            return None if _matches(_USER, value) else f"is {value!r}, which is no name of a user"
        case "passwd" | "priv_passwd":
            right = isinstance(value, str) and value.isprintable() and 0 < len(value.encode()) <= SECRET_MAX
            return None if right else f"must be text of 1 to {SECRET_MAX} bytes in one line; put it in quotes"
        case "priv" | "known_hosts_file":
            return None if _matches(_PATH, value) else f"is {value!r}; it must be an absolute path, or begin with ~"
        case "ssh_options":
            right = isinstance(value, Sequence) and not isinstance(value, str)
            wrong = [each for each in value if not _matches(_OPTION, each)] if right else [value]
            return f"has {wrong[0]!r}; each must be text like Name=value" if wrong else None
        case "timeout":
            right = not isinstance(value, bool) and isinstance(value, int | float) and 0 < value <= TIMEOUT_MAX_S
            return None if right else f"is {value!r}; it must be seconds, up to {TIMEOUT_MAX_S:g}"
        case _ if name in _BOOLEANS:
            return None if isinstance(value, bool) else f"is {value!r}; it must be True or False"
        case _:
            right = isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= _NUMBERS[name]
            return None if right else f"is {value!r}; it must be a whole number from 1 to {_NUMBERS[name]}"


def _matches(pattern: re.Pattern[str], value: object) -> bool:
    return isinstance(value, str) and pattern.fullmatch(value) is not None
