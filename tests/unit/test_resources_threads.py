"""The threads of resources whose type has THREAD_PER_RESOURCE."""

from __future__ import annotations

import threading

import pytest

from saltlite.minion.resources import calls
from saltlite.minion.resources.calls import NoThreadError, ResourceThreads


def refuse(_thread: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


def test_a_thread_that_cannot_be_started_fails_its_call_and_not_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = ResourceThreads()
    with monkeypatch.context() as without:
        without.setattr(threading.Thread, "start", refuse)
        with pytest.raises(NoThreadError, match="raise TasksMax"):
            threads.run("a:1", lambda: 1)
    assert threads.run("a:1", lambda: 2) == 2


def test_what_a_call_raises_is_raised_to_its_caller() -> None:
    threads = ResourceThreads()
    with pytest.raises(ZeroDivisionError):
        threads.run("a:1", lambda: 1 // 0)
    assert threads.run("a:1", lambda: 2) == 2


def test_the_thread_of_a_resource_that_is_gone_ends() -> None:
    threads = ResourceThreads()
    kept, gone = (threads.run(one, threading.current_thread) for one in ("a:1", "a:2"))
    threads.keep(["a:1"])
    gone.join(60)
    assert (gone.is_alive(), threads.run("a:1", threading.current_thread)) == (False, kept)
    assert threads.run("a:2", threading.current_thread) is not gone


def test_the_threads_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "RESOURCE_THREADS_MAX", 1)
    threads = ResourceThreads()
    assert threads.run("a:1", lambda: 1) == 1
    with pytest.raises(NoThreadError, match="1 resources of its type have threads"):
        threads.run("a:2", lambda: 1)
    threads.keep([])
    assert threads.run("a:2", lambda: 2) == 2
