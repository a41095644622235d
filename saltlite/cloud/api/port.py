"""What stands behind the functions that drivers call: the program that runs them, set for as long as it does."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Protocol

from saltlite.cloud.api.exceptions import SaltCloudSystemExit


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a driver declares about its provider, as `CAPABILITIES` in its file; without it, the defaults hold."""

    needs_image: bool = True
    """A profile must name an image."""
    needs_size: bool = True
    """A profile must name a size."""
    has_login: bool = True
    """The provider is logged in to: its `password` is never offered to machines."""
    lists_at_once: bool = False
    """A machine that the driver does not list does not exist, from the moment that it was made."""
    finds_master: bool = False
    """Its machines reach the master without a configured address."""
    deploys_itself: bool = False
    """It reads the settings of a deployment itself, before it makes anything."""


class Cloud(Protocol):
    """The program that runs drivers, as they reach it."""

    @property
    def opts(self) -> Mapping[str, Any]:
        """The configuration, which drivers know as `__opts__`."""
        ...

    def capabilities(self, driver: str) -> Capabilities:
        """What the driver of this name declares."""
        ...

    def fire(self, tag: str, data: Mapping[str, Any]) -> None:
        """Tell the master's watchers, as `salt/cloud/<machine>/<tag>` or under a whole tag; redacted on the way."""
        ...

    def made(self, machine: str, identity: str) -> None:
        """The provider has made this machine, and calls it so. Raises SaltliteError when that cannot be kept."""
        ...

    def refused(self, machine: str) -> None:
        """The provider has made nothing of what was asked for under this name."""
        ...

    def bootstrap(self, vm_: dict[str, Any], opts: Mapping[str, Any]) -> dict[str, Any]:
        """Make the machine a minion: fires `deploying`, logs in, deploys; what it did.

        Raises SaltCloudException for everything that keeps it from being one.
        """
        ...

    def retire(self, vm_: dict[str, Any], opts: Mapping[str, Any]) -> tuple[str, ...]:
        """Take back what `bootstrap` made on a machine that stays; what could not be taken back, for a person.

        Raises SaltCloudException when nobody can log in there.
        """
        ...

    def conceal(self, secret: str) -> None:
        """Let this text appear in no event, log line or message from now on."""
        ...

    def script(self, vm_: Mapping[str, Any]) -> str:
        """The text of the program that makes this machine a minion: its setting `script`, or what comes with saltlite.

        Raises SaltCloudConfigError for a name of none.
        """
        ...

    def remember(self, provider: str, machines: Mapping[str, Mapping[str, Any]]) -> None:
        """Keep in the cache what is known of these machines of `alias:driver`."""
        ...

    def forget(self, provider: str, machine: str) -> None:
        """Drop what the cache has of a machine of `alias:driver`."""
        ...

    def lacks(self, what: str, missing: Sequence[str]) -> None:
        """Note that a provider (`alias:driver`) or profile does not have these settings, to be told to a person."""
        ...

    def progress(self, machine: str, text: str) -> None:
        """Show a person what is done with this machine just now, such as `waits for ssh`."""
        ...


_now: ContextVar[Cloud | None] = ContextVar("cloud", default=None)


@contextlib.contextmanager
def running(program: Cloud) -> Iterator[None]:
    """Until the end of the block, and in this thread only, drivers reach this program."""
    token = _now.set(program)
    try:
        yield
    finally:
        _now.reset(token)


def cloud() -> Cloud:
    """The program that runs the driver. Raises SaltCloudSystemExit outside of a call of a driver."""
    program = _now.get()
    if program is None:
        raise SaltCloudSystemExit("this function is for drivers, while `saltlite cloud` runs one of their functions")
    return program


def note_lack(what: str, missing: Sequence[str]) -> None:
    """Tell the program that settings are missing; nothing outside of a call of a driver."""
    program = _now.get()
    if program is not None:
        program.lacks(what, missing)


def capabilities_of(driver: str) -> Capabilities:
    """What the driver of this name declares; the defaults outside of a call of a driver."""
    program = _now.get()
    return Capabilities() if program is None else program.capabilities(driver)
