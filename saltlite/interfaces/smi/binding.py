"""What callers of a virtual module get: the provider's functions, and in front of them what the interface asks for.

    standing          call
    implemented       the function; with `enforce` behind the interface's signature, its return looked at
    deprecated        the function; the caller is told that it is no part of the interface
    not_applicable    the default structure
    not_implemented   raises InterfaceNotImplemented
    not_supported     raises InterfaceNotSupported

Where there is nothing to adapt and nothing to check the function itself is handed out.
"""

from __future__ import annotations

import functools
import inspect
import logging
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any

from saltlite.decorators.notes import note
from saltlite.errors import (
    InterfaceError,
    InterfaceNotImplemented,
    InterfaceNotSupported,
    InterfaceReturnError,
)
from saltlite.interfaces.smi.adapting import adapted
from saltlite.interfaces.smi.contract import Contract, Declared
from saltlite.interfaces.smi.schema import Mismatch, Schema, mismatches_of
from saltlite.interfaces.smi.standing import SHADOWED, Standing, State, standing_of

log = logging.getLogger(__name__)

Function = Callable[..., Any]


class Mode(StrEnum):
    """Option `smi_mode`: what is made of the signatures of interfaces."""

    OFF = "off"  # interfaces are not looked at at all
    OBSERVE = "observe"  # differences are reported
    ENFORCE = "enforce"  # calls are put into the provider's words


class Returns(StrEnum):
    """Option `smi_returns`: what becomes of a return that lacks what the interface promises."""

    OFF = "off"  # not looked at
    LOG = "log"  # one warning for each place
    FILL = "fill"  # what lacks is taken from the default structure
    STRICT = "strict"  # the call fails


class Binding:
    """One virtual module on one machine. `grains` are read at each question, so that a refresh shows.

    `counted` is told the name of a function that is no part of the interface, each time that it is called, and says
    whether that is worth a line in the log.
    """

    def __init__(
        self,
        contract: Contract,
        provider: str,
        grains: Mapping[str, Any],
        *,
        mode: Mode,
        returns: Returns,
        counted: Callable[[str], bool],
    ) -> None:
        self.contract = contract
        self.provider = provider
        self._grains = grains
        self._mode = mode
        self._returns = returns
        self._counted = counted
        self._told: set[tuple[str, str]] = set()

    def standing(self, fun: str, *, present: bool) -> Standing | None:
        """How the function stands; None when there is none of that name."""
        return standing_of(self.contract.functions.get(fun), present, self._grains)

    def bound(self, fun: str, real: Function | None, lacking: str = "") -> Function | None:
        """What a caller of `module.fun` gets. `real` is the provider's; `lacking` is what `depends` misses for it."""
        standing = self.standing(fun, present=real is not None)
        declared = self.contract.functions.get(fun)
        if standing is None:
            return None
        if declared is None:
            return None if real is None else self._warned(fun, real)
        if standing.state is State.NOT_APPLICABLE:
            return self._idle(fun, declared, standing)
        if real is None:
            return self._stub(fun, declared, standing.state, lacking)
        if self._mode is Mode.ENFORCE:
            who = f"'{self.contract.name}.{fun}': {self.provider}"
            real = adapted(real, declared.signature, who, self._details(fun, State.NOT_IMPLEMENTED))
        return real if self._returns is Returns.OFF else self._checked(fun, declared, real)

    def _warned(self, fun: str, real: Function) -> Function:
        sentence = f"'{self.contract.name}.{fun}' is no part of the {self.contract.title}, and may be removed one day."

        @functools.wraps(real)
        def call(*args: Any, **kwargs: Any) -> Any:
            note(sentence)
            if self._counted(fun):
                log.warning("%s", sentence)
            return real(*args, **kwargs)

        return call

    def _idle(self, fun: str, declared: Declared, standing: Standing) -> Function:
        name = f"{self.contract.name}.{fun}"
        if standing.note == SHADOWED:
            log.warning("%s is not applicable here, so %s's function is not called.", name, self.provider)

        def call(*_args: Any, **_kwargs: Any) -> Any:
            log.debug("%s is not applicable here: its default structure is returned.", name)
            return declared.default()

        call.__signature__ = declared.signature  # type: ignore[attr-defined]  # what inspect.signature reads
        return _described(call, fun, declared)

    def _stub(self, fun: str, declared: Declared, state: State, lacking: str) -> Function:
        text, kind = self._refusal(fun, declared, state, lacking)
        details = self._details(fun, state)

        def call(*_args: Any, **_kwargs: Any) -> Any:
            raise kind(text, details)

        return _described(call, fun, declared)

    def _refusal(self, fun: str, declared: Declared, state: State, lacking: str) -> tuple[str, type[InterfaceError]]:
        name, title = f"'{self.contract.name}.{fun}'", self.contract.title
        if state is State.NOT_SUPPORTED and declared.supported is not None:
            place = next(
                (self._grains[grain] for grain in ("os", "os_family", "kernel") if self._grains.get(grain)), ""
            )
            here = place or "this minion"
            return (
                f"{name} is not supported on {here} ({title} supports: {declared.supported.text()}).",
                InterfaceNotSupported,
            )
        needs = f": it needs {lacking}" if lacking else ""
        return f"{name} is not implemented by {self.provider} ({title}){needs}.", InterfaceNotImplemented

    def _details(self, fun: str, state: State) -> dict[str, str]:
        return {
            "status": str(state),
            "interface": self.contract.name,
            "version": self.contract.version,
            "provider": self.provider,
            "function": fun,
        }

    def _checked(self, fun: str, declared: Declared, real: Function) -> Function:
        schema = declared.schema
        if type(schema) is Schema or inspect.isgeneratorfunction(real) or inspect.isasyncgenfunction(real):
            return real
        fits = schema.fits

        if inspect.iscoroutinefunction(real):

            @functools.wraps(real)
            async def call_async(*args: Any, **kwargs: Any) -> Any:
                value = await real(*args, **kwargs)
                return value if fits(value) else self._amiss(fun, declared, value)

            return call_async

        @functools.wraps(real)
        def call(*args: Any, **kwargs: Any) -> Any:
            value = real(*args, **kwargs)
            return value if fits(value) else self._amiss(fun, declared, value)

        return call

    def _amiss(self, fun: str, declared: Declared, value: Any) -> Any:
        """What the caller gets for a return that does not fit."""
        found = mismatches_of(declared.schema, value)
        if self._returns is Returns.STRICT:
            what = "; ".join(one.text() for one in found[:3])
            text = (
                f"'{self.contract.name}.{fun}' of {self.provider} breaks the {self.contract.title}: it returned {what}."
            )
            raise InterfaceReturnError(text, self._details(fun, State.IMPLEMENTED))
        self._tell(fun, found)
        return declared.schema.filled(value, declared.default()) if self._returns is Returns.FILL else value

    def _tell(self, fun: str, found: list[Mismatch]) -> None:
        for one in found:
            if (fun, one.path) not in self._told:
                self._told.add((fun, one.path))
                log.warning(
                    "%s.%s of %s breaks the %s: it returned %s.",
                    self.contract.name, fun, self.provider, self.contract.title, one.text(),
                )  # fmt: skip


def _described(call: Function, fun: str, declared: Declared) -> Function:
    call.__name__ = fun
    call.__doc__ = declared.doc
    return call
