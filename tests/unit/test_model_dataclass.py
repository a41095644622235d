"""`saltlite.model.dataclass` makes what the standard decorator makes."""

from __future__ import annotations

import copy
import dataclasses
import importlib
import inspect
import pickle
import pkgutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import FrozenInstanceError, field, replace
from typing import Any

import pytest

import saltlite
from saltlite.model import dataclass as own

FORMS: list[dict[str, Any]] = [
    {"frozen": True},
    {},
    {"eq": False},
    {"frozen": True, "eq": False},
    {"frozen": True, "kw_only": True},
]
CALLS: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((), {}),
    ((1,), {}),
    ((1, 2), {}),
    ((1, 2, 3, 4), {}),
    *(((), {name: 1}) for name in ("first", "given", "other", "value", "unknown")),
]
SKIPPED = ("saltlite.plugins", "saltlite.cloud.drivers", "saltlite.resources.types", "saltlite.__main__")
"""Plug-ins are not imported as modules of the package."""


def shapes() -> list[type]:
    """Classes to decorate; a new set each time."""

    class Plain:
        """Has a docstring."""

        first: int
        second: str = "two"

    class Made:
        names: list[str] = field(default_factory=list)
        hidden: str = field(default="secret", repr=False)
        apart: int = field(default=0, compare=False)

    class Later:
        given: int
        counted: int = field(default=7, init=False)
        made: list[int] = field(default_factory=list, init=False)

        def __post_init__(self) -> None:
            self.made.append(self.given)

    class Own:
        value: int = 0

        def __eq__(self, other: object) -> bool:
            return True

        __hash__ = None  # type: ignore[assignment]  # as Python itself does, and as the linter wants it

        def __repr__(self) -> str:
            return "own"

    class OwnHash:
        value: int = 0

        def __hash__(self) -> int:
            return 5

    class Empty:
        pass

    class NamedSelf:
        other: int
        name: int = 1

    return [Plain, Made, Later, Own, OwnHash, Empty, NamedSelf]


def decorated(form: dict[str, Any], shape: int) -> tuple[Any, Any]:
    """(the standard class, our class)."""
    standard: Any = dataclasses.dataclass(slots=True, **form)(shapes()[shape])
    return standard, own.dataclass(slots=True, **form)(shapes()[shape])


def outcome(work: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """What it returns, or the class and the text of its error."""
    try:
        return work(*args, **kwargs)
    except Exception as error:  # noqa: BLE001 - whatever the standard class raises is expected of ours
        return type(error), str(error)


def seen(made: Any, again: Any) -> dict[str, Any]:
    """What a user can see of a value, and of one with the same fields."""
    names = [one.name for one in dataclasses.fields(made)]
    return {
        "repr": repr(made),
        "equal": (made == again, made != again, made == 5, made == copy.copy(made)),
        "hash": outcome(lambda: hash(made) == hash(again)),
        "values": dataclasses.asdict(made),
        "copies": [dataclasses.astuple(copy.copy(made)), dataclasses.astuple(copy.deepcopy(made))],
        "replaced": outcome(lambda: dataclasses.astuple(replace(made))),
        "set": [outcome(setattr, made, name, 9) for name in names],
        "deleted": [outcome(delattr, made, name) for name in names],
    }


@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize("shape", range(len(shapes())), ids=lambda number: shapes()[number].__name__)
def test_a_class_behaves_as_the_standard_one(form: dict[str, Any], shape: int) -> None:
    standard, ours = decorated(form, shape)
    assert standard.__match_args__ == ours.__match_args__
    assert standard.__slots__ == ours.__slots__
    for args, kwargs in CALLS:
        expected, made = outcome(standard, *args, **kwargs), outcome(ours, *args, **kwargs)
        if isinstance(expected, tuple):
            assert made == expected
        else:
            assert seen(made, ours(*args, **kwargs)) == seen(expected, standard(*args, **kwargs))


@own.dataclass(frozen=True, slots=True)
class Point:
    """At the top of a module, so that pickle finds it."""

    x: int
    y: int = 0


class Marked(Point):
    """An ordinary subclass, which may have further attributes."""


@own.dataclass(slots=True)
class Loop:
    inner: Any = None


def test_a_frozen_class_travels_through_pickle() -> None:
    assert pickle.loads(pickle.dumps(Point(1, 2))) == Point(1, 2)  # noqa: S301 - our own bytes


def test_a_subclass_may_have_further_attributes_and_its_fields_stay_frozen() -> None:
    marked = Marked(1)
    marked.mark = True  # type: ignore[attr-defined]  # the point of the test
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'x'"):
        marked.x = 2  # type: ignore[misc]  # as above
    assert marked != Point(1)


def test_a_value_that_contains_itself_has_a_repr() -> None:
    loop = Loop()
    loop.inner = loop
    assert repr(loop) == "Loop(inner=...)"


def test_a_class_without_slots_is_refused() -> None:
    with pytest.raises(TypeError, match="without slots"):
        own.dataclass(slots=False)


def test_nothing_is_compiled_before_the_first_use() -> None:
    program = (
        "import builtins\n"
        "import saltlite.model.dataclass as own\n"
        # Python 3.13 compiles a text without methods.
        "real = exec\n"
        "def refuse(text, *names):\n"
        "    if 'self' in text: raise SystemExit('compiled')\n"
        "    real(text, *names)\n"
        "builtins.exec = refuse\n"
        "@own.dataclass(frozen=True, slots=True)\n"
        "class C:\n"
        "    x: int = 0\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def parameters_of(cls: type) -> list[tuple[str, Any, bool]]:
    """Name, kind and whether there is a default, of each parameter of a class."""
    found = inspect.signature(vars(cls)["__init__"]).parameters.values()
    return [(one.name, one.kind, one.default is not one.empty) for one in found]


def ordinary_of(cls: type[Any]) -> type:
    """A class of the standard library with the same fields."""
    names = ("default", "default_factory", "init", "kw_only")
    found = dataclasses.fields(cls)
    return dataclasses.make_dataclass(
        cls.__name__, [(one.name, Any, field(**{name: getattr(one, name) for name in names})) for one in found]
    )


def classes_of_the_product() -> Iterator[type]:
    """Those that our decorator made."""
    for found in pkgutil.walk_packages(saltlite.__path__, "saltlite."):
        if not found.name.startswith(SKIPPED):
            values = list(vars(importlib.import_module(found.name)).values())
            classes = [one for one in values if isinstance(one, type) and one.__module__ == found.name]
            yield from (one for one in classes if vars(one).get("__repr__") is own._repr)


def test_each_class_of_the_product_has_the_parameters_of_the_standard_one() -> None:
    """The order of the fields is checked when the method is compiled, which is late."""
    checked = 0
    for cls in classes_of_the_product():
        outcome(cls, no_such_parameter_=1)
        assert parameters_of(cls) == parameters_of(ordinary_of(cls)), cls
        checked += 1
    assert checked > 50
