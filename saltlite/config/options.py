"""One descriptor an option, declared on the field that holds its value.

Everything that is said about an option is said there, and the loader, the messages and the samples are made
from it: an option cannot be documented and not read, or read and not documented.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

from saltlite.config.kinds import FilePath, FilePaths, FileRoots, Kind
from saltlite.config.paths import DEFAULT_ROOT_DIR, default_under, given_under

T = TypeVar("T")

_METADATA_KEY = "saltlite.option"


@dataclass(frozen=True, slots=True)
class Option:
    """What is known about one option; `default` is the value before `root_dir` moves it."""

    name: str
    default: Any
    doc: str
    takes: Kind[Any]
    unit: str
    since: str
    secret: bool


def option(
    default: T,
    doc: str,
    takes: Kind[T],
    *,
    unit: str = "",
    since: str = "0.1",
    secret: bool = False,
) -> T:
    """A dataclass field that is an option. A secret is in no message and not in the `repr` of its class."""

    def fresh() -> T:
        return copy.deepcopy(default)

    described = {
        "default": default,
        "doc": doc,
        "takes": takes,
        "unit": unit,
        "since": since,
        "secret": secret,
    }
    # A field to the dataclass and a T to the type checker, as dataclasses.field itself is.
    return field(default_factory=fresh, repr=not secret, metadata={_METADATA_KEY: described})


def options_of(config_class: type[Any]) -> dict[str, Option]:
    """The options of a configuration class by name, in the order of their declaration."""
    return {
        one.name: Option(name=one.name, **one.metadata[_METADATA_KEY])
        for one in fields(config_class)
        if _METADATA_KEY in one.metadata
    }


def assemble(config_class: type[T], given: Mapping[str, Any]) -> T:
    """A configuration from the values that were given (fields of the class); the rest are defaults.

    This is where `root_dir` moves paths: default paths and given relative ones are below it, given absolute
    ones stay. The empty path means "none" and stays empty.
    """
    values = dict(given)
    root_dir = values.get("root_dir", DEFAULT_ROOT_DIR)
    for name, known in options_of(config_class).items():
        if name == "root_dir":
            continue
        if isinstance(known.takes, FilePath):
            moved = given_under(root_dir, values[name]) if name in values else None
            values[name] = default_under(root_dir, known.default) if moved is None else moved
        elif isinstance(known.takes, FilePaths):
            values[name] = [given_under(root_dir, path) for path in values.get(name, known.default)]
        elif isinstance(known.takes, FileRoots):
            move = given_under if name in values else default_under
            roots = values.get(name, known.default)
            values[name] = {env: [move(root_dir, path) for path in folders] for env, folders in roots.items()}
    return config_class(**values)
