"""Lowstates, read and run: each client of Salt's netapi (local, wheel, runner) in terms of the master's verbs.

A lowstate is a map that says which client is to do what; names and meanings are Salt's. By default the API is as
lenient as Salt's: a local client ignores fields that it does not know, and the return of a call that nothing can run is
a text. A strict request gets an error instead.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import time
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, TypeVar

from saltlite.api import link
from saltlite.api.link import MasterLink
from saltlite.api.runner_pool import RunnerError, RunnerPool
from saltlite.api.wheel import READING, TOKEN_CREATE, Wheel
from saltlite.client.local import JobCall
from saltlite.config.api import CLIENTS
from saltlite.config.written import PlacedError, resolve, value_of
from saltlite.config.yamlfile import parse
from saltlite.errors import (
    LoginError,
    NoTargetError,
    RefusedError,
    SaltliteError,
    UncallableError,
    UnreachableError,
    UsageError,
)
from saltlite.model.dataclass import dataclass
from saltlite.model.ids import jid_at
from saltlite.model.redaction import HIDDEN

log = logging.getLogger(__name__)

T = TypeVar("T")


# -- lowstates, checked before anything is asked of the master

LOCAL_CLIENTS = ("local", "local_async", "local_batch", "local_subset")

LOWSTATES_MAX = 100
"""Lowstates of one request."""
TIMEOUT_MAX_S = 3600.0
SUBSET_DEFAULT = 3
BATCH_DEFAULT = "10%"
UNCALLABLE_CODE = 254
"""Salt's retcode of a minion that does not have the function."""
MINE = "mine.valid"
"""saltlite has no mine. SaltGUI would list the letters of a text as functions, and nothing for None."""

_CREDENTIALS = {"token", "username", "password", "eauth"}
_EVERY = {"client", "fun", "arg", "kwarg", "full_return"} | _CREDENTIALS
_EXECUTORS = ("module_executors", "executor_opts")
_BATCH = ("batch", "batch_wait", "failhard")
_LOCAL = {
    *("tgt", "tgt_type", "expr_form", "timeout", "subset", "sub", "run_timeout", "deliver_by", "ret", "metadata"),
    # Salt's timeout of find_job, which does not exist here: it is checked and has no effect.
    "gather_job_timeout",
    *_BATCH,
    *_EXECUTORS,
}
_MARK = "__kwarg__"
"""A map with this key among the arguments holds keyword arguments, as Salt's clients send them."""
_KEYWORD = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.ASCII | re.DOTALL)
_PERCENT = re.compile(r"([0-9]{1,3})%", re.ASCII)


@dataclass(frozen=True, slots=True)
class Lowstate:
    """A lowstate that was read. `token`, or `login`, are its own credentials, as in requests to /run."""

    client: str
    fun: str
    args: list[Any] = field(default_factory=list)
    kwargs: dict[str, Any] = field(default_factory=dict)
    tgt: str | list[str] = ""
    tgt_type: str = "glob"
    timeout_s: float | None = None
    full_return: bool = False
    options: dict[str, Any] = field(default_factory=dict)
    """Other fields of the publish."""
    token: str = field(default="", repr=False)
    login: Mapping[str, str] | None = field(default=None, repr=False)

    def job(self, origin: str) -> JobCall:
        """The job of a local client."""
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


def read_lowstate(row: Any, enabled: Sequence[str], *, strict: bool = True) -> Lowstate:
    """Read one lowstate. Raises UsageError if it is malformed, or its client is not enabled."""
    if not isinstance(row, dict):
        raise UsageError("a lowstate is a map, such as {client: local, tgt: '*', fun: test.ping}")
    given = {name: value for name, value in row.items() if value is not None}
    client, fun = _text(given, "client"), _functions(given.get("fun"))
    if client not in CLIENTS:
        raise UsageError(f"there is no client {client[:40]!r}: it is one of {', '.join(CLIENTS)}")
    if client not in enabled:
        raise UsageError(f"the client {client} is disabled: add it to netapi_enable_clients in the API's configuration")
    if client not in LOCAL_CLIENTS:
        return _read_other(client, fun, given)
    known = _EVERY | _LOCAL
    if strict:
        _refuse_unknown(client, given, known)
    return _read_local(client, fun, {name: value for name, value in given.items() if name in known})


