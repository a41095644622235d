"""Equal answers under one heading, for a person at a terminal."""

from __future__ import annotations

import io
from typing import Any

import msgpack  # type: ignore[import-untyped]  # the package ships no type information

from saltlite.cli.console import Console
from saltlite.cli.printers import EqualAnswers
from saltlite.client.follower import Reply, Update
from tests.support.terminal import Terminal
from tests.unit.test_client_follower import progress


def shown(*replies: tuple[str, Any, int], stdout: io.StringIO | None = None) -> str:
    """What a terminal shows of these replies (id, value, retcode), one after the other."""
    out = Terminal() if stdout is None else stdout
    printer = EqualAnswers(Console(None, out, None), color=False)
    resources = {"ma": [target for target, _value, _retcode in replies if ":" in target]}
    job = progress(*(target for target, _value, _retcode in replies if ":" not in target), resources=resources)
    for target, value, retcode in replies:
        row = {"id": target, "state": "returned", "retcode": retcode, "body": msgpack.packb(value)}
        printer.take(Update([], [Reply(row, job.published)]))
    printer.finish([], 0)
    return out.getvalue()


def test_the_largest_group_comes_first_and_failures_last() -> None:
    text = shown(("web1", "no", 2), ("db1", "a", 0), ("web2", "b", 0), ("web3", "b", 0), ("web4", "no", 2))
    assert text == (
        "\u2713 2 minions  web[2-3]\n    b\n\u2713 db1\n    a\n\u2717 2 minions  web[1,4]  retcode 2\n    no\n"
    )


def test_equal_text_with_another_retcode_is_another_answer() -> None:
    assert shown(("a", "x", 0), ("b", "x", 1)) == "\u2713 a\n    x\n\u2717 b  retcode 1\n    x\n"


def test_maps_that_look_the_same_are_the_same_whatever_their_order() -> None:
    assert shown(("a", {"x": 1, "y": 2}, 0), ("b", {"y": 2, "x": 1}, 0)).count("minions") == 1


def test_a_terminal_without_such_characters_gets_words() -> None:
    class Old(Terminal):
        encoding = "ascii"

    assert shown(("a", 1, 0), ("b", 2, 1), stdout=Old()) == "ok: a\n    1\nfailed: b  retcode 1\n    2\n"


def test_an_answer_of_nothing_has_its_heading() -> None:
    assert shown(("a", "", 0), ("b", "", 0)) == "\u2713 2 minions  a,b\n"


def test_resources_are_counted_as_such_and_named_as_people_call_them() -> None:
    text = shown(("web1", 1, 0), ("dummy:d1", 1, 0), ("dummy:d2", 1, 0), ("ssh:d2", 2, 0), ("dummy:d3", 2, 0))
    assert text == (
        "\u2713 3 targets: 1 minion, 2 resources  d1,dummy:d2,web1\n    1\n\u2713 2 resources  d3,ssh:d2\n    2\n"
    )
