"""The port between drivers and the program that runs them, and what drivers declare about themselves."""

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
    """The program, as drivers reach it."""

    @property
    def opts(self) -> Mapping[str, Any]:
        """The configuration, `__opts__` of drivers."""
        ...

    def capabilities(self, driver: str) -> Capabilities:
        """What the driver of this name declares."""
        ...

    def fire(self, tag: str, data: Mapping[str, Any]) -> None:
        """Fire an event `salt/cloud/<machine>/<what>`, redacted."""
        ...

    def made(self, machine: str, identity: str) -> None:
        """Journal the provider's id of a machine that it made. Raises SaltliteError if that fails."""
        ...

    def refused(self, machine: str) -> None:
        """Journal that the provider made no machine of this name."""
        ...

    def bootstrap(self, vm_: dict[str, Any], opts: Mapping[str, Any]) -> dict[str, Any]:
        """Make the machine a minion: fire `deploying`, log in, deploy. Raises SaltCloudException."""
        ...

    def retire(self, vm_: dict[str, Any], opts: Mapping[str, Any]) -> tuple[str, ...]:
        """Undo `bootstrap` on a machine that stays; sentences about what remains.

        Raises SaltCloudException if the login fails.
        """
        ...

    def conceal(self, secret: str) -> None:
        """Redact this text from events, logs and messages from now on."""
        ...

    def script(self, vm_: Mapping[str, Any]) -> str:
        """The text of the deploy script: of the setting `script`, or the built-in one.

        Raises SaltCloudConfigError for an unknown script.
        """
        ...

    def remember(self, provider: str, machines: Mapping[str, Mapping[str, Any]]) -> None:
        """Cache these machines of `alias:driver`."""
        ...

    def forget(self, provider: str, machine: str) -> None:
        """Drop a machine of `alias:driver` from the cache."""
        ...

    def lacks(self, what: str, missing: Sequence[str]) -> None:
        """Record the missing settings of a provider (`alias:driver`) or profile, for a message."""
        ...

    def progress(self, machine: str, text: str) -> None:
        """Show progress, such as `waits for ssh`."""
        ...


_now: ContextVar[Cloud | None] = ContextVar("cloud", default=None)


@contextlib.contextmanager
def running(program: Cloud) -> Iterator[None]:
    """A block in which drivers reach this program, in this thread only."""
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
    """Record missing settings; does nothing outside of a call of a driver."""
    program = _now.get()
    if program is not None:
        program.lacks(what, missing)


def capabilities_of(driver: str) -> Capabilities:
    """What the driver of this name declares; the defaults outside of a call of a driver."""
    program = _now.get()
    return Capabilities() if program is None else program.capabilities(driver)
