"""What the configuration grants to whom: read once, matched often.

A rule is written as in Salt's `external_auth` and `publisher_acl`:

    'test.*'                                  functions: all of a module, or a regular expression for the whole name
    {'cmd.run': {'args': ['ls.*'], 'kwargs': {'cwd': '/tmp'}}}      a function with patterns for its arguments
    {'web*': ['pkg.*', {'cmd.run': {...}}]}   these on the targets of a target expression only
    '@runner', '@wheel', '@jobs', '@cloud'    everything of the kind, or of the module `jobs`
    {'@jobs': ['list_job', 'list_jobs']}      some of it
    '@executor', {'@executor': ['splay']}     to name these executors in a job; '@returner' likewise
    '@hook', {'@hook': ['deploy', 'ci/*']}    POST /hook of the API: all paths, or those that one of the globs matches

A map inside of a target's list is a function with patterns; on the outside it is that when its value is a map, a
target when its value is a list.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase, translate
from typing import Any

from saltlite.errors import UsageError

RUNNER, WHEEL, EXECUTOR, RETURNER, HOOK = "runner", "wheel", "executor", "returner", "hook"
PATTERN_MAX = 500
"""Characters of one pattern."""
TEXT_MAX = 4096
"""An argument with more characters matches no pattern."""
RULES_MAX = 10_000
"""Rules of one user."""


_NO_MODULES = ("", RUNNER, WHEEL, EXECUTOR, RETURNER, HOOK)
"""Kinds that no module of runners gives its name to."""
_MODULE = re.compile(r"([A-Za-z0-9_]+)\.\*", re.ASCII)
_ANY = re.compile(".*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Call:
    """A function with its arguments, as somebody wants to have it run."""

    fun: str
    args: Sequence[Any] = ()
    kwargs: Mapping[str, Any] | None = None
    """None with unknown arguments: then rules about these are not asked."""


_CALLERS = {"test.cross_test": "func", "test.try": "module"}
"""Functions that call the one that an argument names, their first -> that argument."""


def call_within(call: Call) -> Call | None:
    """What a call has called: it takes the right to that, too. None for most, and where no arguments are known.

    What is no name, or no list of arguments, is nothing that could be called; it comes back as one without a right.
    """
    named = _CALLERS.get(call.fun)
    if named is None or call.kwargs is None or not (call.args or named in call.kwargs):
        return None
    fun = call.args[0] if call.args else call.kwargs[named]
    if named == "module":
        return Call(str(fun), (), {name: value for name, value in call.kwargs.items() if name != named})
    args = call.args[1] if len(call.args) > 1 else call.kwargs.get("args")
    # A text is taken apart into letters, and a map into keys, as `*args` does it.
    return Call(str(fun), tuple(args) if isinstance(args, str | list | tuple | Mapping) else (), {})


@dataclass(frozen=True, slots=True)
class Rule:
    """One thing that is granted."""

    text: str
    """As it can be shown: where it is from, and what it says."""
    fun: re.Pattern[str]
    where: str = ""
    """The target expression that it holds for, "" for every target. Not looked at for `kind` other than ""."""
    kind: str = ""
    """"" for functions on targets; RUNNER, WHEEL, EXECUTOR, RETURNER, HOOK, or the name of a module of runners."""
    args: tuple[re.Pattern[str], ...] = ()
    kwargs: tuple[tuple[str, re.Pattern[str]], ...] = ()

    def allows(self, call: Call) -> bool:
        """Whether the rule is about this call, wherever it is to run."""
        if self.kind or not self.fun.fullmatch(call.fun):
            return False
        if call.kwargs is None:
            return True
        return self._args_match(call.args) and self._kwargs_match(call.kwargs)

    def allows_name(self, kind: str, name: str) -> bool:
        """Whether the rule grants `name` of a kind other than functions, such as ("runner", "jobs.list_jobs")."""
        if kind in (RUNNER, WHEEL) and self.kind not in _NO_MODULES:
            module, _, function = name.partition(".")
            return self.kind == module and self.fun.fullmatch(function) is not None
        return self.kind == kind and self.fun.fullmatch(name) is not None

    def _args_match(self, args: Sequence[Any]) -> bool:
        # A pattern for an argument that is not there does not hold; arguments without a pattern are free, as in Salt.
        if len(args) < len(self.args):
            return False
        return all(_matches(pattern, value) for pattern, value in zip(self.args, args, strict=False))

    def _kwargs_match(self, kwargs: Mapping[str, Any]) -> bool:
        return all(name in kwargs and _matches(pattern, kwargs[name]) for name, pattern in self.kwargs)


def _matches(pattern: re.Pattern[str], value: Any) -> bool:
    """Only plain values have one text; a list or a map has none that a pattern could be sure of."""
    if not isinstance(value, str | int | float | bool):
        return False
    text = str(value)
    return len(text) <= TEXT_MAX and pattern.fullmatch(text) is not None


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of one place: of `publisher_acl`, or of a backend of `external_auth`. By user, `group%` or pattern."""

    by_user: Mapping[str, tuple[Rule, ...]]
    patterns: bool = False
    """Whether a user may be written as a glob or a regular expression, as in publisher_acl."""

    def of(self, user: str, groups: Collection[str]) -> tuple[Rule, ...]:
        """The user's own rules with those of the groups; those of `*` for whom has none of his own."""
        # A name that ends so is written for a group.
        own = () if user.endswith("%") else self.by_user.get(user)
        if own is None:
            own = self._by_pattern(user)
        of_groups = [rule for group in sorted(groups) for rule in self.by_user.get(f"{group}%", ())]
        return (*own, *of_groups)

    def _by_pattern(self, user: str) -> tuple[Rule, ...]:
        if not self.patterns:
            return self.by_user.get("*", ())
        meant = [name for name in self.by_user if not name.endswith("%") and is_user(user, name)]
        return tuple(rule for name in meant for rule in self.by_user[name])


