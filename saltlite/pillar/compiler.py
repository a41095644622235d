"""The pillar of one minion: the files that the top file selects for it, rendered in order and merged.

    base:                     the environment
      '*':                    a target
        - users               a file: users.sls or users/init.sls
      'os:Debian':
        - match: grain        how the target is read; compound by default, as in Salt
        - apt.sources         apt/sources.sls
        - ignore_missing: true

A mistake costs only its own file. The pillar then has a list of sentences under ERRORS, as in Salt, so that it is never
taken for complete. Maps are merged key by key, and any other later value replaces the earlier one.

Contract: Salt's top files, and its `pillar_source_merging_strategy: recurse` without `pillar_merge_lists`.
"""

from __future__ import annotations

import copy
import fnmatch
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any, Protocol

from saltlite.errors import RenderError, SaltliteError, UsageError
from saltlite.model.dataclass import dataclass
from saltlite.model.files import BASE_ENV
from saltlite.model.ids import MinionId
from saltlite.model.job import Target, TargetKind

_KINDS: dict[str, TargetKind] = {
    **{str(kind): kind for kind in TargetKind},
    "grains": TargetKind.GRAIN,
    "grains_pcre": TargetKind.GRAIN_PCRE,
}
_OPTIONS = ("match", "ignore_missing", "order")


@dataclass(frozen=True, slots=True)
class Entry:
    """One target of a top file with its files. `ignore_missing`: a missing file is not a mistake."""

    target: Target
    names: tuple[str, ...]
    ignore_missing: bool = False


def targets_of(top: Any, env: str) -> Mapping[Any, Any]:
    """The targets of an environment in a top file, in order. Raises RenderError."""
    if top is None:
        return {}
    section = _map(top, "a top file is a map of environments").get(env) or {}
    return _map(section, f"the environment {env!r} of a top file is a map of targets")


def read_entry(expression: str, listed: Any) -> Entry:
    """One target of a top file. Raises RenderError."""
    if not isinstance(listed, list):
        raise RenderError(f"the target {expression!r} of the top file has no list of files")
    names: list[str] = []
    options: dict[str, Any] = {}
    for item in listed:
        if isinstance(item, str) and item:
            names.append(item)
        elif isinstance(item, dict) and set(item) <= set(_OPTIONS):
            options.update(item)
        else:
            raise RenderError(
                f"the target {expression!r} of the top file lists something that is neither the name of a file nor one "
                f"of {', '.join(_OPTIONS)}"
            )
    kind = _KINDS.get(str(options.get("match", TargetKind.COMPOUND)))
    if kind is None:
        raise RenderError(f"the target {expression!r} of the top file has a match that is not known: say {_kinds()}")
    return Entry(Target(expression, kind), tuple(names), options.get("ignore_missing") is True)


def _kinds() -> str:
    return ", ".join(sorted(_KINDS))


def _map(value: Any, sentence: str) -> Mapping[Any, Any]:
    if not isinstance(value, Mapping):
        raise RenderError(sentence)
    return value


def merged(first: Mapping[Any, Any], later: Mapping[Any, Any]) -> dict[Any, Any]:
    """The merged value; the arguments are not changed."""
    result = dict(first)
    for key, value in later.items():
        before = result.get(key)
        if isinstance(before, Mapping) and isinstance(value, Mapping):
            result[key] = merged(before, value)
        else:
            result[key] = value
    return result


Matches = Callable[[Target], bool]
"""Whether a target selects the minion. Raises UsageError for an invalid target."""


Nodegroups = Mapping[str, str | list[str]]
"""Name -> expression, from the configuration."""


class PillarFiles(Protocol):
    """The files of `pillar_roots`, as data. A path is below the root of its environment."""

    def envs(self) -> Sequence[str]:
        """The environments, in the order of the configuration."""
        ...

    def has(self, env: str, path: str) -> bool:
        """Whether the file exists."""
        ...

    def names(self, env: str) -> Sequence[str]:
        """The paths of all files of an environment, sorted."""
        ...

    def render(self, env: str, path: str, context: Mapping[str, Any]) -> Any:
        """The rendered file; templates see the names in `context`. Raises RenderError, also if it does not exist."""
        ...


ERRORS = "_errors"
"""The key of the mistakes."""
TOP = "top.sls"
INCLUDE = "include"
INCLUDED_MAX = 64
"""Depth of includes, which are recursive calls."""

RENDERED_MAX = 1000
"""Rendered files of one pillar; a file counts each time that it is included."""


@dataclass(frozen=True, slots=True)
class Subject:
    """The minion as templates see it: its id, its grains, and options of the master."""

    id: str
    grains: Mapping[str, Any]
    opts: Mapping[str, Any] = field(default_factory=dict)


