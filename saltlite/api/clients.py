"""Lowstates carried out: each client of Salt's netapi, in terms of the master's verbs."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from typing import Any

from saltlite.api import jobs
from saltlite.api.link import MasterLink
from saltlite.api.lowstate import Lowstate, call_of
from saltlite.api.runners import RunnerCall, Runners
from saltlite.api.wheel import Wheel
from saltlite.errors import LoginError, NoTargetError, SaltliteError
from saltlite.model.ids import jid_at


class Clients:
    """Carries out lowstates. `origin` is from where they came, for the list of jobs."""

    def __init__(self, link: MasterLink, runners: Runners, origin: str) -> None:
        self._link = link
        self._runners = runners
        self._origin = origin

    async def run_each(self, lowstates: Sequence[Lowstate], token: str) -> list[Any]:
        """What each of them returned, in their order; a batch returns one entry a target, as in Salt.

        Raises what the first that fails raises: the others behind it are not begun.
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
        """Publish and wait for nothing: `{jid, minions}`, {} when the target is nobody."""
        try:
            published = await jobs.publish(self._link, token, low.job(self._origin))
        except NoTargetError:
            return {}
        names = [*published.minions, *published.managing]
        return {"jid": published.jid, "minions": sorted(published.name(target) for target in names)}

    async def _job(self, low: Lowstate, token: str) -> jobs.Finished | None:
        try:
            return await jobs.run(self._link, token, low.job(self._origin), low.timeout_s)
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
    """The token that a lowstate of /run has, or one for its credentials. Raises LoginError."""
    if low.token:
        return low.token
    if low.login is None:
        raise LoginError("a lowstate for /run has `token`, or `eauth`, `username` and `password`")
    token: str = (await link.call("", "login", **low.login))["token"]
    return token


async def logged_out(link: MasterLink, token: str) -> None:
    """Make a token void that was made for the credentials of one request; when that fails it expires."""
    with contextlib.suppress(SaltliteError):
        await link.call(token, "logout")
