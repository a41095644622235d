"""Jobs, events and tokens of others: what somebody with few rights learns of them, and can do to them, by any door."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from saltlite.client.follower import Progress, WaitPolicy
from saltlite.client.local import JobCall
from saltlite.errors import LoginError, RefusedError, SaltliteError
from tests.support.fleet import wait_until
from tests.support.rights import LOCAL_USER, RightsSite, rights_site, rows

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else"),
]

NEVER = "20200101000000000000"
"""The jid of no job."""
WATCHERS = ("fred", "rita", "ann", LOCAL_USER)
OF_OTHERS: list[dict[str, Any]] = rows("others")


@pytest.fixture(scope="module")
def site() -> Iterator[RightsSite]:
    with rights_site() as site:
        yield site


@pytest.fixture(scope="module")
def secret(site: RightsSite) -> str:
    """A job of root's with something to hide, which has returned."""
    with site.asking("root") as client:
        job = JobCall("db1", "mark.here", arg=["a secret note"])
        progress = Progress(client.publish(job, follow=True), now=time.monotonic())
        assert [reply.value for reply in client.watch(progress, WaitPolicy(20.0))] == ["db1"]
    return progress.published.jid


def said(site: RightsSite, who: str, row: dict[str, Any], jid: str) -> tuple[int, str]:
    """What a door answers about that job: its code, and the text without the jid."""
    if "cli" in row:
        typed = site.cli(who, *[word.replace("JID", jid) for word in row["cli"]])
        return typed.code, (typed.out + typed.err).replace(jid, "JID")
    if "get" in row:
        got = site.api(who).get(row["get"].replace("JID", jid))
        return got.status, got.body.replace(jid, "JID")
    verb, fields = row["ask"]
    with site.asking(who) as client:
        try:
            return 0, str(client.call(verb, **{key: jid if value == "JID" else value for key, value in fields.items()}))
        except SaltliteError as error:
            return error.exit_code, str(error).replace(jid, "JID")


@pytest.mark.parametrize("row", OF_OTHERS, ids=map(str, OF_OTHERS))
def test_a_job_of_somebody_else_is_none(site: RightsSite, secret: str, row: dict[str, Any]) -> None:
    for who in ("fred", LOCAL_USER) if "get" not in row else ("fred",):
        there = said(site, who, row, secret)
        assert there == said(site, who, row, NEVER)
        assert "there is no job JID" in there[1]


def test_a_list_of_jobs_has_those_of_others_under_no_filter(site: RightsSite, secret: str) -> None:
    with site.asking("fred") as client:
        own = client.publish(JobCall("web1", "mark.here")).jid
        for more in ({}, {"user": "root"}, {"user": "*"}, {"user": "file:*"}, {"minion": "db1"}, {"fun": "mark.*"}):
            assert {job["user"] for job in client.call("job_list", **more)["jobs"]} <= {"file:fred"}, more
    assert site.api("fred").get("/jobs").json()["return"][0].keys() >= {own}
    assert secret not in site.api("fred").get("/jobs").body
    assert secret not in site.cli("fred", "job", "list", "--user", "root").out


def test_who_may_see_the_jobs_of_others_may_not_end_them(site: RightsSite) -> None:
    with site.asking("root") as root, site.asking("joe") as client:
        jid = root.publish(JobCall("web1", "test.sleep", arg=[30])).jid
        assert client.call("job_show", jid=jid)["job"]["user"] == "root"
        with pytest.raises(RefusedError, match="may end his own jobs only: this one is of root, and takes @jobs kill"):
            client.call("job_kill", jid=jid)
        site.fleet.wait_state(jid, "web1", "running")
        assert root.call("job_kill", jid=jid)["ids"] == ["web1"]
        site.fleet.wait_state(jid, "web1", "cancelled")


def test_the_request_id_of_somebody_else_is_not_his_job(site: RightsSite) -> None:
    request = {"request_id": "ab" * 16, "tgt_type": "glob", "calls": [["mark.here", [], {}]]}
    with site.asking("root") as root:
        jid = root.call("publish", tgt="db1", **request)["jid"]
        assert root.call("publish", tgt="db1", **request)["jid"] == jid
    with site.asking("fred") as client:
        with pytest.raises(RefusedError, match=r"only on web\*"):
            client.call("publish", tgt="db1", **request)
        own = client.call("publish", tgt="web1", **request)
    assert (own["jid"] != jid, own["minions"]) == (True, ["web1"])
    with site.asking(LOCAL_USER) as client:
        assert client.call("publish", tgt="web1", **request)["jid"] not in (jid, own["jid"])


@pytest.mark.parametrize("who", WATCHERS)
def test_events_tell_of_ones_own_from_the_first_to_the_last(site: RightsSite, secret: str, who: str) -> None:
    site.api("admin").post("/hook/deploy", {"password": "in a hook"})
    site.api("rita").low(client="runner", fun="manage.up")
    label = who if who == LOCAL_USER else f"file:{who}"
    with site.asking("root") as root:
        jobs = {job["jid"] for job in root.call("job_list", user=label)["jobs"]}
        last = root.call("status")["store"]["seq"]
    shown: list[dict[str, Any]] = []
    with site.asking(who) as client, site.fleet.client() as watching:
        watching.token, seq = client.token, 0
        watching.call("events", pattern="*", after=0)
        while seq < last and (message := watching.receive(0.5)) is not None:
            shown += message["events"]
            seq = message["seq"]
    for event in shown:
        kind, jid = event["tag"].split("/")[1:3]
        assert (kind == "job" and jid in jobs) or (kind == "run" and event["data"]["user"] == label), event
    assert secret not in str(shown)
    assert "in a hook" not in str(shown)
    assert bool(shown) is (who != "ann")


