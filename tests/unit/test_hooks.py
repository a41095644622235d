"""Which events hooks are for, what of an event may stand where, and what ends them."""

from __future__ import annotations

from typing import Any

import pytest

from saltlite.errors import RefusedError, UsageError
from saltlite.hooks import DEPTH_MAX, RATE_MAX, WORD_MAX, Depths, Hook, firing, read_hooks

JID = "20260131235959123456"
DATA = {"body": {"ref": "main", "n": 3, "list": ["a", {"b": "c"}], "evil": "x; rm -rf /", "flag": "-rf"}, "id": "web1"}


def one(**fields: Any) -> Hook:
    job = {"tgt": "*", "fun": "test.arg"} | fields.pop("job", {})
    (hook,) = read_hooks({"h": {"event": "a/*", "as": "amy", "job": job, **fields}})
    return hook


def fired(arg: Any) -> Any:
    return firing(one(job={"arg": [arg]}), "salt/netapi/hook/x", DATA).args[0]


def test_a_hook_is_for_the_events_whose_tag_and_fields_match_and_never_for_what_is_told_of_hooks() -> None:
    hook = one(event="*", data={"body.ref": "ma*", "body.n": 3})
    assert hook.wants("a/b", DATA)
    assert not hook.wants("a/b", {"body": {"ref": "dev", "n": 3}})
    assert not hook.wants("salt/hook/h/fired", DATA)


@pytest.mark.parametrize(
    ("template", "value"),
    [
        ("{body.n}", 3),
        ("{body.list}", ["a", {"b": "c"}]),
        ("{body.list.1.b}", "c"),
        ("{body.evil}", "x; rm -rf /"),
        ("v{body.n}-{body.ref}", "v3-main"),
        ("{tag}", "salt/netapi/hook/x"),
        ("{tag.3}", "x"),
        ({"deep": ["{id}", 1, None]}, {"deep": ["web1", 1, None]}),
        ("{} {a b} {body.ref!r}", "{} {a b} {body.ref!r}"),
    ],
)
def test_fields_are_put_in_and_nothing_is_evaluated(template: Any, value: Any) -> None:
    assert fired(template) == value


@pytest.mark.parametrize(
    "template",
    [
        "{body.missing}",
        "{0}",
        "{tag.9}",
        "run {body.evil}",
        "rm {body.flag}",
        "x {body.list}",
        "x {body}",
        "x{__class__}",
    ],
)
def test_what_is_missing_or_no_plain_word_keeps_the_hook_from_firing(template: str) -> None:
    with pytest.raises(RefusedError):
        fired(template)


@pytest.mark.parametrize(
    "target", ["*", "web*", "a,b", "web1 or db1", "G@os:x", "E@.", "[a-z]", "", "x" * (WORD_MAX + 1)]
)
def test_an_event_cannot_widen_a_target(target: str) -> None:
    hook = one(job={"tgt": "{host}"})
    assert firing(hook, "t", {"host": "web1"}).tgt == "web1"
    with pytest.raises(RefusedError, match="plain word"):
        firing(hook, "t", {"host": target})


@pytest.mark.parametrize("tag", [f"salt/job/{JID}/ret/web1", f"salt/job/{JID}/new", f"salt/run/{JID}/ret"])
def test_events_of_what_a_hook_began_are_known_for_that(tag: str) -> None:
    depths = Depths()
    assert depths.of(tag, {}) == 0
    depths.begun(JID, DEPTH_MAX)
    assert depths.of(tag, {}) == DEPTH_MAX
    assert depths.of("minion/web1/x", {"jid": JID}) == DEPTH_MAX
    assert depths.of("app/x", {"jid": JID}) == 0
    assert depths.of("minion/web1/x", {"jid": ["x"]}) == 0
    assert depths.of("app/x", {"_run": JID}) == DEPTH_MAX
    assert depths.of("salt/netapi/hook/x", {"_run": JID}) == 0
    for number in range(Depths.JOBS_MAX):
        depths.begun(str(number), 1)
    assert depths.of(tag, {}) == 0


def test_a_job_that_a_runner_of_a_hook_published_is_as_deep_as_the_runner() -> None:
    depths, child, stranger = Depths(), "20260131235959123457", "20260131235959123458"
    depths.begun(JID, 2)
    depths.note(f"salt/job/{child}/new", {"origin": f"runner {JID}"})
    depths.note(f"salt/job/{stranger}/new", {"origin": JID})
    depths.note(f"salt/job/{stranger}/new", {})
    assert depths.of(f"salt/job/{child}/ret/web1", {}) == 2
    assert depths.of(f"salt/job/{stranger}/ret/web1", {}) == 0


@pytest.mark.parametrize(
    ("hook", "sentence"),
    [
        ([], "h is a map"),
        ({"as": "amy", "job": {}}, "lacks `event`"),
        ({"event": "*", "job": {}}, "lacks `as`"),
        ({"event": "*", "as": "amy"}, "either `job` or `runner`"),
        ({"event": "*", "as": "amy", "job": {"fun": "test.ping"}}, "lacks `tgt`"),
        ({"event": "*", "as": "amy", "job": {"tgt": "*", "fun": "{fun}"}}, r"module\.function"),
        ({"event": "*", "as": "amy", "job": {"tgt": "*", "fun": "a.b", "args": []}}, "does not take `args`"),
        ({"event": "*", "as": "amy", "job": {"tgt": "*", "fun": "a.b", "arg": "x"}}, "arg is a list"),
        ({"event": "*", "as": "amy", "job": {"tgt": "{x}", "tgt_type": "pcre", "fun": "a.b"}}, "glob or list only"),
        ({"event": "*", "as": "amy", "job": {"tgt": "{x}", "tgt_type": "compound", "fun": "a.b"}}, "glob or list only"),
        ({"event": "*", "as": "file:amy", "runner": {"fun": "a.b"}}, "a local user"),
        ({"event": "*", "as": "amy", "runner": {"fun": "a.b"}, "rate": 0}, "rate is"),
        ({"event": "*", "as": "amy", "runner": {"fun": "a.b"}, "rate": RATE_MAX + 1}, "rate is"),
        ({"event": "*", "as": "amy", "runner": {"fun": "a.b"}, "data": {"x": []}}, "glob, not by a list"),
        ({"event": "", "as": "amy", "runner": {"fun": "a.b"}}, "event is text"),
    ],
)
def test_what_is_no_hook_is_refused_with_what_is_wrong(hook: Any, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        read_hooks({"h": hook})