def _functions(fun: Any) -> str:
    names = fun if isinstance(fun, list) else [fun]
    if not names or not all(isinstance(name, str) and name for name in names):
        raise UsageError("`fun` is a function, such as test.ping, or a list of them")
    return ",".join(names)


def _read_local(client: str, fun: str, given: Mapping[str, Any]) -> Lowstate:
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
        raise UsageError("`metadata` is a map that is stored with the job")
    if metadata:
        found["metadata"] = metadata
    for name, field_name in (("run_timeout", "run_ms"), ("deliver_by", "deliver_ms")):
        seconds = _seconds(given, name, 365 * 86_400.0)
        if seconds is not None:
            found[field_name] = int(seconds * 1000)
    subset = given.get("subset", given.get("sub", SUBSET_DEFAULT if client == "local_subset" else None))
    if subset is not None:
        found["subset"] = _whole(subset, "subset")
    # With any client: a job for a few minions at a time must never go to all of them at once.
    if client == "local_batch" or "batch" in given:
        found["batch"] = read_batch(given)
    elif "batch_wait" in given or "failhard" in given:
        raise UsageError("`batch_wait` and `failhard` go with `batch`")
    return found


def read_batch(given: Mapping[str, Any]) -> dict[str, Any]:
    """The field `batch` of a job, of the fields `batch`, `batch_wait` and `failhard`. Raises UsageError."""
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
    """Text arguments are read as words of a command line: `name=value` is a keyword argument, 5 a number."""
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
        # An empty text stays a text, and does not become None.
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
        raise UsageError(f"`{name}` is missing, or not a text")
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


# -- runner and runner_async: each call runs in a process of its login, with the rights of the token's holder

WAITING_MAX = 64
"""Runners that wait; more are refused."""
AS_CALLER = frozenset({"salt.cmd"})
"""Runners that act on this host with the rights of their process."""


@dataclass(frozen=True, slots=True)
class RunnerCall:
    """A runner, its arguments, and the token of its caller."""

    fun: str
    args: list[Any]
    kwargs: Mapping[str, Any]
    token: str
    timeout_s: float | None = None
    is_wheel: bool = False
    """It is one of `wheel.READING`: then it needs the rights of wheel functions."""


