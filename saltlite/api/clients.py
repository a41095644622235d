"""Lowstates carried out: each client of Salt's netapi (local, wheel, runner) in terms of the master's verbs."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import json
import logging
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from saltlite.api import link
from saltlite.api.link import MasterLink
from saltlite.api.lowstate import Lowstate, call_of
from saltlite.errors import LoginError, NoTargetError, RefusedError, SaltliteError, UnreachableError, UsageError
from saltlite.model import keys
from saltlite.model.ids import jid_at
from saltlite.wire.framing import pack

# -- wheel: work on keys, with the names and answers of Salt's wheel functions

TOKEN_LASTS_S = 3600.0
"""The default lifetime of a join token."""
GENERATING = ("key.gen", "key.gen_accept", "key.gen_keys")
"""Salt's functions that make private keys on the master; here a private key never leaves its minion."""


class Wheel:
    """The wheel functions, on behalf of the holder of a token."""

    def __init__(self, link: MasterLink, token: str) -> None:
        self._link = link
        self._token = token

    async def call(self, fun: str, args: Iterable[Any], kwargs: Mapping[str, Any]) -> Any:
        """Call a wheel function. Raises UsageError for an unknown function or wrong arguments."""
        function = _FUNCTIONS.get(fun)
        if fun in GENERATING:
            raise UsageError(f"{fun}: a minion makes its own key; let it in with a join token of key.token_create")
        if function is None:
            raise UsageError(f"there is no wheel function {fun[:80]!r}: there are {', '.join(_FUNCTIONS)}")
        given = list(args)
        try:
            inspect.signature(function).bind(self, *given, **kwargs)
        except TypeError as error:
            raise UsageError(f"{fun}: {error}") from None
        return await function(self, *given, **kwargs)

    async def list_all(self) -> dict[str, list[str]]:
        """Ids by list, as Salt's `key.list_all`."""
        return keys.all_lists(await self._rows())

    async def list_some(self, match: str) -> dict[str, list[str]]:
        """One of the lists, or the keys whose ids match a glob, as Salt's `key.list`."""
        return keys.some_lists(await self._rows(), match)

    async def name_match(self, match: str) -> dict[str, list[str]]:
        """Ids that match a glob, by list."""
        return keys.matching(await self.list_all(), match)

    async def finger(self, match: str, hash_type: str = "sha256") -> dict[str, dict[str, str]]:
        """Fingerprints of keys whose ids match a glob, by list. There is one `hash_type` only."""
        if hash_type != "sha256":
            raise UsageError("fingerprints are made with sha256 only")
        own = ""
        if match in ("*", keys.LOCAL_KEY):
            own = (await self._link.call(self._token, "key_finger"))["master"]["fingerprint"]
        return keys.fingerprints(await self._rows(), match, own)

    async def finger_of(self, minion: str) -> dict[str, dict[str, str]]:
        """Fingerprints of the keys of one id, by list."""
        found = await self.finger("*")
        rows = {name: {one: text for one, text in ids.items() if one == minion} for name, ids in found.items()}
        return {name: ids for name, ids in rows.items() if ids}

    async def accept(
        self, match: str, include_rejected: bool = False, include_denied: bool = False
    ) -> dict[str, list[str]]:
        """Accept the keys whose ids match a glob."""
        states = ["pending", *(["rejected"] if include_rejected else []), *(["conflict"] if include_denied else [])]
        return await self._change("accept", match, states, "minions")

    async def accept_dict(self, match: Mapping[str, Any]) -> dict[str, list[str]]:
        """Accept keys by list and id, as `{minions_pre: [id]}`."""
        return await self._change_named("accept", match, "minions")

    async def reject(
        self, match: str, include_accepted: bool = False, include_denied: bool = False
    ) -> dict[str, list[str]]:
        """Reject the keys whose ids match a glob."""
        states = ["pending", *(["accepted"] if include_accepted else []), *(["conflict"] if include_denied else [])]
        return await self._change("reject", match, states, "minions_rejected")

    async def reject_dict(self, match: Mapping[str, Any]) -> dict[str, list[str]]:
        """Reject keys by list and id."""
        return await self._change_named("reject", match, "minions_rejected")

    async def revoke(self, match: str) -> dict[str, list[str]]:
        """Revoke the accepted keys whose ids match a glob; Salt has no such function."""
        return await self._change("revoke", match, ["accepted"], "minions_revoked")

    async def delete(self, match: str) -> dict[str, list[str]]:
        """Delete the keys whose ids match a glob."""
        await self._change("delete", match, list(keys.LISTS.values()), "")
        return {}

    async def delete_dict(self, match: Mapping[str, Any]) -> dict[str, list[str]]:
        """Delete keys by list and id."""
        await self._change_named("delete", match, "")
        return {}

    async def token_create(self, match: str = "*", uses: int = 1, expires_s: float = TOKEN_LASTS_S) -> dict[str, Any]:
        """A join token for minions whose ids match a glob; Salt has no such function."""
        if not (isinstance(match, str) and type(uses) is int and type(expires_s) in (int, float)):
            raise UsageError("`match` is a glob on ids, `uses` a whole number, `expires_s` a number of seconds")
        answer = await self._link.call(self._token, "token_create", id_glob=match, uses=uses, expires_s=expires_s)
        return {"join_token": answer["token"], "match": match, "uses": uses, "expires_s": expires_s}

    async def _rows(self) -> Any:
        return (await self._link.call(self._token, "key_list"))["keys"]

    async def _change(self, action: str, match: str, states: Sequence[str], list_name: str) -> dict[str, list[str]]:
        return await self._carry_out(action, keys.chosen(await self._rows(), match, states), list_name)

    async def _change_named(self, action: str, match: Mapping[str, Any], list_name: str) -> dict[str, list[str]]:
        return await self._carry_out(action, keys.chosen_by_name(await self._rows(), match), list_name)

    async def _carry_out(self, action: str, rows: Sequence[keys.Row], list_name: str) -> dict[str, list[str]]:
        if not rows:
            return {}
        fingerprints = [row["fingerprint"] for row in rows]
        answer = await self._link.call(self._token, "key_change", action=action, fingerprints=fingerprints)
        return keys.changed(answer, list_name)


