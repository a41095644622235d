"""Hooks: the jobs and runners that the master starts when an event arrives, as its configuration says.

    deploy:
      event: salt/netapi/hook/deploy            a glob for the tag
      data: {body.branch: main}                 globs for fields of the data, as in the runner event.listen
      as: file:deployer                         the user whose rights it has: a local user, or backend:user
      job: {tgt: 'web*', fun: app.deploy, arg: ['{body.version}'], kwarg: {}, tgt_type: glob}
      rate: 30                                  firings in a minute, at most

With `runner: {fun: manage.up, arg: [], kwarg: {}}` instead of `job` the hook runs a runner.

`{body.version}` is a field of the data, `{tag}` the tag, `{tag.2}` a part of it, counted from 0. There are no
expressions and no code. An argument that consists of one field takes its value, of whatever type. Inside a longer text,
and in a target, the value may hold only the characters of names; otherwise the hook does not fire. The function is
always literal.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from fnmatch import fnmatchcase
from typing import Any

from saltlite.errors import RefusedError, UsageError
from saltlite.model.dataclass import dataclass
from saltlite.model.events import MISSING, SENT_BY, field_of, matches, text_of
from saltlite.model.job import BY_RUNNER

RATE, RATE_MAX = 30, 6000
"""Firings of one hook a minute: the default, and the maximum."""
HOOKS_MAX = 500
DEPTH_MAX = 3
"""How many hooks may fire in a chain, each for an event of what the one before started."""
WORD_MAX = 256
OWN = "salt/hook/"
"""Tags of events about hooks; no hook fires for these."""

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)
_FUNCTION = re.compile(r"[A-Za-z][A-Za-z0-9_]*\.[A-Za-z][A-Za-z0-9_]*", re.ASCII)
_PLACE = re.compile(r"\{([A-Za-z0-9_.:/-]{1,256})\}", re.ASCII)
_WORD = re.compile(r"[A-Za-z0-9_.][A-Za-z0-9_.:/@+-]*", re.ASCII)
_TARGET_WORD = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]*", re.ASCII)
_TARGET_KINDS = ("glob", "list")
"""Target types in which fields may stand: in the others some characters of names have a meaning."""


@dataclass(frozen=True, slots=True)
class Hook:
    """One hook. `tgt` is None for a runner."""

    name: str
    event: str
    user: str
    fun: str
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    data: Mapping[str, str] = field(default_factory=dict)
    tgt: str | None = None
    tgt_type: str = "glob"
    rate: int = RATE

    def wants(self, tag: str, data: Mapping[str, Any]) -> bool:
        """Whether the hook fires for that event."""
        return not tag.startswith(OWN) and fnmatchcase(tag, self.event) and matches(data, self.data)


@dataclass(frozen=True, slots=True)
class Firing:
    """What a hook starts for one event."""

    fun: str
    args: list[Any]
    kwargs: dict[str, Any]
    tgt: str | None
    tgt_type: str


def firing(hook: Hook, tag: str, data: Mapping[str, Any]) -> Firing:
    """What the hook starts, with the fields of that event filled in.

    Raises RefusedError for a field that the event lacks, or whose value is not allowed in its place.
    """
    tgt = None if hook.tgt is None else _woven(hook.tgt, tag, data, _TARGET_WORD)
    args = [_filled(one, tag, data) for one in hook.args]
    kwargs = {name: _filled(one, tag, data) for name, one in hook.kwargs.items()}
    return Firing(hook.fun, args, kwargs, tgt, hook.tgt_type)


def _filled(value: Any, tag: str, data: Mapping[str, Any]) -> Any:
    if isinstance(value, str):
        alone = _PLACE.fullmatch(value)
        return _found(alone[1], tag, data) if alone else _woven(value, tag, data, _WORD)
    if isinstance(value, Mapping):
        return {key: _filled(item, tag, data) for key, item in value.items()}
    return [_filled(item, tag, data) for item in value] if isinstance(value, list | tuple) else value


def _woven(text: str, tag: str, data: Mapping[str, Any], word: re.Pattern[str]) -> str:
    def replaced(place: re.Match[str]) -> str:
        found = text_of(_found(place[1], tag, data))
        if found is None or len(found) > WORD_MAX or not word.fullmatch(found):
            raise RefusedError(
                f"the field {place[1]} of the event is not a plain word, and a value from an event must be one here"
            )
        return found

    return _PLACE.sub(replaced, text)


def _found(place: str, tag: str, data: Mapping[str, Any]) -> Any:
    name, _, number = place.partition(".")
    if place == "tag":
        return tag
    value = field_of(tag.split("/"), number) if name == "tag" and number.isdigit() else field_of(data, place)
    if value is MISSING:
        raise RefusedError(f"the event has no field {place}")
    return value


# -- how deep


class Depths:
    """How many hooks stand behind each job and runner that a hook started. It ends loops, which a rate would not."""

    JOBS_MAX = 10_000

    def __init__(self) -> None:
        self._by_jid: dict[str, int] = {}

    def of(self, tag: str, data: Mapping[str, Any]) -> int:
        """How many hooks stand behind an event of a job or runner, or sent by one.

        A sender may falsely claim to be a hook's job: the worst effect is that no hook fires for its event.
        """
        parts = tag.split("/", 3)
        about = parts[2] if parts[0] == "salt" and len(parts) > 2 and parts[1] in ("job", "run") else ""
        origin = None if parts[0] == "salt" else data.get("jid" if parts[0] == "minion" else SENT_BY)
        return self._by_jid.get(about or (origin if isinstance(origin, str) else ""), 0)

    def note(self, tag: str, data: Mapping[str, Any]) -> None:
        """Read any event of the log: it may be a job that a runner of a hook published."""
        parts, origin = tag.split("/"), data.get("origin")
        if parts[:2] == ["salt", "job"] and parts[3:] == ["new"] and isinstance(origin, str):
            behind = self._by_jid.get(origin.removeprefix(BY_RUNNER), 0)
            if behind and origin.startswith(BY_RUNNER):
                self.begun(parts[2], behind)

    def begun(self, jid: str, depth: int) -> None:
        """A hook has started this job or runner."""
        self._by_jid[jid] = depth
        if len(self._by_jid) > self.JOBS_MAX:
            del self._by_jid[next(iter(self._by_jid))]


# -- reading


def read_hooks(written: Any) -> tuple[Hook, ...]:
    """The hooks of the option `hooks`. Raises UsageError that names the invalid one."""
    if not isinstance(written, Mapping):
        raise UsageError("hooks is a map from names to hooks")
    if len(written) > HOOKS_MAX:
        raise UsageError(f"there may be {HOOKS_MAX} hooks")
    return tuple(_hook(str(name), value) for name, value in written.items())


def _hook(name: str, written: Any) -> Hook:
    place = f"hook {name[:64]}"
    if not _NAME.fullmatch(name):
        raise UsageError(f"{place}: its name has 1 to 64 letters, digits, _ and -")
    about = _map(written, place, needs=("event", "as"), takes=("data", "job", "runner", "rate"))
    if ("job" in about) == ("runner" in about):
        raise UsageError(f"{place} needs either `job` or `runner`")
    rate = about.get("rate", RATE)
    if type(rate) is not int or not 1 <= rate <= RATE_MAX:
        raise UsageError(f"{place}: rate is a whole number from 1 to {RATE_MAX}, firings in a minute")
    hook = Hook(
        name,
        event=_text(about, "event", place),
        user=_text(about, "as", place),
        data=_globs(about.get("data", {}), place),
        rate=rate,
        **(_job(about["job"], f"{place}: job") if "job" in about else _call(about["runner"], f"{place}: runner")),
    )
    if hook.tgt is None and ":" in hook.user:
        raise UsageError(f"{place}: a runner is run as a local user, and {hook.user[:64]} is not one")
    return hook


def _job(written: Any, place: str) -> dict[str, Any]:
    about = _map(written, place, needs=("tgt", "fun"), takes=("arg", "kwarg", "tgt_type"))
    tgt, kind = _text(about, "tgt", place), about.get("tgt_type", "glob")
    if _PLACE.search(tgt) and kind not in _TARGET_KINDS:
        raise UsageError(f"{place}: fields of an event may stand in a tgt of type {' or '.join(_TARGET_KINDS)} only")
    call = _call({name: about[name] for name in ("fun", "arg", "kwarg") if name in about}, place)
    return {**call, "tgt": tgt, "tgt_type": _text({"tgt_type": kind}, "tgt_type", place)}


def _call(written: Any, place: str) -> dict[str, Any]:
    about = _map(written, place, needs=("fun",), takes=("arg", "kwarg"))
    fun, args, kwargs = about["fun"], about.get("arg", []), about.get("kwarg", {})
    if not isinstance(fun, str) or not _FUNCTION.fullmatch(fun):
        raise UsageError(f"{place}: fun is written module.function, as in test.ping")
    if not isinstance(args, list) or not isinstance(kwargs, Mapping) or not all(isinstance(one, str) for one in kwargs):
        raise UsageError(f"{place}: arg is a list, and kwarg a map from names")
    return {"fun": fun, "args": tuple(args), "kwargs": dict(kwargs)}


def _map(written: Any, place: str, *, needs: tuple[str, ...], takes: tuple[str, ...]) -> Mapping[str, Any]:
    if not isinstance(written, Mapping):
        raise UsageError(f"{place} is a map")
    for name in needs:
        if name not in written:
            raise UsageError(f"{place} lacks `{name}`")
    unknown = [str(name) for name in written if name not in (*needs, *takes)]
    if unknown:
        raise UsageError(f"{place} does not take `{unknown[0][:64]}`, but {', '.join((*needs, *takes))}")
    return written


def _text(about: Mapping[str, Any], name: str, place: str) -> str:
    value = about[name]
    if not isinstance(value, str) or not value:
        raise UsageError(f"{place}: {name} is text that is not empty")
    return value


def _globs(written: Any, place: str) -> dict[str, str]:
    if not isinstance(written, Mapping):
        raise UsageError(f"{place}: data is a map from fields to globs")
    found = {str(path): text_of(value) for path, value in written.items()}
    if None in found.values():
        raise UsageError(f"{place}: a field of data is matched by a glob, not by a list or a map")
    return {path: text for path, text in found.items() if text is not None}
