"""Processes of runners: one for the calls of a login, ended with all that it started after anything unexpected."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from saltlite.api import runner_pool
from saltlite.api.runner_pool import AT_ONCE_MAX, RunnerError, RunnerPool

WAIT_S = 60.0


@pytest.fixture(autouse=True)
def _stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner_pool, "MODULE", "tests.support.served_runner")
    root = str(Path(__file__).parents[2])
    start = asyncio.create_subprocess_exec

    async def at_root(*words: str, **options: Any) -> asyncio.subprocess.Process:
        return await start(*words, **{**options, "cwd": root})

    monkeypatch.setattr(asyncio, "create_subprocess_exec", at_root)


def story(play: Callable[[RunnerPool], Awaitable[None]]) -> None:
    async def whole() -> None:
        pool = RunnerPool()
        async with asyncio.timeout(WAIT_S):
            await play(pool)
            pool.close()
            await until(lambda: not pool._ending)

    asyncio.run(whole())


async def until(look: Callable[[], bool]) -> None:
    while not look():  # noqa: ASYNC110 - nothing tells it
        await asyncio.sleep(0.01)


async def called(pool: RunnerPool, fun: str = "t.more", *args: str, token: str = "a", timeout_s: float = 30.0) -> Any:  # noqa: S107 - a name
    wanted = {"fun": fun, "token": token, "args": list(args), "kwargs": {}, "jid": "1"}
    found = await pool.run(wanted, timeout_s)
    assert found["retcode"] == 0
    return found["value"]


def runs(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False


def test_a_process_serves_the_next_call_of_its_login_and_no_other() -> None:
    async def play(pool: RunnerPool) -> None:
        first, again, other, third = [await called(pool, token=token) for token in ("a", "a", "b", "a")]
        assert first["pid"] == again["pid"] == third["pid"] != other["pid"]
        assert [one["calls"] for one in (first, again, other, third)] == [1, 2, 1, 3]
        assert (third["token"], other["token"]) == ("a", "b")

    story(play)


def test_after_a_call_that_leaves_a_trace_the_process_is_ended() -> None:
    async def play(pool: RunnerPool) -> None:
        last = await called(pool, "t.last")
        assert not runs(last["pid"])
        assert (await called(pool))["calls"] == 1

    story(play)


def test_a_process_gets_no_call_after_its_time_and_does_not_wait_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner_pool, "LIVES_S", 0.3)

    async def play(pool: RunnerPool) -> None:
        first = await called(pool)
        await until(lambda: not runs(first["pid"]))
        assert not pool._idle
        assert (await called(pool))["pid"] != first["pid"]

    story(play)


def test_few_processes_wait_for_a_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner_pool, "IDLE_MAX", 1)

    async def play(pool: RunnerPool) -> None:
        first, second = await called(pool, token="a"), await called(pool, token="b")
        await until(lambda: not runs(first["pid"]))
        assert runs(second["pid"])
        assert list(pool._idle) == ["b"]

    story(play)


def test_calls_of_one_login_at_once_have_processes_of_their_own(tmp_path: Path) -> None:
    async def play(pool: RunnerPool) -> None:
        go = tmp_path / "go"
        waiting = [asyncio.ensure_future(called(pool, "t.waits", str(go))) for _ in range(AT_ONCE_MAX)]
        late = asyncio.ensure_future(called(pool))
        await asyncio.sleep(0.2)
        assert not late.done()
        go.touch()
        pids = {(await one)["pid"] for one in waiting}
        assert len(pids) == AT_ONCE_MAX
        await late
        await until(lambda: sum(map(runs, pids)) <= 1)
        assert len(pool._idle) == 1

    story(play)


def test_a_call_that_takes_too_long_is_killed_with_what_it_started(tmp_path: Path) -> None:
    async def play(pool: RunnerPool) -> None:
        note = tmp_path / "child"
        with pytest.raises(RunnerError, match=r"t.hangs has not ended in 3s and was killed"):
            await called(pool, "t.hangs", str(note), timeout_s=3.0)
        child = int(note.read_text())
        await until(lambda: not runs(child))
        assert not pool._idle

    story(play)


@pytest.mark.parametrize(
    ("fun", "sentence"),
    [
        ("t.dies", "ended without an answer"),
        ("t.floods", "returned more than"),
        ("t.garbles", "gave an invalid answer"),
        ("t.lacks", "gave an invalid answer"),
    ],
)
def test_a_process_without_a_valid_answer_is_ended(fun: str, sentence: str, caplog: pytest.LogCaptureFixture) -> None:
    async def play(pool: RunnerPool) -> None:
        before = await called(pool)
        with pytest.raises(RunnerError, match=sentence):
            await called(pool, fun)
        assert not runs(before["pid"])
        assert (await called(pool))["calls"] == 1

    with caplog.at_level(logging.WARNING):
        story(play)
    assert ("the runner t.dies printed: no room" in caplog.text) == (fun == "t.dies")


def test_an_interrupted_call_leaves_no_process(tmp_path: Path) -> None:
    async def play(pool: RunnerPool) -> None:
        note = tmp_path / "child"
        call = asyncio.ensure_future(called(pool, "t.hangs", str(note)))
        await until(lambda: note.exists() and note.read_text() != "")
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await until(lambda: not runs(int(note.read_text())))

    story(play)


def test_a_process_that_cannot_be_started_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fails(*_words: str, **_options: Any) -> asyncio.subprocess.Process:
        raise OSError(os.strerror(12))

    monkeypatch.setattr(asyncio, "create_subprocess_exec", fails)

    async def play(pool: RunnerPool) -> None:
        with pytest.raises(RunnerError, match="could not be started"):
            await called(pool)

    began = time.monotonic()
    story(play)
    assert time.monotonic() - began < WAIT_S
