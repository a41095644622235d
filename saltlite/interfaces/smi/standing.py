"""How a function of a virtual module stands on one machine, by what its interface and its provider say.

    in the interface  in the provider  decorators                    state
    yes               yes              none, or supported matches    implemented
    yes               yes              supported, does not match     implemented, on a platform that is not declared
    yes               no               none, or supported matches    not implemented
    yes               no               supported, does not match     not supported
    yes               no               not_applicable matches        not applicable
    yes               yes              not_applicable matches        not applicable; the provider's is not called
    no                yes                                            deprecated
    no                no                                             (there is no such function)

`not_applicable` goes before `supported`. A function that `depends` took away is not in the provider; a fallback is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from saltlite.interfaces.smi.contract import Declared


class State(StrEnum):
    """What becomes of a call."""

    IMPLEMENTED = "implemented"  # the provider's function is called
    NOT_IMPLEMENTED = "not_implemented"  # it is missing, and should not be
    NOT_SUPPORTED = "not_supported"  # it is missing, and need not be here
    NOT_APPLICABLE = "not_applicable"  # there is nothing to do here: the default structure is returned
    DEPRECATED = "deprecated"  # the provider's function is called, and the caller warned


STUBS = frozenset({State.NOT_IMPLEMENTED, State.NOT_SUPPORTED})
"""States in which the function is there for the sake of its error only, and membership tests do not see it."""


@dataclass(frozen=True, slots=True)
class Standing:
    """The state of one function, and what a report says about it beside that."""

    state: State
    note: str = ""


UNDECLARED = "the interface does not name this platform"
SHADOWED = "the provider has a function, which is not called"


def standing_of(declared: Declared | None, present: bool, grains: Mapping[str, object]) -> Standing | None:
    """The row of the table. None when neither has the function."""
    if declared is None:
        return Standing(State.DEPRECATED) if present else None
    if declared.not_applicable is not None and declared.not_applicable.match(grains):
        return Standing(State.NOT_APPLICABLE, SHADOWED if present else "")
    elsewhere = declared.supported is not None and not declared.supported.match(grains)
    if present:
        return Standing(State.IMPLEMENTED, UNDECLARED if elsewhere else "")
    return Standing(State.NOT_SUPPORTED if elsewhere else State.NOT_IMPLEMENTED)
