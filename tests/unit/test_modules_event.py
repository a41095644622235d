"""`event`: three ways to say one thing, with the arguments that Salt has for each."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from saltlite.loader.call import Outcome, call
from saltlite.loader.index import build_index
from saltlite.loader.loader import Loader
from saltlite.loader.search_path import search_layers

INDEX = build_index(search_layers({}))


class Sender:
    """Takes events, and writes them down."""

    def __init__(self) -> None:
        self.sent: list[tuple[Any, ...]] = []

    def send(self, *event: Any) -> None:
        self.sent.append(event)


def run(fun: str, *args: Any, **kwargs: Any) -> tuple[Outcome, list[tuple[Any, ...]]]:
    sender = Sender()
    loader = Loader(INDEX, {"saltenv": "base"}, {"os": "Debian", "id": "web1"}, {"a": 1}, more={"__events__": sender})
    return call(loader, f"event.{fun}", args, kwargs), sender.sent


@pytest.mark.parametrize(
    ("fun", "args", "kwargs", "sent"),
    [
        ("fire", ({"v": 1}, "app/x"), {}, ("app/x", {"v": 1}, 60.0)),
        ("fire", ({"v": 1}, "app/x"), {"timeout": 5}, ("app/x", {"v": 1}, 5)),
        ("fire_master", ({"v": 1}, "app/x"), {}, ("app/x", {"v": 1}, 60.0)),
        ("fire_master", ("v: 1", "app/x"), {}, ("app/x", "v: 1", 60.0)),
        ("fire", ("v: 1", "app/x"), {}, ("app/x", "v: 1", 60.0)),
        ("send", ("app/x",), {"v": 1}, ("app/x", {"v": 1}, 60.0)),
        ("send", ("app/x", {"v": 2}), {"v": 1, "w": 3}, ("app/x", {"v": 2, "w": 3}, 60.0)),
        ("send", ("app/x",), {"with_grains": ["os"]}, ("app/x", {"grains": {"os": "Debian"}}, 60.0)),
        ("send", ("app/x",), {"with_pillar": True}, ("app/x", {"pillar": {"a": 1}}, 60.0)),
        ("send", ("app/x",), {"with_env_opts": True}, ("app/x", {"saltenv": "base", "pillarenv": None}, 60.0)),
    ],
)
def test_an_event_is_sent_once_as_it_was_said(fun: str, args: Any, kwargs: Any, sent: Any) -> None:
    assert run(fun, *args, **kwargs) == (Outcome(True, 0), [sent])


@pytest.mark.parametrize(
    ("tag", "what"),
    [
        ("resource_refresh", "resources"),
        ("module_refresh", "modules"),
        ("grains_refresh", "grains"),
        ("pillar_refresh", "pillar"),
    ],
)
def test_salts_events_for_the_minion_refresh_it(tag: str, what: str) -> None:
    asked: list[str] = []
    sender = Sender()
    client = SimpleNamespace(refresh=asked.append, sync=None)
    loader = Loader(INDEX, {}, {}, {}, more={"__events__": sender, "__file_client__": client})
    assert call(loader, "event.fire", ({}, tag), {}) == Outcome(True, 0)
    assert (asked, sender.sent) == ([what], [])


def test_without_a_minion_nothing_is_refreshed() -> None:
    outcome, sent = run("fire", {}, "resource_refresh")
    assert (outcome.retcode, sent) == (1, [])
    assert "runs without a minion" in str(outcome.value)


@pytest.mark.parametrize(
    ("fun", "args", "words"),
    [
        ("fire", (5, "app/x"), "is a text or a map"),
        ("fire_master", ([1], "app/x"), "is a text or a map"),
        ("send", ("app/x", "text"), "is a map"),
        ("fire_master", ({}, "app/x", {"id": "other"}), "leave preload away"),
    ],
)
def test_what_is_no_event_is_not_sent(fun: str, args: Any, words: str) -> None:
    outcome, sent = run(fun, *args)
    assert (outcome.retcode, words in outcome.value, sent) == (1, True, [])