NO_RULES = Rules({})


@dataclass(frozen=True, slots=True)
class Blacklist:
    """Whom and what `publisher_acl_blacklist` forbids, whatever is granted elsewhere."""

    users: tuple[str, ...] = ()
    modules: tuple[re.Pattern[str], ...] = ()

    def user(self, user: str) -> bool:
        return any(is_user(user, name) for name in self.users)

    def function(self, fun: str) -> bool:
        return any(pattern.fullmatch(fun) for pattern in self.modules)


def is_user(user: str, written: str) -> bool:
    """Whether a user is meant by a name, a glob or a regular expression for the whole name."""
    return user == written or fnmatchcase(user, written) or _user_pattern(written).fullmatch(user) is not None


def _user_pattern(written: str) -> re.Pattern[str]:
    try:
        return re.compile(written)
    except re.error:  # a glob such as `*`
        return re.compile(re.escape(written))


def read_rules(written: Any, place: str, *, patterns: bool = False) -> Rules:
    """A map from users to lists of rules. Raises UsageError with the place of what is none."""
    if not isinstance(written, dict):
        raise UsageError(f"{place} is a map from users to lists of what they may")
    return Rules({str(user): _of_user(rows, f"{place}.{user}") for user, rows in written.items()}, patterns)


def read_blacklist(written: Any) -> Blacklist:
    """`{users: [...], modules: [...]}`. Raises UsageError."""
    if not isinstance(written, dict) or not set(written) <= {"users", "modules"}:
        raise UsageError("publisher_acl_blacklist is a map with the lists `users` and `modules`")
    users, modules = written.get("users") or [], written.get("modules") or []
    if not all(isinstance(one, list) and all(isinstance(text, str) for text in one) for one in (users, modules)):
        raise UsageError("`users` and `modules` of publisher_acl_blacklist are lists of texts")
    return Blacklist(tuple(users), tuple(_fun_pattern(text, "publisher_acl_blacklist.modules") for text in modules))


def _of_user(rows: Any, place: str) -> tuple[Rule, ...]:
    if not isinstance(rows, list):
        raise UsageError(f"{place} takes a list of functions, targets and rights such as '@jobs'")
    rules = tuple(rule for row in rows for rule in _outer(row, place))
    if len(rules) > RULES_MAX:
        raise UsageError(f"{place} has more than {RULES_MAX} rules")
    return rules