def test_a_stream_of_the_api_from_the_first_event_on_has_ones_own_too(site: RightsSite, secret: str) -> None:
    last = site.api("fred").low(client="local_async", tgt="web1", fun="mark.here").json()["return"][0]["jid"]
    tags = []
    with site.api("fred").events(after=0) as events:
        for event in events:
            tags.append(event["tag"])
            if event["tag"].startswith(f"salt/job/{last}/ret"):
                break
    with site.asking("root") as root:
        jobs = {job["jid"] for job in root.call("job_list", user="file:fred")["jobs"]}
    assert {tag.split("/")[2] for tag in tags} <= jobs


def test_who_is_heard_of_and_what_is_completed_are_ones_own(site: RightsSite) -> None:
    with site.asking("fred") as client:
        assert set(client.call("last_seen", ids=["web1", "web2", "db1"])["silent_s"]) == {"web1", "web2"}
        for kind, words in (("target", ["web1", "web2"]), ("minion", ["web1", "web2"]), ("jid", []), ("key", [])):
            assert client.call("complete", kind=kind, prefix="")["words"] == words, kind
        assert client.call("complete", kind="target", prefix="dummy:")["words"] == ["dummy:lamp-1"]


@pytest.mark.parametrize("who", ["fred", LOCAL_USER])
def test_no_refusal_and_no_explanation_tells_of_targets_that_one_may_not_use(site: RightsSite, who: str) -> None:
    label = who if who == LOCAL_USER else f"file:{who}"
    refused, explained = set(), set()
    for target in ("db1", "lamp-2", "dummy:lamp-2", "nobody", "dummy:nobody", "d*", "zz*"):
        with site.asking(who) as client:
            with pytest.raises(RefusedError) as caught:
                client.publish(JobCall(target, "mark.here"))
            refused.add(str(caught.value))
            asked: dict[str, Any] = {
                "user": label,
                "tgt": target,
                "tgt_type": "glob",
                "fun": "mark.here",
                "args": [],
                "kwargs": {},
            }
            said = client.call("acl_explain", **asked)
            explained.add((said["allowed"], said["reason"], said["targets"], tuple(said["refused"])))
    assert (len(refused), len(explained)) == (1, 1)
    ((allowed, reason, count, names),) = explained
    assert (allowed, {reason}, count, names) == (False, refused, 0, ())
    told = site.cli(who, "acl", "explain", label, "*", "mark.here")
    assert (told.code, "targets:  3" in told.out, "db1" in told.out + told.err) == (6, True, False)


def test_tokens_of_others_are_not_listed_and_not_ended(site: RightsSite) -> None:
    with site.asking("root") as root, site.asking("fred") as client:
        every = root.call("auth_token_list")["tokens"]
        assert {row["user"] for row in every} > {"fred"}
        assert {row["user"] for row in client.call("auth_token_list")["tokens"]} == {"fred"}
        others = [row["id"] for row in every if row["user"] != "fred"]
        assert client.call("auth_token_revoke", ids=others)["revoked"] == []
        assert root.call("auth_token_list")["tokens"] == every


def revoke(site: RightsSite, token: str) -> None:
    """Make void the newest login of eve's."""
    with site.asking("root") as root:
        rows_of_eve = [row for row in root.call("auth_token_list")["tokens"] if row["user"] == "eve"]
        newest = max(rows_of_eve, key=lambda row: row["start"])
        assert root.call("auth_token_revoke", ids=[newest["id"]])["revoked"]
    with site.fleet.client() as client:
        client.token = token
        with pytest.raises(LoginError):
            client.call("whoami")


def test_a_login_that_is_revoked_in_the_middle_ends_what_it_follows_and_not_the_job(site: RightsSite) -> None:
    token = site.api("eve").token
    answers: list[Any] = []
    low = {"client": "local", "tgt": "web1", "fun": "mark.slow", "arg": [6], "timeout": 30}
    asking = threading.Thread(target=lambda: answers.append(site.api("eve").post("/", low)))
    before = site.ran()
    with site.api("eve").events() as events:
        asking.start()
        wait_until(lambda: (site.ran() - before)["web1 mark.slow"], "the job runs")
        revoke(site, token)
        list(events)  # it ends, or the test does not
    asking.join(60)
    assert [answer.status for answer in answers] == [401]
    assert (site.ran() - before)["web1 mark.slow ended"] == 0
    wait_until(lambda: (site.ran() - before)["web1 mark.slow ended"], "the job goes on to its end")


def test_a_batch_goes_on_when_the_rights_are_taken_away_and_nothing_new_begins(site: RightsSite) -> None:
    before = site.ran()
    batch = {"size": 1, "percent": False, "wait_ms": 0, "failhard": False}
    with site.asking(LOCAL_USER) as client:
        jid = client.publish(JobCall("web1,web2", "mark.slow", arg=[4], tgt_type="list", batch=batch)).jid
    wait_until(lambda: sum((site.ran() - before).values()), "the first one runs")
    assert site.fleet.daemons["master"].stop() == 0
    site.restart_master(publisher_acl={})
    wait_until(lambda: sum((site.ran() - before).values()) == 4, "both have run")
    assert set(site.fleet.states(jid).values()) <= {"running", "returned"}
    with site.asking(LOCAL_USER) as client:
        for verb in ("job_show", "job_kill"):
            with pytest.raises(RefusedError, match=r"may not (see|end) jobs"):
                client.call(verb, jid=jid)
        with pytest.raises(RefusedError, match="may not publish"):
            client.publish(JobCall("web1", "mark.here"))
