"""The descriptors of options, each declared on the dataclass field of its value, and the kinds of values.

The loader, the messages and the sample files are all derived from the descriptors, so that every option is documented,
and every documented option is read.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Mapping
from dataclasses import field, fields
from typing import Any, Generic, Protocol, TypeVar

from saltlite.config.paths import DEFAULT_ROOT_DIR, default_under, given_under, require_path
from saltlite.config.values import is_bare_number, parse_duration, seconds_of_unit, spell_duration
from saltlite.config.written import Map, Scalar, Sequence, Written, resolve, value_of
from saltlite.errors import ConfigError, UsageError
from saltlite.model.dataclass import dataclass
from saltlite.model.files import EXAMPLE, checked_globs, known_type, parse_env
from saltlite.model.masters import PORT_MAX, parse_address

T = TypeVar("T")

_PLAIN = re.compile(r"[A-Za-z0-9_./][A-Za-z0-9_./-]*", re.ASCII)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


class MisfitError(ConfigError):
    """`written` is not a value of the option; `detail` is a more specific sentence than `wants()`."""

    def __init__(self, written: Written, detail: str = "") -> None:
        super().__init__(detail)
        self.written = written
        self.detail = detail


class OptionKind(Protocol[T]):
    """The values of an option."""

    def wants(self) -> str:
        """What the option takes: the end of a sentence with "takes"."""

    def read(self, written: Written) -> T:
        """The value in a file. Raises MisfitError."""

    def spell(self, value: T) -> str:
        """The value as one line of YAML, which `read` parses to the same value."""


def quote(text: str) -> str:
    """Text as a YAML scalar: plain if it parses to the same text, otherwise in single quotes."""
    if _PLAIN.fullmatch(text) and resolve(text) == text:
        return text
    doubled = text.replace("'", "''")
    return f"'{doubled}'"


def _text_of(written: Written) -> str:
    if not isinstance(written, Scalar):
        raise MisfitError(written)
    if not written.quoted and isinstance(resolve(written.text), bool | None):
        raise MisfitError(written, f"{written.text} is not text here; put it in quotes if it is meant as text")
    if _CONTROL.search(written.text):
        raise MisfitError(written, "it contains a line break or another control character")
    return written.text


@dataclass(frozen=True, slots=True)
class TextKind:
    """One line of text.

    `check` gives the normal form of a text that is not empty, or raises UsageError.
    """

    check: Callable[[str], str] | None = None
    required: bool = False

    def wants(self) -> str:
        return "text that is not empty" if self.required else "text"

    def read(self, written: Written) -> str:
        text = _text_of(written)
        if self.required and not text:
            raise MisfitError(written)
        if self.check is None or not text:
            return text
        try:
            return self.check(text)
        except UsageError as error:
            raise MisfitError(written, str(error)) from error

    def spell(self, value: str) -> str:
        return quote(value)


@dataclass(frozen=True, slots=True)
class Choice:
    """One of a few words."""

    words: tuple[str, ...]

    def wants(self) -> str:
        return f"one of {', '.join(self.words)}"

    def read(self, written: Written) -> str:
        if isinstance(written, Scalar) and written.text in self.words:
            return written.text
        raise MisfitError(written)

    def spell(self, value: str) -> str:
        return quote(value)


@dataclass(frozen=True, slots=True)
class FlagKind:
    """true or false; `yes`, `on` and `1` are not."""

    def wants(self) -> str:
        return "true or false"

    def read(self, written: Written) -> bool:
        value = value_of(written)
        if isinstance(value, bool):
            return value
        raise MisfitError(written)

    def spell(self, value: bool) -> str:
        return "true" if value else "false"


@dataclass(frozen=True, slots=True)
class IntegerKind:
    """A whole number."""

    minimum: int
    maximum: int

    def wants(self) -> str:
        return f"a whole number from {self.minimum} to {self.maximum}"

    def read(self, written: Written) -> int:
        value = value_of(written)
        if type(value) is int and self.minimum <= value <= self.maximum:
            return value
        raise MisfitError(written)

    def spell(self, value: int) -> str:
        return str(value)


@dataclass(frozen=True, slots=True)
class Duration:
    """A length of time, in seconds.

    `salt_unit` is the unit in which Salt counts the option of the same name, where that is not the second: `h` or `m`.
    A number without a unit is then refused below one such unit: `keep_jobs: 24` in a file written for Salt must not
    delete jobs after 24 seconds instead of a day.
    """

    minimum: float
    maximum: float
    salt_unit: str = ""

    def wants(self) -> str:
        low, high = spell_duration(self.minimum), spell_duration(self.maximum)
        seconds = "a number of seconds"
        if self.salt_unit:
            seconds += (
                f" (1{self.salt_unit} or more: below that a unit is needed, because Salt counts in {self._unit()})"
            )
        return f"a duration from {low} to {high}, as in 250ms, 30s, 5m, 1h, 2d or {seconds}"

    def read(self, written: Written) -> float:
        if not isinstance(written, Scalar):
            raise MisfitError(written)
        try:
            seconds = parse_duration(written.text)
        except UsageError as error:
            raise MisfitError(written) from error
        if not self.minimum <= seconds <= self.maximum:
            raise MisfitError(written)
        if self.salt_unit and is_bare_number(written.text) and 0 < seconds < seconds_of_unit(self.salt_unit):
            number = written.text
            raise MisfitError(
                written,
                f"{number} is {number} {self._unit()} in Salt and {number} seconds here: "
                f"write {number}{self.salt_unit} or {number}s",
            )
        return seconds

    def spell(self, value: float) -> str:
        return spell_duration(value)

    def _unit(self) -> str:
        return {"h": "hours", "m": "minutes"}[self.salt_unit]


@dataclass(frozen=True, slots=True)
class FilePath:
    """The path of a file or folder; `root_dir` moves it unless it is absolute."""

    may_be_empty: bool = False
    absolute: bool = False

    def wants(self) -> str:
        if self.may_be_empty:
            return "a path, or '' for none"
        return "an absolute path" if self.absolute else "a path"

    def read(self, written: Written) -> str:
        text = _text_of(written)
        if text.startswith("~"):
            raise MisfitError(written, f"{text[:80]!r} starts with '~', which is not expanded; write the whole path")
        try:
            require_path(text)
        except UsageError as error:
            raise MisfitError(written, str(error)) from error
        if not (text or self.may_be_empty) or (self.absolute and not text.startswith("/")):
            raise MisfitError(written)
        return text

    def spell(self, value: str) -> str:
        return quote(value)


def _items(written: Written) -> tuple[Written, ...]:
    if not isinstance(written, Sequence):
        raise MisfitError(written)
    return written.items


def _pairs(written: Written) -> tuple[tuple[Scalar, Written], ...]:
    if not isinstance(written, Map):
        raise MisfitError(written)
    return written.pairs


def _spell_list(values: list[str]) -> str:
    return f"[{', '.join(quote(value) for value in values)}]"


@dataclass(frozen=True, slots=True)
class FilePaths:
    """A list of paths, each moved as a FilePath is."""

    def wants(self) -> str:
        return "a list of paths"

    def read(self, written: Written) -> list[str]:
        return [FilePath().read(item) for item in _items(written)]

    def spell(self, value: list[str]) -> str:
        return _spell_list(value)


@dataclass(frozen=True, slots=True)
class FileRootsKind:
    """A map from environments to lists of folders, each moved as a FilePath is."""

    def wants(self) -> str:
        return "a map from environments to lists of folders"

    def read(self, written: Written) -> dict[str, list[str]]:
        env = TextKind(check=parse_env, required=True)
        return {env.read(key): FilePaths().read(value) for key, value in _pairs(written)}

    def spell(self, value: dict[str, list[str]]) -> str:
        return f"{{{', '.join(f'{quote(env)}: {_spell_list(folders)}' for env, folders in value.items())}}}"


@dataclass(frozen=True, slots=True)
class Texts:
    """A list of texts; with `or_text`, also a single text."""

    or_text: bool = False

    def wants(self) -> str:
        return "text or a list of texts" if self.or_text else "a list of texts"

    def read(self, written: Written) -> list[str]:
        if self.or_text and isinstance(written, Scalar):
            return [TextKind(required=True).read(written)]
        return [TextKind(required=True).read(item) for item in _items(written)]

    def spell(self, value: list[str]) -> str:
        return _spell_list(value)


@dataclass(frozen=True, slots=True)
class Addresses:
    """One `host[:port]` or a list of them; the value is always a list."""

    def wants(self) -> str:
        return "host[:port], or a list of them"

    def read(self, written: Written) -> list[str]:
        items = written.items if isinstance(written, Sequence) else (written,)
        if not items:
            raise MisfitError(written)
        return [TextKind(check=self._check, required=True).read(item) for item in items]

    def spell(self, value: list[str]) -> str:
        return quote(value[0]) if len(value) == 1 else _spell_list(value)

    @staticmethod
    def _check(text: str) -> str:
        parse_address(text, PORT_MAX)
        return text


@dataclass(frozen=True, slots=True)
class Networks:
    """A list of addresses and networks of IP."""

    def wants(self) -> str:
        return "a list of networks, such as 192.0.2.0/28"

    def read(self, written: Written) -> list[str]:
        return [TextKind(check=self._check, required=True).read(item) for item in _items(written)]

    def spell(self, value: list[str]) -> str:
        return _spell_list(value)

    @staticmethod
    def _check(text: str) -> str:
        from ipaddress import ip_network  # noqa: PLC0415 - few configurations have any

        try:
            return str(ip_network(text))
        except ValueError as error:
            raise UsageError(f"{text} is not an address or network of IP: {error}") from error


@dataclass(frozen=True, slots=True)
class TextOrTexts:
    """One text, or a list of texts, which stays a list."""

    def wants(self) -> str:
        return "text or a list of texts"

    def read(self, written: Written) -> str | list[str]:
        return TextKind(required=True).read(written) if isinstance(written, Scalar) else Texts().read(written)

    def spell(self, value: str | list[str]) -> str:
        return quote(value) if isinstance(value, str) else _spell_list(value)


@dataclass(frozen=True, slots=True)
class MapOf(Generic[T]):
    """A map from text to values of one kind."""

    each: OptionKind[T]
    wanted: str
    """What `wants` returns."""

    def wants(self) -> str:
        return self.wanted

    def read(self, written: Written) -> dict[str, T]:
        return {key.text: self.each.read(value) for key, value in _pairs(written)}

    def spell(self, value: Mapping[str, T]) -> str:
        return f"{{{', '.join(f'{quote(key)}: {self.each.spell(one)}' for key, one in value.items())}}}"


@dataclass(frozen=True, slots=True)
class AnyMap:
    """A map from text to any YAML value. `check` raises UsageError for a wrong map."""

    wanted: str = "a map"
    check: Callable[[dict[str, Any]], object] | None = None

    def wants(self) -> str:
        return self.wanted

    def read(self, written: Written) -> dict[str, Any]:
        values = {key.text: value_of(value) for key, value in _pairs(written)}
        if self.check is not None:
            try:
                self.check(values)
            except UsageError as error:
                raise MisfitError(written, str(error)) from error
        return values

    def spell(self, value: dict[str, Any]) -> str:
        import json  # noqa: PLC0415 - only sample files need it

        return json.dumps(value, ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class AnyList:
    """A list of any YAML values. `check` raises UsageError for a wrong list."""

    wanted: str
    check: Callable[[list[Any]], object]

    def wants(self) -> str:
        return self.wanted

    def read(self, written: Written) -> list[Any]:
        values = value_of(written)
        try:
            self.check(values)
        except UsageError as error:
            raise MisfitError(written, str(error)) from error
        return list(values)

    def spell(self, value: list[Any]) -> str:
        import json  # noqa: PLC0415 - only sample files need it

        return json.dumps(value, ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class GlobsByType:
    """A map from some types of plug-ins to globs of their names (`saltlite.model.files`)."""

    types: tuple[str, ...]
    whitelist: bool

    def wants(self) -> str:
        return f"a map from types of plug-ins to lists of globs, as in {EXAMPLE}"

    def read(self, written: Written) -> dict[str, list[str]]:
        found = {}
        for key, value in _pairs(written):
            try:
                kind = known_type(key.text, self.types)
            except UsageError as error:
                raise MisfitError(key, str(error)) from error
            try:
                found[kind] = checked_globs(kind, value_of(value), whitelist=self.whitelist)
            except UsageError as error:
                raise MisfitError(value, str(error)) from error
        return found

    def spell(self, value: dict[str, list[str]]) -> str:
        return f"{{{', '.join(f'{kind}: {_spell_list(globs)}' for kind, globs in value.items())}}}"


_METADATA_KEY = "saltlite.option"


@dataclass(frozen=True, slots=True)
class Option:
    """One option; `default` is the value before `root_dir` moves it."""

    name: str
    default: Any
    doc: str
    takes: OptionKind[Any]
    unit: str
    since: str
    secret: bool


def option(
    default: T,
    doc: str,
    takes: OptionKind[T],
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
    """A configuration with the given values (fields of the class), and the defaults of all others.

    `root_dir` moves default paths and given relative ones below it; given absolute ones stay. The empty path means
    "none" and stays empty.
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
        elif isinstance(known.takes, FileRootsKind):
            move = given_under if name in values else default_under
            roots = values.get(name, known.default)
            values[name] = {env: [move(root_dir, path) for path in folders] for env, folders in roots.items()}
    return config_class(**values)
