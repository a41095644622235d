"""Runners of hooks, between the process of hooks and the one that starts them: how many, how long, how large."""

from __future__ import annotations

import os
import signal
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from saltlite.errors import RefusedError
from saltlite.hooks import Firing, read_hooks
from saltlite.master.processes import runners as starting
from saltlite.master.processes.hooks import WAITING_MAX, HookRunners, run_of_hook
from saltlite.master.processes.runners import (
    AT_ONCE_MAX,
    AT_ONCE_OF_A_MINION,
    FAILED,
    MESSAGE_MAX,
    RunnerStart,
    Starter,
)
from saltlite.platform.reactor import Reactor
from saltlite.wire.framing import pack, unpack
from tests.support.fleet import ME, alive, wait_until

JID = "20260131235959123456"
HOOKS = read_hooks({"h": {"event": "x", "as": ME, "runner": {"fun": "a.b"}}})


def firing(*args: object) -> Firing:
    return Firing("a.b", list(args), {}, None, "glob")


def run_of_minion(message: Mapping[str, Any]) -> RunnerStart:
    return RunnerStart(f"minion:{message['minion']}", ME, "a.b", message["args"], {}, message["jid"], "minion")


@contextmanager
def starter(run_of: Callable[[Mapping[str, Any]], RunnerStart] | None = None) -> Iterator[socket.socket]:
    """A starter in a thread of this process, for hooks or what else `run_of` makes runners of; the way to it."""
    ours, theirs = socket.socketpair()
    one = Starter("/nowhere", run_of or partial(run_of_hook, {"h": HOOKS[0]}), has_value=run_of is not None)
    serving = threading.Thread(target=one.serve, args=(theirs,))
    serving.start()
    ours.settimeout(60.0)
    try:
        yield ours
    finally:
        ours.close()
        serving.join(60)
        theirs.close()
    assert not serving.is_alive()


def send(sock: socket.socket, **message: object) -> None:
    data = pack({"hook": "h", "args": [], "kwargs": {}, "jid": JID, **message})
    sock.sendall(struct.pack(">I", len(data)) + data)


def answers(sock: socket.socket, count: int) -> dict[int, int]:
    """number -> retcode of the next answers."""
    return {said["n"]: said["retcode"] for said in (one_answer(sock) for _ in range(count))}


def one_answer(sock: socket.socket) -> dict[str, Any]:
    (size,) = struct.unpack(">I", sock.recv(4, socket.MSG_WAITALL))
    return unpack(sock.recv(size, socket.MSG_WAITALL))


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runners that wait until they are let go."""
    monkeypatch.setattr(starting, "MODULE", "tests.support.slow_runner")
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))


@pytest.mark.usefixtures("slow")
def test_so_many_runners_of_hooks_run_at_once_and_the_others_behind_them(tmp_path: Path) -> None:
    with starter() as sock:
        for number in range(AT_ONCE_MAX + 2):
            send(sock, n=number, args=[str(tmp_path)])
        wait_until((tmp_path / f"peak-{AT_ONCE_MAX}").exists, "as many run as may")
        (tmp_path / "go").touch()
        assert answers(sock, AT_ONCE_MAX + 2) == dict.fromkeys(range(AT_ONCE_MAX + 2), 0)
    assert not (tmp_path / f"peak-{AT_ONCE_MAX + 1}").exists()


@pytest.mark.usefixtures("slow")
def test_so_many_runners_of_one_minion_run_at_once_and_one_without_a_turn_is_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(starting, "TURN_S", 0.5)
    with starter(run_of_minion) as sock:
        for number in range(AT_ONCE_OF_A_MINION + 1):
            send(sock, n=number, minion="web1", args=[str(tmp_path)])
        said = one_answer(sock)
        assert (said["retcode"], b"had no turn within 0.5 s and was not run" in said["value"]) == (FAILED, True)
        send(sock, n=9, minion="web2", args=[str(tmp_path)])
        wait_until((tmp_path / f"peak-{AT_ONCE_OF_A_MINION + 1}").exists, "another minion has a turn")
        (killed, *_) = tmp_path.glob("running-*")
        os.killpg(int(killed.name.rpartition("-")[2]), signal.SIGKILL)
        said = one_answer(sock)
        assert (said["retcode"], b"ended without a result (return code -9); what it did" in said["value"]) == (
            FAILED,
            True,
        )
        monkeypatch.setattr(starting, "TURN_S", 60.0)
        send(sock, n=10, minion="web1", args=[str(tmp_path)])
        (tmp_path / "go").touch()
        assert list(answers(sock, AT_ONCE_OF_A_MINION + 1).values()) == [0] * (AT_ONCE_OF_A_MINION + 1)


@pytest.mark.usefixtures("slow")
def test_a_runner_that_takes_too_long_is_killed_with_what_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(starting, "RUN_S", 8.0)  # Python has started by then, on a busy machine too
    began = time.monotonic()
    with starter() as sock:
        send(sock, n=1, args=[str(tmp_path)])
        assert answers(sock, 1) == {1: FAILED}
    (mine,) = tmp_path.glob("running-*")
    assert time.monotonic() - began < 45.0  # the runner itself would wait for 60 s
    assert not alive(int(mine.name.rpartition("-")[2]))
    wait_until(lambda: not alive(int(mine.read_text())), "the child of the runner is gone")


def test_a_hook_that_the_starter_does_not_know_is_not_run_and_it_goes_on(tmp_path: Path) -> None:
    with starter() as sock:
        send(sock, n=1, hook="of-somebody-else")
        assert answers(sock, 1) == {1: FAILED}
        send(sock, n=2, hook="neither")
        assert answers(sock, 1) == {2: FAILED}


def test_the_starter_reads_no_message_that_is_too_large() -> None:
    with starter() as sock:
        (serving,) = [one for one in threading.enumerate() if one.name.endswith("(serve)")]
        sock.sendall(struct.pack(">I", MESSAGE_MAX + 1))
        serving.join(60)
        assert not serving.is_alive()


@contextmanager
def runners() -> Iterator[tuple[HookRunners, socket.socket, Callable[[], None]]]:
    """The side of the process of hooks; the starter's end, and how to let it look."""
    ours, theirs = socket.socketpair()
    reactor = Reactor()
    side = HookRunners(reactor, ours)

    def look() -> None:
        reactor.call_later(0.1, reactor.stop)
        reactor.run()

    try:
        yield side, theirs, look
    finally:
        theirs.close()
        look()


def test_more_runners_than_may_wait_are_refused_until_one_has_ended() -> None:
    (hook,) = HOOKS
    ended: list[int] = []
    with runners() as (side, starts, look):
        for _ in range(WAITING_MAX):
            side.run(hook, firing(), JID, ended.append)
        with pytest.raises(RefusedError, match=f"{WAITING_MAX} runners"):
            side.run(hook, firing(), JID, ended.append)
        said = pack({"n": 1, "retcode": 5})
        starts.sendall(struct.pack(">I", len(said)) + said)
        look()
        assert ended == [5]
        side.run(hook, firing(), JID, ended.append)


def test_arguments_that_are_too_large_are_refused_and_keep_no_place() -> None:
    (hook,) = HOOKS
    with runners() as (side, _starts, _look):
        for _ in range(WAITING_MAX + 1):
            with pytest.raises(RefusedError, match="its arguments have"):
                side.run(hook, firing("x" * MESSAGE_MAX), JID, lambda _retcode: None)