_FUNCTIONS: dict[str, Callable[..., Awaitable[Any]]] = {
    "key.list_all": Wheel.list_all,
    "key.list": Wheel.list_some,
    "key.name_match": Wheel.name_match,
    "key.glob_match": Wheel.name_match,
    "key.finger": Wheel.finger,
    "key.accept": Wheel.accept,
    "key.accept_dict": Wheel.accept_dict,
    "key.reject": Wheel.reject,
    "key.reject_dict": Wheel.reject_dict,
    "key.revoke": Wheel.revoke,
    "key.delete": Wheel.delete,
    "key.delete_dict": Wheel.delete_dict,
    "key.token_create": Wheel.token_create,
}


# -- runner and runner_async: each call in a process of its own, with the rights of the token's holder

log = logging.getLogger(__name__)

AT_ONCE_MAX = 4
"""Concurrent runners; others wait."""
WAITING_MAX = 64
"""Runners that wait; more are refused."""
AS_CALLER = frozenset({"salt.cmd"})
"""Runners that act on this machine with the rights of their process."""
OUTPUT_MAX = 64 * 1024 * 1024
_STDERR_SHOWN = 300
_KEPT_NAMES = ("CACHE_DIRECTORY", "PATH", "PYTHONPATH", "PYTHONDONTWRITEBYTECODE", "LANG", "LC_ALL", "TZ")


class RunnerError(SaltliteError):
    """A runner was killed, or its process gave no valid answer."""


@dataclass(frozen=True, slots=True)
class RunnerCall:
    """A runner, its arguments, and the token of its caller."""

    fun: str
    args: list[Any]
    kwargs: Mapping[str, Any]
    token: str
    timeout_s: float | None = None


class Runners:
    """Runs each runner in a process, a few at a time, and kills those that take too long."""

    def __init__(self, link: MasterLink, config_dir: str, timeout_s: float) -> None:
        self._link = link
        self._config_dir = config_dir
        self._timeout_s = timeout_s
        self._turns = asyncio.Semaphore(AT_ONCE_MAX)
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
        jid = await self._announce(call)
        running = asyncio.ensure_future(self._carry_out(call, jid))
        self._running.add(running)
        running.add_done_callback(self._running.discard)
        return {"tag": f"salt/run/{jid}", "jid": jid}

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
        jid = jid_at(time.time_ns() // 1000)
        await self._link.call(call.token, "runner_event", jid=jid, funs=[call.fun])
        return jid

    async def _carry_out(self, call: RunnerCall, jid: str) -> dict[str, Any]:
        retcode, began = 1, time.monotonic()
        self._waiting += 1
        try:
            async with self._turns:
                found = await self._process(call, jid)
            retcode = found["retcode"]
        except RunnerError as error:
            found = {"value": str(error), "retcode": retcode}
        finally:
            self._waiting -= 1
            duration_ms = int((time.monotonic() - began) * 1000)
            ended = {"jid": jid, "funs": [call.fun], "retcode": retcode, "duration_ms": duration_ms}
            with contextlib.suppress(SaltliteError):  # the runner has ended even if the master cannot be told
                await self._link.call(call.token, "runner_event", **ended)
        return found

    async def _process(self, call: RunnerCall, jid: str) -> dict[str, Any]:
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "saltlite.api.runner_process",
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env={name: os.environ[name] for name in _KEPT_NAMES if name in os.environ},
                cwd="/",
                start_new_session=True,
            )
        except OSError as error:
            raise RunnerError(f"{call.fun} could not be started: {error.strerror}: {error.filename}") from error
        wanted = {
            "config_dir": self._config_dir,
            "token": call.token,
            "fun": call.fun,
            "args": call.args,
            "kwargs": dict(call.kwargs),
            "user": "api",
            "jid": jid,
        }
        timeout_s = min(call.timeout_s or self._timeout_s, self._timeout_s)
        try:
            async with asyncio.timeout(timeout_s):
                out, err = await process.communicate(pack(wanted))
        except TimeoutError:
            raise RunnerError(f"{call.fun} has not ended in {timeout_s:g}s and was killed") from None
        finally:
            # This also ends what the runner started.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
        return _outcome(call.fun, out, err)


