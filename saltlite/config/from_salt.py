"""Converts the configuration of Salt's master and minion: what each of its options is here, and our files.

`saltlite.model.salt_features` says what an option of Salt is here. This file adds the values: which are taken, in which
unit, and what becomes of options that have another name.
"""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Iterator, Mapping
from typing import Any

from saltlite.config.load import unreadable
from saltlite.config.master import MasterConfig
from saltlite.config.minion import MinionConfig
from saltlite.config.options import Duration, MisfitError, Option, options_of, quote
from saltlite.config.paths import FILE_BYTES_MAX
from saltlite.config.values import seconds_of_unit
from saltlite.config.written import Map, PlacedError, Scalar, Sequence, Written, resolve
from saltlite.config.yamlfile import parse
from saltlite.errors import ConfigError, UsageError
from saltlite.model.dataclass import dataclass
from saltlite.model.salt_features import (
    GROUPS,
    MEANINGLESS_GROUP,
    NOT_YET_GROUP,
    RENAMED_GROUP,
    STATE_OPTIONS,
    option_of_salt,
)

READ_GROUP, OWN_GROUP, DECLARED_GROUP, MISFIT_GROUP, UNKNOWN_GROUP = (
    "read as is", "saltlite's own stays", "of your modules", "the value does not fit", "unknown",
)  # fmt: skip
ALL_GROUPS = (READ_GROUP, DECLARED_GROUP, RENAMED_GROUP, OWN_GROUP, MISFIT_GROUP, NOT_YET_GROUP, MEANINGLESS_GROUP,
              UNKNOWN_GROUP)  # fmt: skip
assert set(GROUPS) < set(ALL_GROUPS)  # noqa: S101 - every answer of option_of_salt has its place

SIDES = {"master": MasterConfig, "minion": MinionConfig}

_OF_SALTS_DAEMONS = "Salt's daemons work there, and the content is another one"
OWN = {
    "pki_dir": _OF_SALTS_DAEMONS,
    "cachedir": _OF_SALTS_DAEMONS,
    "sock_dir": _OF_SALTS_DAEMONS,
    "extension_modules": "saltutil.sync_all fills the folder again",
    "log_file": "Salt's daemons log there",
    "user": "a user of saltlite's own has fewer rights: `saltlite help install`",
    "token_dir": _OF_SALTS_DAEMONS,
    "state_events": "every state of a job is an event",
}
"""Options of both whose value is not taken, and why."""

INCLUDES_MAX = 100
"""Files that one configuration may include."""
_YES = {**dict.fromkeys(("yes", "Yes", "YES", "on", "On", "ON"), True),
        **dict.fromkeys(("no", "No", "NO", "off", "Off", "OFF"), False)}  # fmt: skip
"""Words that YAML 1.1, which Salt reads, takes for booleans."""


@dataclass(frozen=True, slots=True)
class SaltOption:
    """What one option of Salt is here, `file:line`, and the name here or a sentence without its stop."""

    option: str
    place: str
    group: str
    instead: str = ""


@dataclass(frozen=True, slots=True)
class Converted:
    """One side: the options of Salt's files, and the text of our file."""

    side: str
    files: tuple[str, ...]
    answers: tuple[SaltOption, ...]
    text: str


def convert(config_dir: str) -> list[Converted]:
    """The sides that have a file in Salt's configuration folder. Raises ConfigError, UsageError if there is none."""
    sides = [side for side in SIDES if os.path.lexists(os.path.join(config_dir, side))]
    if not sides:
        raise UsageError(f"there is neither a file master nor a file minion in {config_dir}: name the folder of Salt's")
    return [_Side(config_dir, side).converted() for side in sides]