def _outer(row: Any, place: str) -> list[Rule]:
    if isinstance(row, str):
        return [_kind_of(row, None, place) if row.startswith("@") else _function(row, None, "", place)]
    if not isinstance(row, dict) or not row:
        raise UsageError(
            f"{place}: {str(row)[:80]!r} is no rule: write a function, or a map from a target to functions"
        )
    rules: list[Rule] = []
    for key, value in row.items():
        if not isinstance(key, str):
            raise UsageError(f"{place}: {key!r} is no text")
        if key.startswith("@"):
            rules += _named(key, value, place)
        elif isinstance(value, list):
            rules += [rule for one in value for rule in _inner(one, key, place)]
        else:
            rules.append(_function(key, value, "", place))
    return rules


def _named(key: str, value: Any, place: str) -> list[Rule]:
    """`{'@jobs': ['list_job']}`."""
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise UsageError(f"{place}: {key} takes a list of functions; patterns for arguments are for jobs only")
    return [_kind_of(key, one, place) for one in value]


def _inner(row: Any, where: str, place: str) -> list[Rule]:
    """A row of a target's list."""
    if isinstance(row, str):
        if row.startswith("@"):
            raise UsageError(f"{place}: {row} is no function, and holds for no target: write it on its own")
        return [_function(row, None, where, place)]
    if isinstance(row, dict) and row and all(isinstance(key, str) for key in row):
        return [_function(fun, value, where, place) for fun, value in row.items()]
    raise UsageError(f"{place}: {str(row)[:80]!r} is no function for {where!r}")


def _function(fun: str, patterns: Any, where: str, place: str) -> Rule:
    given = patterns if patterns is not None else {}
    if not isinstance(given, dict) or not set(given) <= {"args", "kwargs"}:
        raise UsageError(f"{place}: {fun} takes a map of `args`, a list, and `kwargs`, a map, or nothing")
    args, kwargs = given.get("args") or [], given.get("kwargs") or {}
    if not isinstance(args, list) or not isinstance(kwargs, dict):
        raise UsageError(f"{place}: `args` of {fun} is a list of patterns, `kwargs` a map from names to patterns")
    on = f" on {where}" if where else ""
    with_arguments = f" with {given}" if args or kwargs else ""
    return Rule(
        text=f"{place}: {fun}{on}{with_arguments}",
        fun=_fun_pattern(fun, place),
        where=where,
        args=tuple(_pattern(one, place) for one in args),
        kwargs=tuple((str(name), _pattern(one, place)) for name, one in kwargs.items()),
    )


def _kind_of(key: str, function: str | None, place: str) -> Rule:
    name = key[1:]
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name, re.ASCII):
        raise UsageError(f"{place}: {key!r} is no right: write @runner, @wheel, @jobs or another module of runners")
    kind = {"runners": RUNNER}.get(name, name)
    text = f"{place}: {key}" if function is None else f"{place}: {key} {function}"
    if kind == HOOK and function is not None:
        return Rule(text, _path_pattern(function, place), kind=kind)
    return Rule(text, _fun_pattern(".*" if function is None else function, place), kind=kind)


def _path_pattern(glob: str, place: str) -> re.Pattern[str]:
    """A glob for the whole path of a hook, as event tags are matched: `*` matches slashes too."""
    if not 1 <= len(glob) <= PATTERN_MAX or glob.startswith("/") or glob.endswith("/"):
        raise UsageError(
            f"{place}: {glob[:80]!r} is no path of a hook: write it without the slash at either end, as in ci/*, "
            f"with 1 to {PATTERN_MAX} characters"
        )
    return re.compile(translate(glob))


def _fun_pattern(text: str, place: str) -> re.Pattern[str]:
    """As `_pattern`, but `test.*` is every function of the module `test`, and none of `testing`."""
    module = _MODULE.fullmatch(text)
    return re.compile(rf"{module[1]}\..*") if module else _pattern(text, place)


def _pattern(text: Any, place: str) -> re.Pattern[str]:
    """A regular expression for a whole text of one line; None stands for any value, as in Salt."""
    if text is None:
        return _ANY
    if not isinstance(text, str | int | float | bool) or len(str(text)) > PATTERN_MAX:
        raise UsageError(f"{place}: {str(text)[:80]!r} is no pattern of at most {PATTERN_MAX} characters")
    try:
        return re.compile(str(text))
    except re.error as error:
        raise UsageError(f"{place}: {text!r} is no regular expression: {error}") from None