def _outcome(fun: str, out: bytes, err: bytes) -> dict[str, Any]:
    if err:
        log.warning("the runner %s said: %s", fun, err.decode("utf-8", "backslashreplace")[-_STDERR_SHOWN:])
    if len(out) > OUTPUT_MAX:
        raise RunnerError(f"{fun} returned more than {OUTPUT_MAX} bytes")
    try:
        found = json.loads(out)
    except ValueError:
        raise RunnerError(f"the process of {fun} ended without an answer; the API's log has what it said") from None
    if not isinstance(found, dict) or not {"value", "retcode"} <= found.keys():
        raise RunnerError(f"the process of {fun} answered nonsense")
    return found


class Clients:
    """Runs lowstates. `origin` tells the list of jobs where they came from."""

    def __init__(self, link: MasterLink, runners: Runners, origin: str) -> None:
        self._link = link
        self._runners = runners
        self._origin = origin

    async def run_each(self, lowstates: Sequence[Lowstate], token: str) -> list[Any]:
        """The return of each lowstate, in order; a batch returns one entry per target, as in Salt.

        The first error is raised, and no further lowstate is run.
        """
        returned: list[Any] = []
        for low in lowstates:
            if low.client == "local_batch":
                returned += await self._batch(low, token)
            else:
                returned.append(await self._run(low, token))
        return returned

    async def _run(self, low: Lowstate, token: str) -> Any:
        match low.client:
            case "local_async":
                return await self.publish(low, token)
            case "runner":
                return await self._runner(low, token)
            case "runner_async":
                return await self._runners.start(_runner_call(low, token))
            case "wheel":
                return await self._wheel(low, token)
        finished = await self._job(low, token)
        if finished is None:
            return {}
        return finished.full() if low.full_return else {**finished.silent(), **finished.values()}

    async def publish(self, low: Lowstate, token: str) -> dict[str, Any]:
        """Publish without waiting: `{jid, minions}`, {} for an empty target."""
        try:
            published = await link.publish(self._link, token, low.job(self._origin))
        except NoTargetError:
            return {}
        names = [*published.minions, *published.managing]
        return {"jid": published.jid, "minions": sorted(published.name(target) for target in names)}

    async def _job(self, low: Lowstate, token: str) -> link.Finished | None:
        try:
            return await link.run(self._link, token, low.job(self._origin), low.timeout_s)
        except NoTargetError:
            return None

    async def _batch(self, low: Lowstate, token: str) -> list[dict[str, Any]]:
        finished = await self._job(low, token)
        if finished is None:
            return [{}]
        rows = finished.full() if low.full_return else finished.values()
        return [{name: row} for name, row in rows.items()]

    async def _runner(self, low: Lowstate, token: str) -> Any:
        jid, found = await self._runners.run(_runner_call(low, token))
        if not low.full_return:
            return found["value"]
        return {
            "fun": f"runner.{low.fun}",
            "jid": jid,
            "return": found["value"],
            "success": found["retcode"] == 0,
            "retcode": found["retcode"],
        }

    async def _wheel(self, low: Lowstate, token: str) -> dict[str, Any]:
        args, kwargs = call_of(low)
        jid = jid_at(time.time_ns() // 1000)
        returned = await Wheel(self._link, token).call(low.fun, args, kwargs)
        tag = f"salt/wheel/{jid}"
        data = {"fun": f"wheel.{low.fun}", "jid": jid, "tag": tag, "return": returned, "success": True}
        return {"tag": tag, "data": data}


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