class _Side:
    """The conversion of one side."""

    def __init__(self, config_dir: str, side: str) -> None:
        self._dir = config_dir
        self._side = side
        self._known = options_of(SIDES[side])
        self._files: list[str] = []
        self._read: dict[str, tuple[str, Any]] = {}
        """Option of Salt -> (`file:line`, value)."""
        self._values: dict[str, Any] = {}
        """Option of ours -> value."""
        self._own: dict[str, Any] = {}

    def converted(self) -> Converted:
        self._read_file(os.path.join(self._dir, self._side))
        default = self._read.pop("default_include", ("", f"{self._side}.d/*.conf"))[1]
        self._include(default, must_exist=False)
        answers = tuple(self._answer(name, place, value) for name, (place, value) in self._read.items())
        if self._own:
            self._values["own_options"] = sorted(name for name in self._own if "." not in name)
        return Converted(self._side, tuple(self._files), answers, self._text(answers))

    # -- Salt's files

    def _read_file(self, path: str) -> None:
        if path in self._files:
            return
        if len(self._files) > INCLUDES_MAX:
            raise UsageError(f"{self._files[0]} includes more than {INCLUDES_MAX} files")
        self._files.append(path)
        try:
            with open(path, "rb") as file:
                root, _duplicates = parse(file.read(FILE_BYTES_MAX))
        except OSError as error:
            raise ConfigError(unreadable(error, path)) from error
        except PlacedError as error:
            raise ConfigError(f"{path}:{error.where.line}:{error.where.column}: {error}") from error
        included: Any = ()
        for key, written in root.pairs if isinstance(root, Map) else ():
            value = _value_of_salt(written)
            if key.text == "include":
                included = value
            elif key.text in self._read and isinstance(value, dict) and isinstance(self._read[key.text][1], dict):
                self._read[key.text] = f"{path}:{key.where.line}", _merged(self._read[key.text][1], value)
            else:
                self._read[key.text] = f"{path}:{key.where.line}", value
        self._include(included, must_exist=True)

    def _include(self, patterns: Any, *, must_exist: bool) -> None:
        for pattern in patterns if isinstance(patterns, list) else [patterns] if isinstance(patterns, str) else ():
            found = sorted(glob.glob(os.path.join(self._dir, str(pattern))))
            if must_exist and not found:
                raise UsageError(f"{self._files[-1]} includes {pattern}, and there is no such file")
            for path in found:
                self._read_file(path)

    # -- what each option is

    def _answer(self, name: str, place: str, value: Any) -> SaltOption:
        if name in OWN:
            return SaltOption(name, place, OWN_GROUP, OWN[name])
        if name in self._known:
            return self._same(name, place, value)
        if (group := self._group_of(name, value)) is not None:
            return SaltOption(name, place, *group)
        if any(name in options_of(other) for other in SIDES.values()):
            return SaltOption(name, place, MEANINGLESS_GROUP, "only the other side has the option")
        if self._side == "minion":
            self._own[name] = value
            return SaltOption(name, place, DECLARED_GROUP, "" if "." in name else "declared in own_options")
        return SaltOption(name, place, UNKNOWN_GROUP, "neither Salt nor saltlite has it")

    def _same(self, name: str, place: str, value: Any) -> SaltOption:
        known = self._known[name]
        misfit = ""
        # Salt takes one text for a list of one, too.
        for tried in (_in_our_unit(known, value), [value]):
            try:
                self._values[name] = known.takes.read(_written(tried))
            except MisfitError as error:
                misfit = misfit or error.detail or f"it takes {known.takes.wants()}"
            else:
                return SaltOption(name, place, READ_GROUP)
        return SaltOption(name, place, MISFIT_GROUP, misfit)

    def _group_of(self, name: str, value: Any) -> tuple[str, str] | None:
        """The group of an option of Salt that has another name here or none; None for an unknown one."""
        group, instead = option_of_salt(name)
        if not group:
            return None
        if name in STATE_OPTIONS and self._side == "minion":
            self._values.setdefault("state_options", {})[name] = value
        elif name == "keep_jobs_seconds" and isinstance(value, int) and self._side == "master":
            self._values.setdefault("keep_jobs", float(value))
        elif name == "process_count_max" and isinstance(value, int) and self._side == "minion":
            if value > 0:
                self._values.setdefault("jobs_max", value)
        elif name in ("publish_port", "ret_port", "master_port"):
            instead = "port: one port in place of two, 4515 unless it is set, because Salt's may still be in use"
        elif name == "master_finger":
            instead = "fleet: the value is new; `saltlite key finger` on the master prints it"
        return group, instead

    # -- our file

    def _text(self, answers: tuple[SaltOption, ...]) -> str:
        lines = [f"# Made by `saltlite config from-salt` of {', '.join(self._files)}.", ""]
        for name, value in self._values.items():
            if value != self._known[name].default:
                lines.append(f"{name}: {self._known[name].takes.spell(value)}")
        lines += [f"{quote(name)}: {json.dumps(value, ensure_ascii=False)}" for name, value in self._own.items()]
        left = [one for one in answers if one.group not in (READ_GROUP, DECLARED_GROUP, MEANINGLESS_GROUP)]
        if left:
            lines += ["", "# Options of Salt that are not here as they were:"]
            lines += [f"#   {one.option}: {one.group}{f': {one.instead}' if one.instead else ''}" for one in left]
        return "\n".join(lines) + "\n"


def _value_of_salt(written: Written) -> Any:
    """The value in a file that is read as YAML 1.1."""
    match written:
        case Scalar():
            if written.quoted:
                return written.text
            return _YES[written.text] if written.text in _YES else resolve(written.text)
        case Sequence():
            return [_value_of_salt(item) for item in written.items]
        case Map():
            return {key.text: _value_of_salt(value) for key, value in written.pairs}


def _merged(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Maps of several files as Salt joins them."""
    both = dict(before)
    for name, value in after.items():
        old = both.get(name)
        both[name] = _merged(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return both


def _written(value: Any) -> Written:
    """The value as it would be written in a file of ours."""
    written, _duplicates = parse(json.dumps(value).encode())
    assert written is not None  # noqa: S101 - JSON of a value is a document
    return written


def _in_our_unit(known: Option, value: Any) -> Any:
    takes = known.takes
    if isinstance(takes, Duration) and takes.salt_unit and isinstance(value, int | float):
        return value * seconds_of_unit(takes.salt_unit)
    return value


def grouped(converted: Converted) -> Iterator[tuple[str, list[SaltOption]]]:
    """The answers of one side by group, in the order of ALL_GROUPS."""
    for group in ALL_GROUPS:
        if some := [one for one in converted.answers if one.group == group]:
            yield group, some