def has_top(files: PillarFiles) -> bool:
    """Whether there is anything to compile."""
    return any(files.has(env, TOP) for env in files.envs())


def top_of(files: PillarFiles, subject: Subject, matches: Matches) -> tuple[dict[str, list[str]], list[str]]:
    """Environment -> the names of files for the minion in the top files, in order; and mistakes."""
    found: dict[str, list[str]] = {}
    compilation = _Compilation(files, subject, matches, {})
    for env, entry in compilation.selected():
        found.setdefault(env, []).extend(entry.names)
    return found, compilation.errors


class _Compilation:
    def __init__(self, files: PillarFiles, subject: Subject, matches: Matches, pillar: dict[Any, Any]) -> None:
        self._files = files
        self._subject = subject
        self._matches = matches
        self._pillar = pillar
        self.errors: list[str] = []
        self._rendered = 0

    def run(self) -> dict[Any, Any]:
        for env, entry in self.selected():
            for name in entry.names:
                self._add(env, name, ignore_missing=entry.ignore_missing)
        # A file with this key must neither hide nor fake mistakes.
        self._pillar.pop(ERRORS, None)
        return {**self._pillar, ERRORS: self.errors} if self.errors else self._pillar

    def selected(self) -> Iterator[tuple[str, Entry]]:
        """(environment, entry of a top file for this minion). Mistakes are recorded."""
        tops = {env: top for env in self._files.envs() if (top := self._top(env)) is not None}
        for env in self._files.envs():
            # An environment's own top file says what is in it; for one without, that of base does.
            own = tops.get(env)
            top = own if isinstance(own, Mapping) and env in own else tops.get(BASE_ENV)
            try:
                targets = targets_of(top, env)
            except RenderError as error:
                self._top_failed(env, error)
                continue
            for expression, listed in targets.items():
                try:
                    entry = read_entry(str(expression), listed)
                    is_for_us = self._matches(entry.target)
                except (RenderError, UsageError) as error:
                    self._top_failed(env, error)
                    continue
                if is_for_us:
                    yield env, entry

    def _top(self, env: str) -> Any:
        if not self._files.has(env, TOP):
            return None
        try:
            return self._render(env, TOP, "top", {})
        except RenderError as error:
            self._top_failed(env, error)
            return None

    def _top_failed(self, env: str, error: SaltliteError) -> None:
        self.errors.append(f"Rendering the top file of environment '{env}' failed: {error}")

    def _add(self, env: str, name: str, *, ignore_missing: bool) -> None:
        found = list(self._found(env, name))
        if not found and not ignore_missing:
            self.errors.append(_missing(env, name))
        for one in found:
            try:
                self._pillar = merged(self._pillar, self._state(env, one, {}, ()))
            except RenderError as error:
                self.errors.append(f"Rendering SLS '{one}' failed: {error}")

    def _found(self, env: str, pattern: str) -> Iterator[str]:
        """The existing names that match; a pattern may match several."""
        if not set("*?[") & set(pattern):
            if self._path(env, pattern) is not None:
                yield pattern
            return
        names = dict.fromkeys(filter(None, map(_name_of, self._files.names(env))))
        yield from fnmatch.filter(names, pattern)

    def _path(self, env: str, name: str) -> str | None:
        if "" in name.split("."):
            # Each dot too many would be another name for the same file, and an include of it no circle.
            return None
        stem = name.replace(".", "/")
        return next((path for path in (f"{stem}.sls", f"{stem}/init.sls") if self._files.has(env, path)), None)

    def _state(self, env: str, name: str, defaults: Mapping[str, Any], above: tuple[str, ...]) -> dict[Any, Any]:
        """The data of a file merged over its includes. `above` are the files that include it."""
        path = self._path(env, name)
        if path is None:
            raise RenderError(_missing(env, name))
        if len(above) >= INCLUDED_MAX:
            raise RenderError(f"{path} is included through more than {INCLUDED_MAX} files: include it from fewer")
        data = self._render(env, path, name, defaults)
        if data is None:
            return {}
        if not isinstance(data, dict):
            raise RenderError(f"{path} is not a map")
        data = dict(data)
        included: dict[Any, Any] = {}
        for pattern, more, key in _includes(data.pop(INCLUDE, None), name, path):
            found = list(self._found(env, pattern))
            if not found:
                self.errors.append(f"{_missing(env, pattern)} It is included by '{name}'.")
            for one in found:
                if one in (*above, name):
                    # Two files that include each other are one set of files, each of which is taken once.
                    continue
                try:
                    state = self._state(env, one, more, (*above, name))
                except RenderError as error:
                    self.errors.append(f"Rendering SLS '{one}' failed: {error}")
                    continue
                for part in reversed(key.split(":") if key else []):
                    state = {part: state}
                included = merged(included, state)
        return merged(included, data)

    def _render(self, env: str, path: str, name: str, defaults: Mapping[str, Any]) -> Any:
        self._rendered += 1
        if self._rendered > RENDERED_MAX:
            raise RenderError(f"the pillar is made of more than {RENDERED_MAX} files: do not include in circles")
        context = {
            "grains": self._subject.grains,
            "opts": {**self._subject.opts, "id": self._subject.id},
            "pillar": self._pillar,
            "saltenv": env,
            "env": env,
            "sls": name,
            "slspath": path.rpartition("/")[0],
            "tplpath": path,
            **defaults,
        }
        return self._files.render(env, path, context)