class Runners:
    """Runs each runner in a process of its caller's login, a few at a time, and kills those that take too long."""

    def __init__(self, link: MasterLink, config_dir: str, timeout_s: float) -> None:
        self._link = link
        self.config_dir = config_dir
        self._timeout_s = timeout_s
        self._pool = RunnerPool()
        self._waiting = 0
        self._running: set[asyncio.Task[Any]] = set()

    async def run(self, call: RunnerCall) -> tuple[str, dict[str, Any]]:
        """The runner's jid, and `value` and `retcode`. The value of a failed runner is its error message.

        Raises RefusedError when the caller may not run it.
        """
        jid = await self._announce(call)
        return jid, await self._carry_out(call, jid)

    async def start(self, call: RunnerCall) -> dict[str, str]:
        """Start it and return Salt's `{tag, jid}`; its events have that tag."""
        jid, _ = await self.begin(call)
        return {"tag": f"salt/run/{jid}", "jid": jid}

    async def begin(self, call: RunnerCall) -> tuple[str, asyncio.Task[dict[str, Any]]]:
        """Start it: the runner's jid, and what becomes `value` and `retcode`. Raises RefusedError as `run`."""
        jid = await self._announce(call)
        return jid, self.go_on(self._carry_out(call, jid))

    def go_on(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Do work that outlives its request."""
        running = asyncio.ensure_future(work)
        self._running.add(running)
        running.add_done_callback(self._running.discard)
        return running

    async def _announce(self, call: RunnerCall) -> str:
        """The runner's jid, after the master has authorised the call."""
        if self._waiting >= WAITING_MAX:
            raise UnreachableError(f"{WAITING_MAX} runners wait for their turn already; try again")
        if call.fun.count(".") != 1 or "," in call.fun:
            raise UsageError(f"{call.fun[:80]!r} is not a function: it is written module.function, as in manage.up")
        if call.fun in AS_CALLER:
            raise RefusedError(
                f"{call.fun} runs a function as whoever calls it, and here that would be the API's own user, who has "
                "more than its caller: use `saltlite-run` on the master, or the client local"
            )
        jid = _new_jid()
        if call.is_wheel:
            await self._link.call(call.token, "wheel_event", jid=jid, fun=call.fun)
        else:
            await self._link.call(call.token, "runner_event", jid=jid, funs=[call.fun])
        return jid

    async def _carry_out(self, call: RunnerCall, jid: str) -> dict[str, Any]:
        retcode, began = 1, time.monotonic()
        self._waiting += 1
        try:
            found = await self._process(call, jid)
            retcode = found["retcode"]
        except RunnerError as error:
            found = {"value": str(error), "retcode": retcode}
        finally:
            self._waiting -= 1
            duration_ms = int((time.monotonic() - began) * 1000)
            with contextlib.suppress(SaltliteError):  # the runner has ended even if the master does not learn of it
                if call.is_wheel:
                    await self._link.call(call.token, "wheel_event", jid=jid, fun=call.fun, success=retcode == 0)
                else:
                    ended = {"jid": jid, "funs": [call.fun], "retcode": retcode, "duration_ms": duration_ms}
                    await self._link.call(call.token, "runner_event", **ended)
        return found

    async def _process(self, call: RunnerCall, jid: str) -> dict[str, Any]:
        wanted = {
            "config_dir": self.config_dir,
            "token": call.token,
            "fun": call.fun,
            "args": call.args,
            "kwargs": dict(call.kwargs),
            "user": "api",
            "jid": jid,
        }
        return await self._pool.run(wanted, min(call.timeout_s or self._timeout_s, self._timeout_s))

    def close(self) -> None:
        """End the processes that wait for a call."""
        self._pool.close()


class Clients:
    """Runs lowstates."""

    def __init__(
        self,
        link: MasterLink,
        runners: Runners,
        origin: str,
        *,
        strict: bool = True,
        saltgui: Mapping[str, Any] | None = None,
    ) -> None:
        """`origin` is shown in the list of jobs, `saltgui` are the settings of SaltGUI."""
        self._link = link
        self._runners = runners
        self._origin = origin
        self._strict = strict
        self._saltgui = saltgui

    async def run_each(self, lowstates: Sequence[Lowstate], token: str, returned: list[Any]) -> None:
        """Append the return of each lowstate, in order; a batch returns one entry per target, as in Salt.

        The first error is raised, and no further lowstate is run; `returned` then has those of the earlier ones.
        """
        for low in lowstates:
            if low.client == "local_batch":
                returned += await self._batch(low, token)
            else:
                returned.append(await self._run(low, token))

    async def _run(self, low: Lowstate, token: str) -> Any:
        match low.client:
            case "local_async":
                return await self._publish(low, token)
            case "runner":
                return await self._runner(low, token)
            case "runner_async":
                return await self._runners.start(_runner_call(low, token))
            case "wheel":
                return await self._wheel(low, token, _new_jid())
            case "wheel_async":
                return await self._start_wheel(low, token)
        try:
            finished = await self._job(low, token)
        except UncallableError as error:
            return self._uncallable(low, error)
        if finished is None:
            return {}
        return finished.full() if low.full_return else {**finished.silent(), **finished.values()}

    def _uncallable(self, low: Lowstate, error: UncallableError) -> dict[str, Any]:
        """What each target returns to a call that none of them can run. Raises the error for a strict request."""
        if self._strict:
            raise error
        text = f"'{error.missing}' is not available." if error.missing else str(error)
        returned = None if error.missing == MINE else text
        row = {"ret": returned, "retcode": UNCALLABLE_CODE, "success": False, "jid": ""}
        return dict.fromkeys(error.targets, row if low.full_return else returned)

    async def _publish(self, low: Lowstate, token: str) -> dict[str, Any] | str:
        """Publish without waiting: `{jid, minions}`, {} for an empty target, and a text for an uncallable function."""
        try:
            published = await link.publish(self._link, token, low.job(self._origin))
        except NoTargetError:
            return {}
        except UncallableError as error:
            if self._strict:
                raise
            return str(error)
        names = [*published.minions, *published.managing]
        return {"jid": published.jid, "minions": sorted(published.name(target) for target in names)}

    async def _job(self, low: Lowstate, token: str) -> link.Finished | None:
        try:
            return await link.run(self._link, token, low.job(self._origin), low.timeout_s)
        except NoTargetError:
            return None

    async def _batch(self, low: Lowstate, token: str) -> list[dict[str, Any]]:
        try:
            finished = await self._job(low, token)
        except UncallableError as error:
            return [{name: row} for name, row in self._uncallable(low, error).items()]
        if finished is None:
            return [{}]
        rows = finished.full() if low.full_return else finished.values()
        return [{name: row} for name, row in rows.items()]

    async def _runner(self, low: Lowstate, token: str) -> Any:
        try:
            jid, found = await self._runners.run(_runner_call(low, token))
        except UsageError as error:
            if self._strict:
                raise
            jid, found = _new_jid(), {"value": str(error), "retcode": 1}
        if not low.full_return:
            return found["value"]
        return {
            "fun": f"runner.{low.fun}",
            "jid": jid,
            "return": found["value"],
            "success": found["retcode"] == 0,
            "retcode": found["retcode"],
        }

    async def _wheel(self, low: Lowstate, token: str, jid: str) -> dict[str, Any]:
        args, kwargs = call_of(low)
        success = True
        try:
            if low.fun in READING:
                jid, found = await self._runners.run(replace(_runner_call(low, token), is_wheel=True))
                returned, success = found["value"], found["retcode"] == 0
            else:
                returned = await Wheel(self._link, token, self._saltgui).call(low.fun, args, kwargs)
        except UsageError as error:
            if self._strict:
                raise
            returned, success = str(error), False
        tag = f"salt/wheel/{jid}"
        data = {"fun": f"wheel.{low.fun}", "jid": jid, "tag": tag, "return": returned, "success": success}
        return {"tag": tag, "data": data}

    async def _start_wheel(self, low: Lowstate, token: str) -> dict[str, str]:
        """Start it and return Salt's `{tag, jid}`; its events have that tag, the last one its return."""
        jid = _new_jid()
        await self._link.call(token, "wheel_event", jid=jid, fun=low.fun)
        self._runners.go_on(self._wheel_to_its_event(low, token, jid))
        return {"tag": f"salt/wheel/{jid}", "jid": jid}

    async def _wheel_to_its_event(self, low: Lowstate, token: str, jid: str) -> None:
        try:
            data = (await self._wheel(low, token, jid))["data"]
            success, returned = data["success"], data["return"]
        except SaltliteError as error:
            success, returned = False, str(error)
        if low.fun == TOKEN_CREATE and success:
            returned = HIDDEN
        for answer in (returned, "the return cannot be sent as an event: call it with the client wheel"):
            try:
                ended = {"jid": jid, "fun": low.fun, "success": success, "data": {"return": answer}}
                await self._link.call(token, "wheel_event", **ended)
            except UsageError:
                continue
            except SaltliteError as error:
                log.warning("the event of the wheel function %s cannot be written: %s", low.fun, error)
            return


def _new_jid() -> str:
    return jid_at(time.time_ns() // 1000)


def _runner_call(low: Lowstate, token: str) -> RunnerCall:
    args, kwargs = call_of(low)
    return RunnerCall(low.fun, args, kwargs, token, low.timeout_s)


async def logged_in(link: MasterLink, low: Lowstate) -> str:
    """The token of a lowstate of /run, or a new one for its credentials. Raises LoginError."""
    if low.token:
        return low.token
    if low.login is None:
        raise LoginError("a lowstate for /run has `token`, or `eauth`, `username` and `password`")
    token: str = (await link.call("", "login", **low.login))["token"]
    return token


async def logged_out(link: MasterLink, token: str) -> None:
    """Revoke a token that was made for one request; if that fails, it expires."""
    with contextlib.suppress(SaltliteError):
        await link.call(token, "logout")
