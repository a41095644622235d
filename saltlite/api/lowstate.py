"""One lowstate: a map that says which client is to do what. Checked here, once, before anything is asked of the master.

Names and meanings are those of Salt's netapi.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from saltlite.client.local import JobCall
from saltlite.config.api import CLIENTS
from saltlite.config.written import resolve, value_of
from saltlite.config.yamlfile import PlacedError, parse
from saltlite.errors import UsageError

LOCAL_CLIENTS = ("local", "local_async", "local_batch", "local_subset")
RUNNER_CLIENTS = ("runner", "runner_async")

LOWSTATES_MAX = 100
"""Lowstates of one request."""
TIMEOUT_MAX_S = 3600.0
SUBSET_DEFAULT = 3
BATCH_DEFAULT = "10%"

_CREDENTIALS = {"token", "username", "password", "eauth"}
_EVERY = {"client", "fun", "arg", "kwarg", "full_return"} | _CREDENTIALS
_EXECUTORS = ("module_executors", "executor_opts")
_BATCH = ("batch", "batch_wait", "failhard")
_LOCAL = {
    *("tgt", "tgt_type", "expr_form", "timeout", "subset", "sub", "run_timeout", "deliver_by", "ret", "metadata"),
    # Salt's wait for an answer to find_job, which there is none of here: checked, and then of no effect.
    "gather_job_timeout",
    *_BATCH,
    *_EXECUTORS,
}
_MARK = "__kwarg__"
"""A map among the arguments with this name in it holds keyword arguments, as Salt's clients may write them."""
_KEYWORD = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.ASCII | re.DOTALL)
_PERCENT = re.compile(r"([0-9]{1,3})%", re.ASCII)


@dataclass(frozen=True, slots=True)
class Lowstate:
    """What one map asked for. `token`, or `login`, are its own credentials, as in requests to /run."""

    client: str
    fun: str
    args: list[Any] = field(default_factory=list)
    kwargs: dict[str, Any] = field(default_factory=dict)
    tgt: str | list[str] = ""
    tgt_type: str = "glob"
    timeout_s: float | None = None
    full_return: bool = False
    options: dict[str, Any] = field(default_factory=dict)
    """Further fields of the publish."""
    token: str = field(default="", repr=False)
    login: Mapping[str, str] | None = field(default=None, repr=False)

    def job(self, origin: str) -> JobCall:
        """The job that a local client is to publish."""
        functions = self.fun.split(",")
        first, *rest = self._calls(functions)
        return JobCall(
            self.tgt,
            first[0],
            arg=first[1],
            kwarg=first[2],
            more=rest,
            tgt_type=self.tgt_type,
            origin=origin,
            **self.options,
        )

    def _calls(self, functions: list[str]) -> list[tuple[str, list[Any], dict[str, Any]]]:
        if len(functions) == 1:
            return [_call(functions[0], self.args, self.kwargs)]
        if self.kwargs or len(self.args) != len(functions) or not all(isinstance(one, list) for one in self.args):
            if self.args or self.kwargs:
                raise UsageError("with several functions `arg` is a list with one list of arguments for each of them")
            return [_call(fun, [], {}) for fun in functions]
        return [_call(fun, args, {}) for fun, args in zip(functions, self.args, strict=True)]


def read_lowstates(body: Any) -> list[Any]:
    """The lowstates of a request: a list of them, or one. Raises UsageError."""
    rows = body if isinstance(body, list) else [body]
    if body is None or not rows:
        raise UsageError("the body is a list of lowstates, such as [{client: local, tgt: '*', fun: test.ping}]")
    if len(rows) > LOWSTATES_MAX:
        raise UsageError(f"one request has at most {LOWSTATES_MAX} lowstates, not {len(rows)}")
    return rows


