"""`__init__(opts)` and `__virtual__`: under which names a module is offered, if at all.

    __virtual__ returns    __virtualname__   the module answers to
    (there is none)        any               its file name
    (there is none)        an interface      the name that the interface describes
    an interface           unset             the name that the interface describes
    True                   unset             its file name
    True                   "x"               "x"
    "x"                    unset or "x"      "x"
    "x"                    "y"               "y", and a warning
    False, (False, why)                      nothing, with the reason
    None or falsy                            nothing, and a warning
    (True, …)                                as for True
    raises                                   nothing, with the exception

The names of `__virtual_aliases__` come on top.
"""

from __future__ import annotations

import logging
from types import ModuleType
from typing import Any

from saltlite.interfaces.smi.declare import Interface, interface_in, virtual_name
from saltlite.loader.deadline import DeadlineError, load_deadline
from saltlite.loader.failure import Failure, FailureKind, failure_of
from saltlite.loader.finder import ModuleFile

log = logging.getLogger(__name__)


def initialise(module: ModuleType, file: ModuleFile) -> Failure | None:
    """Call the module's `__init__(opts)` if it has one."""
    start = module.__dict__.get("__init__")
    if not callable(start):
        return None
    try:
        with load_deadline():
            start(module.__dict__["__opts__"])
    except KeyboardInterrupt:
        raise
    except DeadlineError as error:
        return failure_of(FailureKind.NOT_LOADED, error, file.path, "__init__: ")
    except BaseException as error:  # noqa: BLE001 - supervision point: a module never stops the minion
        return failure_of(FailureKind.NOT_LOADED, error, file.path, "__init__ raised ")
    return None


def names_of(module: ModuleType, file: ModuleFile) -> tuple[str, ...] | Failure:
    """The names that the module answers to, from its `__virtual__`; the first one is its main name."""
    virtual = getattr(module, "__virtual__", None)
    if virtual is None:
        interface = own_interface(module)
        return _with_aliases(module, virtual_name(interface) if interface else file.stem)
    try:
        with load_deadline():
            answer = virtual()
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - supervision point: a module never stops the minion
        prefix = "Exception raised when processing __virtual__: "
        return failure_of(FailureKind.REFUSED, error, file.path, prefix)
    return _judge(module, file, answer)


def _judge(module: ModuleType, file: ModuleFile, answer: Any) -> tuple[str, ...] | Failure:
    reason = ""
    if isinstance(answer, tuple) and answer:
        reason = str(answer[1]) if len(answer) > 1 else ""
        answer = answer[0]
    if not answer:
        if answer is not False:
            reason = f"it returned {answer!r} in place of True, False or a name"
            log.warning("%s: __virtual__ %s.", file.path, reason)
        return Failure(FailureKind.REFUSED, reason, file.path)
    declared = getattr(module, "__virtualname__", None)
    answered = interface_in(answer)
    if answered is not None:
        module.__dict__.setdefault("__interface__", answered)
        answer = virtual_name(answered)
    if interface := interface_in(declared):
        declared = virtual_name(interface)
    if isinstance(declared, str) and declared:
        if isinstance(answer, str) and answer != declared:
            log.warning(
                "%s: __virtual__ returned %r, and __virtualname__ is %r; the module is offered as %r.",
                file.path,
                answer,
                declared,
                declared,
            )
        return _with_aliases(module, declared)
    return _with_aliases(module, answer if isinstance(answer, str) else file.stem)


def own_interface(module: ModuleType) -> type[Interface] | None:
    """The interface that the module brings itself: in `__virtualname__`, from `__virtual__`, or as `__interface__`."""
    space = module.__dict__
    return interface_in(space.get("__virtualname__")) or interface_in(space.get("__interface__"))


def _with_aliases(module: ModuleType, name: str) -> tuple[str, ...]:
    aliases = getattr(module, "__virtual_aliases__", ())
    more = [str(alias) for alias in aliases] if isinstance(aliases, list | tuple) else []
    return (name, *more)