def _includes(listed: Any, name: str, path: str) -> Iterator[tuple[str, Mapping[str, Any], str]]:
    """(name, values for its template, the key above its data) of each line of `include`."""
    if listed is None:
        return
    if not isinstance(listed, list):
        raise RenderError(f"{path} has an include that is not a list")
    for item in listed:
        if isinstance(item, str):
            yield _absolute(item, name, path), {}, ""
        elif isinstance(item, dict) and len(item) == 1 and isinstance(next(iter(item.values())) or {}, dict):
            ((included, options),) = item.items()
            options = options or {}
            if not set(options) <= {"defaults", "key"} or not isinstance(options.get("defaults", {}), dict):
                raise RenderError(f"{path} includes {included!r} with something else than defaults (a map) and key")
            yield _absolute(str(included), name, path), options.get("defaults", {}), str(options.get("key") or "")
        else:
            raise RenderError(f"{path} includes something that is neither a name nor a map of one name")


def _absolute(included: str, name: str, path: str) -> str:
    """The full name of an included file: each leading dot after the first means one folder up."""
    rest = included.lstrip(".")
    ups = len(included) - len(rest)
    if not ups:
        return included
    folder = name.split(".") if path.endswith("/init.sls") else name.split(".")[:-1]
    if ups - 1 > len(folder):
        raise RenderError(f"{path} includes {included!r}, which is above the root")
    # A dot alone is the folder itself.
    return ".".join([*folder[: len(folder) - ups + 1], *([rest] if rest else [])])


def _name_of(path: str) -> str:
    """The name of the file at that path; "" if it is not an sls file."""
    stem = path.removesuffix(".sls")
    if path in (stem, TOP) or "." in stem:
        return ""
    return stem.removesuffix("/init").replace("/", ".")


def _missing(env: str, name: str) -> str:
    return f"Specified SLS '{name}' in environment '{env}' is not available on the salt master."


def pillar_of(
    files: PillarFiles,
    minion: MinionId,
    grains: Mapping[str, Any],
    nodegroups: Nodegroups,
    before: Mapping[Any, Any] | None = None,
) -> dict[Any, Any]:
    """The pillar of the minion, merged over `before`, which its files see. The grain `id` is always its id."""
    subject, matches = _subject(minion, grains, nodegroups)
    return _Compilation(files, subject, matches, dict(before or {})).run()


def names_of(
    files: PillarFiles, minion: MinionId, grains: Mapping[str, Any], nodegroups: Nodegroups
) -> tuple[dict[str, list[str]], list[str]]:
    """Environment -> the files of its pillar, without included ones; and mistakes."""
    return top_of(files, *_subject(minion, grains, nodegroups))


def _subject(minion: MinionId, grains: Mapping[str, Any], nodegroups: Nodegroups) -> tuple[Subject, Matches]:
    mine = {**grains, "id": minion}
    from saltlite.targeting import resolve  # noqa: PLC0415 - a minion uses this module, and evaluates no targets
    from saltlite.targeting.memory_fleet import Member, MemoryFleet  # noqa: PLC0415 - as above

    fleet = MemoryFleet({minion: Member(mine)}, nodegroups)

    def matches(target: Target) -> bool:
        return minion in resolve(target, fleet).minions

    return Subject(minion, mine), matches


class MemoryPillarFiles:
    """`files`: environment -> path -> the file's data, or a function from the context of templates to data."""

    def __init__(self, files: Mapping[str, Mapping[str, Any]]) -> None:
        self._files = files

    def envs(self) -> Sequence[str]:
        return tuple(self._files)

    def has(self, env: str, path: str) -> bool:
        return path in self._files.get(env, {})

    def names(self, env: str) -> Sequence[str]:
        return sorted(self._files.get(env, {}))

    def render(self, env: str, path: str, context: Mapping[str, Any]) -> Any:
        if not self.has(env, path):
            raise RenderError(f"{path} in environment {env!r} is not there")
        data = self._files[env][path]
        return data(context) if callable(data) else copy.deepcopy(data)