def read_lowstate(row: Any, enabled: Sequence[str]) -> Lowstate:
    """One lowstate. Raises UsageError for what is none, and for a client that is not enabled."""
    if not isinstance(row, dict):
        raise UsageError("a lowstate is a map, such as {client: local, tgt: '*', fun: test.ping}")
    given = {name: value for name, value in row.items() if value is not None}
    client, fun = _text(given, "client"), _functions(given.get("fun"))
    if client not in CLIENTS:
        raise UsageError(f"there is no client {client[:40]!r}: it is one of {', '.join(CLIENTS)}")
    if client not in enabled:
        raise UsageError(f"the client {client} is disabled: add it to netapi_enable_clients in the API's configuration")
    return _read_local(client, fun, given) if client in LOCAL_CLIENTS else _read_other(client, fun, given)


def _functions(fun: Any) -> str:
    names = fun if isinstance(fun, list) else [fun]
    if not names or not all(isinstance(name, str) and name for name in names):
        raise UsageError("`fun` is a function, such as test.ping, or a list of them")
    return ",".join(names)


def _read_local(client: str, fun: str, given: Mapping[str, Any]) -> Lowstate:
    _refuse_unknown(client, given, _EVERY | _LOCAL)
    tgt = given.get("tgt")
    if not (isinstance(tgt, str) or (isinstance(tgt, list) and all(isinstance(one, str) for one in tgt))) or not tgt:
        raise UsageError("`tgt` is a target, such as '*', or a list of ids")
    kind = given.get("tgt_type", given.get("expr_form", "list" if isinstance(tgt, list) else "glob"))
    if not isinstance(kind, str):
        raise UsageError("`tgt_type` is a text, such as glob or list")
    if isinstance(tgt, list) and kind != "list":
        raise UsageError("a list as `tgt` goes with tgt_type: list")
    return Lowstate(
        client,
        fun,
        _arguments(given),
        _keywords(given),
        tgt,
        kind,
        timeout_s=_seconds(given, "timeout", TIMEOUT_MAX_S),
        full_return=_flag(given, "full_return"),
        options=_options(client, given),
        token=_text(given, "token", ""),
        login=_login(given),
    )


def _read_other(client: str, fun: str, given: Mapping[str, Any]) -> Lowstate:
    """Runners and wheel functions take keyword arguments as fields of the lowstate too, as in Salt."""
    fields = {name: value for name, value in given.items() if name not in _EVERY | {"timeout"}}
    if not all(isinstance(name, str) for name in fields):
        raise UsageError("the names in a lowstate are texts")
    return Lowstate(
        client,
        fun,
        _arguments(given),
        {**fields, **_keywords(given)},
        timeout_s=_seconds(given, "timeout", TIMEOUT_MAX_S),
        full_return=_flag(given, "full_return"),
        token=_text(given, "token", ""),
        login=_login(given),
    )


