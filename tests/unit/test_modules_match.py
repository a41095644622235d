"""`match`: the matchers of targets, asked about one minion."""

from __future__ import annotations

from typing import Any

import pytest

from saltlite.loader.call import Outcome, call
from saltlite.loader.index import build_index
from saltlite.loader.loader import Loader
from saltlite.loader.search_path import search_layers

INDEX = build_index(search_layers({}))
GRAINS = {
    "id": "web1", "os": "Debian", "roles": ["web", "cache"], "ipv4": ["127.0.0.1", "192.0.2.7"],
    "ipv6": ["2001:db8::7"], "pkg": {"nginx:full": {"port": 80}},
}  # fmt: skip
PILLAR = {"role": "web", "secret": {"deep": "x1"}}


def run(fun: str, *args: Any, **kwargs: Any) -> Outcome:
    return call(Loader(INDEX, {"id": "web1"}, GRAINS, PILLAR), f"match.{fun}", args, kwargs)


@pytest.mark.parametrize(
    ("fun", "args", "kwargs", "said"),
    [
        ("glob", ("web*",), {}, True),
        ("glob", ("web*",), {"minion_id": "db1"}, False),
        ("glob", ("we b*; '",), {}, False),
        ("pcre", ("w.b[0-9]",), {}, True),
        ("pcre", ("eb1",), {}, False),
        ("list", ("db1,web1",), {}, True),
        ("list", (["db1", "web1"],), {}, True),
        ("list", ("db1",), {"minion_id": "db1"}, True),
        ("list", ("-web1",), {}, False),
        ("grain", ("os:deb*",), {}, True),
        ("grain", ("os:Arch",), {}, False),
        ("grain", ("pkg|nginx:full|port|80",), {"delimiter": "|"}, True),
        ("grain", ("roles:cache",), {}, True),
        ("grain_pcre", ("os:(Debian|Ubuntu)",), {}, True),
        ("grain_pcre", ("ipv6|2001:.*",), {"delimiter": "|"}, True),
        ("pillar", ("role:w*",), {}, True),
        ("pillar", ("secret:deep:x2",), {}, False),
        ("pillar_pcre", ("secret:deep:x[0-9]",), {}, True),
        ("ipcidr", ("192.0.2.0/24",), {}, True),
        ("ipcidr", ("2001:db8::7",), {}, True),
        ("ipcidr", ("10.0.0.0/8",), {}, False),
        ("compound", ("G@os:Debian and ( db* or L@web1,web2 ) and not E@.*-test",), {}, True),
        ("compound", ("web1 and I@role:web and S@192.0.2.0/24 and not T@ssh",), {}, True),
        ("compound", ("db1 and G@os:Debian",), {"minion_id": "db1"}, True),
        ("filter_by", ({"db*": 1, "web*": 2},), {}, 2),
        ("filter_by", ({"db*": 1, "default": 3},), {}, 3),
        ("filter_by", ({"db*": 1},), {}, None),
        ("filter_by", ({"db*": 1},), {"default": "db*"}, 1),
        ("filter_by", ({"os:Debian": {"a": {"b": 1}}},), {"tgt_type": "grain", "merge": {"a": {"c": 2}}},
         {"a": {"b": 1, "c": 2}}),
        ("filter_by", ({"web1": {"a": [1]}},), {"merge": {"a": [2]}, "merge_lists": True}, {"a": [1, 2]}),
        ("filter_by", ({"web1": None},), {"merge": {"a": 1}}, {"a": 1}),
        ("search_by", ({"a": ["db*", "web*"], "b": ["G@os:Debian"], "c": ["db1"]},), {}, ["a", "b"]),
        ("search_by", ({"a": ["db*"]},), {}, None),
        ("ifelse", ("db*", 1, "web*", 2, 3), {}, 2),
        ("ifelse", (False, 1, 3), {}, 3),
        ("ifelse", (True, 1, 3), {}, 1),
        ("ifelse", (3,), {}, 3),
    ],
)  # fmt: skip
def test_a_question_has_the_answer_of_the_master(fun: str, args: Any, kwargs: Any, said: Any) -> None:
    assert run(fun, *args, **kwargs) == Outcome(said, 0)


@pytest.mark.parametrize(
    ("fun", "args", "kwargs", "words"),
    [
        ("compound", ("web* or",), {}, "a condition is missing"),
        ("compound", ("N@webs",), {}, "webs"),
        ("pcre", ("(",), {}, "is not a regular expression"),
        ("grain", ("os",), {}, "has no key and value"),
        ("grain", ("os:x",), {"delimiter": ""}, "at least one character"),
        ("ipcidr", ("somewhere",), {}, "somewhere"),
        ("glob", (["web1"],), {}, "takes text, and was given a list"),
        ("filter_by", ({"web*": 1},), {"tgt_type": "nosuch"}, "no kind of target 'nosuch'"),
        ("filter_by", ({"web*": 1},), {"merge": [1]}, "is a map"),
        ("filter_by", ({"web*": 1},), {"merge": {"a": 1}}, "merged into"),
        ("ifelse", (1, 2), {}, "Pairs"),
        ("search_by", (["a"],), {}, "are a map"),
        ("data", ("spam:eggs",), {}, "no module `data`"),
    ],
)
def test_what_is_no_target_is_an_error_with_its_reason(fun: str, args: Any, kwargs: Any, words: str) -> None:
    outcome = run(fun, *args, **kwargs)
    assert outcome.retcode == 1
    assert words in outcome.value