def _options(client: str, given: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {
        name: given[name] for name in (*_EXECUTORS, "ret") if given.get(name) not in (None, "", [])
    }
    _seconds(given, "gather_job_timeout", TIMEOUT_MAX_S)
    metadata = given.get("metadata", {})
    if not isinstance(metadata, dict) or not all(isinstance(name, str) for name in metadata):
        raise UsageError("`metadata` is a map of what is to be kept with the job")
    if metadata:
        found["metadata"] = metadata
    for name, field_name in (("run_timeout", "run_ms"), ("deliver_by", "deliver_ms")):
        seconds = _seconds(given, name, 365 * 86_400.0)
        if seconds is not None:
            found[field_name] = int(seconds * 1000)
    subset = given.get("subset", given.get("sub", SUBSET_DEFAULT if client == "local_subset" else None))
    if subset is not None:
        found["subset"] = _whole(subset, "subset")
    # Whatever the client is: what was meant to go through a fleet a few at a time must not go to all at once.
    if client == "local_batch" or "batch" in given:
        found["batch"] = _batch(given)
    elif "batch_wait" in given or "failhard" in given:
        raise UsageError("`batch_wait` and `failhard` go with `batch`")
    return found


def _batch(given: Mapping[str, Any]) -> dict[str, Any]:
    written = given.get("batch", BATCH_DEFAULT)
    percent = _PERCENT.fullmatch(written) if isinstance(written, str) else None
    return {
        "size": _whole(written, "batch") if percent is None else int(percent[1]),
        "percent": percent is not None,
        "wait_ms": int((_seconds(given, "batch_wait", 86_400.0) or 0.0) * 1000),
        "failhard": _flag(given, "failhard"),
    }


def _refuse_unknown(client: str, given: Mapping[str, Any], known: set[str]) -> None:
    unknown = sorted(str(name)[:40] for name in given if name not in known)
    if unknown:
        raise UsageError(f"{client} does not take {', '.join(unknown)}")


def _arguments(given: Mapping[str, Any]) -> list[Any]:
    arg = given.get("arg", [])
    return list(arg) if isinstance(arg, list) else [arg]


def _keywords(given: Mapping[str, Any]) -> dict[str, Any]:
    kwarg = given.get("kwarg", {})
    if not isinstance(kwarg, dict) or not all(isinstance(name, str) for name in kwarg):
        raise UsageError("`kwarg` is a map of keyword arguments")
    return dict(kwarg)


def call_of(low: Lowstate) -> tuple[list[Any], dict[str, Any]]:
    """Arguments and keyword arguments of a runner or a wheel function."""
    _fun, args, kwargs = _call(low.fun, low.args, low.kwargs)
    return args, kwargs


def _call(fun: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[str, list[Any], dict[str, Any]]:
    """Texts among the arguments are read as words of a command line: `name=value` is a keyword argument, 5 a number."""
    plain: list[Any] = []
    named: dict[str, Any] = {}
    for arg in args:
        if isinstance(arg, dict) and arg.get(_MARK) is True:
            named.update(_keywords({"kwarg": {name: value for name, value in arg.items() if name != _MARK}}))
            continue
        keyword = _KEYWORD.fullmatch(arg) if isinstance(arg, str) else None
        if keyword is not None:
            named[keyword[1]] = _word(keyword[2])
        else:
            plain.append(_word(arg) if isinstance(arg, str) else arg)
    return fun.strip(), plain, {**named, **kwargs}


def _word(text: str) -> Any:
    if text[:1] not in "[{" or not text:
        # A text of one line that is empty stays one; nothing is not what was meant.
        return resolve(text) if text else text
    try:
        written, duplicates = parse(text.encode())
    except PlacedError:
        return text
    return text if written is None or duplicates else value_of(written)


def _login(given: Mapping[str, Any]) -> dict[str, str] | None:
    """The credentials of a lowstate, None when it has none."""
    if "username" not in given and "eauth" not in given:
        return None
    return read_login(given)


def read_login(given: Any) -> dict[str, str]:
    """The fields of the verb `login`. Raises UsageError."""
    if not isinstance(given, dict):
        raise UsageError("a login is a map of eauth, username and password")
    return {
        "backend": _text(given, "eauth"),
        "username": _text(given, "username"),
        # `sharedsecret` calls it so in Salt.
        "password": _text(given, "password" if "password" in given else "sharedsecret"),
    }


def _text(given: Mapping[str, Any], name: str, default: str | None = None) -> str:
    value = given.get(name, default)
    if not isinstance(value, str) or (default is None and not value):
        raise UsageError(f"`{name}` is missing, or no text")
    return value


def _flag(given: Mapping[str, Any], name: str) -> bool:
    value = given.get(name, False)
    if value in ("true", "True"):  # of a form
        return True
    if not isinstance(value, bool) and value not in ("false", "False"):
        raise UsageError(f"`{name}` is true or false")
    return value is True


def _whole(value: Any, name: str) -> int:
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 9:
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 < value < 2**31:
        raise UsageError(f"`{name}` is a whole number above 0")
    return value


def _seconds(given: Mapping[str, Any], name: str, most: float) -> float | None:
    value = given.get(name)
    if value is None:
        return None
    if isinstance(value, str):
        value = resolve(value[:30])
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value <= most:
        raise UsageError(f"`{name}` is a number of seconds, above 0 and at most {most:g}")
    return float(value)
