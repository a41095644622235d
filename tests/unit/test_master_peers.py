"""Jobs that minions publish: only what `peer` grants the minion of the session, on these targets, and not in turn."""

from __future__ import annotations

import re
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from saltlite.auth.acl import PEER, Blacklist, Granted, read_peer_runs, read_peers
from saltlite.config.master import MasterConfig
from saltlite.errors import CommandExecutionError, RefusedError, SaltInvocationError, UsageError
from saltlite.limits import HeldContents
from saltlite.master.handlers import peers
from saltlite.master.handlers.documents import answer
from saltlite.master.processes import runners
from saltlite.master.processes.context import ANSWER_IDLE_S, ANSWERS_OF_A_MINION, PEER_JOB_EVERY_S, PEER_JOBS_AT_ONCE
from saltlite.master.processes.runners import RUNS_KEPT_S, RUNS_OF_A_MINION, PeerRuns, RunsOfMinions
from saltlite.minion.jobs.rpc_client import MasterRequests
from saltlite.model.ids import MinionId, RequestId
from saltlite.model.job import BY_RUNNER, Return, TargetState
from saltlite.model.keys import KeyState
from saltlite.plugins.modules import publish
from saltlite.wire.codec import encode_document
from saltlite.wire.limits import CHUNK
from saltlite.wire.messages import Message
from tests.support.keys import NOW
from tests.support.master import MasterRig
from tests.support.store import job, ret

RULES = {"web.*": [{"db1": ["test.*"]}, {"web*": ["test.ping", "test.cross_test", "publish.publish"]}]}


class Site(MasterRig):
    """Minions of which those named web may run functions on db1 and on each other."""

    def __init__(self) -> None:
        super().__init__("web1", "web2", "db1", "db2", granted=Granted(external={PEER: read_peers(RULES)}))
        self.requests = 0

    def asked(self, minion: str, message: Message) -> Message:
        found: list[Message] = []
        answer(self.master, self.documents, MinionId(minion), message, found.append)
        return found[0]

    def client(self, minion: str, jid: str = "") -> MasterRequests:
        """What functions of that minion know as `__master__`."""
        site = self

        class Requests:
            def request(self, message: Message) -> Message:
                return site.asked(minion, message)

        return MasterRequests(Requests(), lambda: jid)

    def publish(self, minion: str, tgt: str = "db1", fun: str = "test.ping", **fields: Any) -> dict[str, Any]:
        self.requests += 1
        by = fields.pop("jid", "")
        named = {"request_id": f"{self.requests:032x}", "tgt": tgt, "tgt_type": "glob", "fun": fun}
        return self.client(minion, by).ask("publish", {**named, "args": [], "kwargs": {}, "ret": "", **fields})


@pytest.fixture
def site() -> Site:
    return Site()


def test_a_minion_publishes_a_job_of_its_own_name(site: Site) -> None:
    found = site.publish("web1", fun="test.echo", args=["hi"])
    stored = site.store.job(found["jid"])
    assert stored is not None
    assert (stored.user, stored.origin, stored.minions, found["targets"]) == (
        "minion:web1", peers.ORIGIN, ("db1",), 1,
    )  # fmt: skip
    assert len(site.link.published) == 1


@pytest.mark.parametrize(
    ("minion", "fields", "words"),
    [
        ("db1", {}, "no rule in `peer`"),
        ("web1", {"tgt": "db*"}, "only on db1"),
        ("web1", {"tgt": "web2", "fun": "test.echo"}, "only on db1"),
        ("web1", {"fun": "cmd.run"}, "no rule in `peer`"),
        ("web1", {"tgt": "web2", "fun": "publish.publish"}, "cannot publish functions of publish"),
        ("web1", {"tgt": "web2", "fun": "test.cross_test", "args": ["publish.publish"]}, "cannot publish functions"),
        ("web1", {"tgt": "web2", "fun": "test.cross_test", "args": ["cmd.run"]}, "no rule in `peer`"),
        ("web1", {"tgt": "role:web", "tgt_type": "pillar_pcre"}, "may not target by patterns of pillar"),
        ("web1", {"tgt": "db1 or I@role:*", "tgt_type": "compound"}, "may not target by patterns of pillar"),
        ("web1", {"ret": "json_file"}, "the returner json_file"),
        ("web1", {"tgt_type": "nonsense"}, "no target type"),
        ("web1", {"args": "hi"}, "is a list"),
        ("web1", {"request_id": "x"}, "request id"),
    ],
)
def test_what_no_rule_grants_is_refused_and_nothing_is_published(
    site: Site, minion: str, fields: dict[str, Any], words: str
) -> None:
    with pytest.raises(CommandExecutionError, match=re.escape(words)):
        site.publish(minion, **fields)
    assert site.link.published == []


def test_without_the_option_no_minion_publishes() -> None:
    site = Site()
    site.master.config.granted.external[PEER] = read_peers(MasterConfig().peer)
    with pytest.raises(CommandExecutionError, match="may not"):
        site.publish("web1")


def test_a_pattern_of_peer_matches_the_whole_id(site: Site) -> None:
    site.add_keys("my-web1")
    with pytest.raises(CommandExecutionError, match="may not"):
        site.publish("my-web1")


def test_a_job_that_a_minion_published_publishes_none(site: Site) -> None:
    found = site.publish("web1", tgt="web2")
    with pytest.raises(CommandExecutionError, match="publishes no other"):
        site.publish("web2", tgt="web1", jid=found["jid"])
    own = job(7, (MinionId("web2"),))
    with site.store.write() as tx:
        tx.put_job(own)
    assert site.publish("web2", tgt="web1", jid=own.jid)["targets"] == 1


def test_a_request_that_is_sent_again_publishes_once(site: Site) -> None:
    first = site.publish("web1", request_id=f"{99:032x}")
    assert site.publish("web1", request_id=f"{99:032x}")["jid"] == first["jid"]
    assert {job.jid for job, _parts in site.link.published} == {first["jid"]}


def test_a_minion_publishes_so_many_jobs_at_once_and_then_has_to_wait(site: Site) -> None:
    for _ in range(PEER_JOBS_AT_ONCE):
        site.publish("web1")
    data = encode_document(
        {"request_id": f"{0:032x}", "tgt": "db1", "tgt_type": "glob", "fun": "test.ping", "args": [], "kwargs": {},
         "ret": "", "by": ""}
    )  # fmt: skip
    message = {"t": "ask", "n": 1, "what": "publish", "data": data, "sha256": b"", "offset": 0, "nonce": b""}
    assert site.asked("web1", message)["state"] == "busy"
    assert site.asked("web2", message)["state"] == "ok"
    site.clock.advance(PEER_JOB_EVERY_S)
    assert site.asked("web1", message)["state"] == "ok"


def test_only_the_minion_that_published_a_job_reads_its_returns(site: Site) -> None:
    found = site.publish("web1")
    stored = site.store.job(found["jid"])
    assert stored is not None
    ask = {"jid": found["jid"], "after": 0}
    assert site.client("web1").ask("publish_returns", ask) == {"open": 1, "returns": []}
    with site.store.write() as tx:
        tx.put_returns([ret(stored, MinionId("db1"))], NOW)
    page = site.client("web1").ask("publish_returns", ask)
    assert page["open"] == 0
    ((target, state, retcode, body, _seq),) = page["returns"]
    assert (target, state, retcode, site.client("web1").decoded(body)) == ("db1", "returned", 0, True)
    for stranger in ("web2", "db1"):
        with pytest.raises(CommandExecutionError, match="has published no job"):
            site.client(stranger).ask("publish_returns", ask)


def test_a_job_of_a_user_is_not_readable_by_minions(site: Site) -> None:
    of_root = job(3, (MinionId("db1"),), request_id=RequestId(f"{3:032x}"))
    with site.store.write() as tx:
        tx.put_job(of_root)
    with pytest.raises(CommandExecutionError, match="has published no job"):
        site.client("web1").ask("publish_returns", {"jid": of_root.jid, "after": 0})


def test_a_large_answer_comes_in_pieces_and_one_that_was_dropped_is_made_again(site: Site) -> None:
    found = site.publish("web1")
    body = b"\xc6" + (3 * CHUNK).to_bytes(4, "big") + b"x" * (3 * CHUNK)
    with site.store.write() as tx:
        tx.put_returns([_return(site, found["jid"], body)], NOW)
    ask = {"jid": found["jid"], "after": 0}
    assert site.client("web1").ask("publish_returns", ask)["returns"][0][3] == body
    site.master.answers = HeldContents(0)
    assert site.client("web1").ask("publish_returns", ask)["returns"][0][3] == body
    later = {"t": "ask", "n": 1, "what": "publish_returns", "data": b"", "sha256": b"h" * 32, "offset": CHUNK}
    assert site.asked("web1", {**later, "nonce": b""})["state"] == "absent"


def _return(site: Site, jid: str, body: bytes) -> Any:
    stored = site.store.job(jid)  # type: ignore[arg-type]  # tests pass a plain text
    assert stored is not None
    made = ret(stored, MinionId("db1"))
    value: Return = made.ret
    assert value.state is TargetState.RETURNED
    return type(made)(made.fingerprint, type(value)(value.jid, value.id, value.state, 0, body, NOW, 1))


def test_a_key_that_is_revoked_gets_no_answer_and_no_further_piece_of_one(site: Site) -> None:
    found = site.publish("web1")
    site.add_keys("web1", state=KeyState.REVOKED)
    with pytest.raises(CommandExecutionError, match="not accepted any more"):
        site.client("web1").ask("publish_returns", {"jid": found["jid"], "after": 0})
    site.master.answers.put("web1", b"h" * 32, b"x" * 2 * CHUNK)
    piece = {"t": "ask", "n": 1, "what": "publish_returns", "data": b"", "sha256": b"h" * 32, "offset": CHUNK}
    assert site.asked("web1", {**piece, "nonce": b""})["state"] == "refused"


def test_an_id_that_has_no_key_gets_no_answer(site: Site) -> None:
    with pytest.raises(CommandExecutionError, match="not accepted any more"):
        site.publish("web7")


def test_an_answer_that_is_not_fetched_on_is_dropped(site: Site) -> None:
    site.master.answers.put("web1", b"h" * 32, b"x" * 3 * CHUNK, site.clock.monotonic())
    piece = {"t": "ask", "n": 1, "what": "publish_returns", "data": b"", "sha256": b"h" * 32, "offset": CHUNK}
    site.clock.advance(ANSWER_IDLE_S - 1)
    assert site.asked("web1", {**piece, "nonce": b""})["state"] == "ok"
    site.clock.advance(ANSWER_IDLE_S - 1)
    assert site.asked("web1", {**piece, "nonce": b""})["state"] == "ok"
    site.clock.advance(ANSWER_IDLE_S)
    assert site.asked("web1", {**piece, "nonce": b""})["state"] == "absent"


def test_a_request_that_is_too_large_is_not_sent(site: Site) -> None:
    with pytest.raises(SaltInvocationError, match="at most 64 KiB"):
        site.publish("web1", args=["x" * CHUNK])


RUNS = {"web.*": ["manage.up", {"jobs.list_job": {"args": ["[0-9]+"]}}]}


class Runners(PeerRuns):
    """Runners of an MWorker without the process that starts them. `ended` holds what tells of their ends."""

    def __init__(self, site: Site) -> None:
        super().__init__(SimpleNamespace(now=site.clock.monotonic), "", 0)  # type: ignore[arg-type]  # its clock alone
        self._process = SimpleNamespace(ask=self._ask)  # type: ignore[assignment]  # a twin
        self.ended: list[Any] = []

    def _ask(self, _message: Any, _within_s: float, done: Any) -> None:
        self.ended.append(lambda retcode, value: done({"retcode": retcode, "value": value.encode()}))


@pytest.fixture
def running(site: Site) -> Runners:
    site.master.config = replace(
        site.master.config, granted=Granted(peer_run=read_peer_runs(RUNS), blacklist=Blacklist(users=("web9",)))
    )
    site.clock.advance(100)
    running = site.master.peer_runs = Runners(site)
    return running


def run(
    site: Site, minion: str, fun: str = "manage.up", *args: Any, number: int = 1, jid: str = "", **more: Any
) -> dict[str, Any]:
    fields = {"request_id": f"{number:032x}", "fun": fun, "args": list(args), "kwargs": {}, **more}
    return site.client(minion, jid).ask("run", fields)


def test_a_minion_runs_a_runner_once_and_gets_its_return_again_after_a_lost_answer(
    site: Site, running: Runners
) -> None:
    assert run(site, "web1") == {"done": False} == run(site, "web1")
    (end,) = running.ended
    end(0, '["db1"]')
    for _ in range(2):
        assert run(site, "web1", begun=True) == {"done": True, "value": ["db1"], "retcode": 0}
    new, ret = site.store.events(0, 100)
    assert (new.tag.split("/")[1::2], ret.tag.split("/")[1::2]) == (["run", "new"], ["run", "ret"])
    assert (new.data, ret.data["success"]) == ({"fun": "manage.up", "user": "minion:web1"}, True)


@pytest.mark.parametrize(
    ("minion", "words", "reason"),
    [
        ("db1", ("manage.up",), "no rule in `peer_run`"),
        ("web1", ("manage.down",), "no rule in `peer_run`"),
        ("web1", ("salt.cmd", "cmd.run"), "no rule in `peer_run`"),
        ("web1", ("jobs.list_job", "x"), "jobs.list_job with these arguments: no rule"),
        ("web1", ("jobs.list_job",), "with these arguments"),
        ("web9", ("manage.up",), "publisher_acl_blacklist"),
        ("web1", ("no function",), "function"),
    ],
)
def test_a_runner_that_no_rule_grants_is_not_run(
    site: Site, running: Runners, minion: str, words: tuple[str, ...], reason: str
) -> None:
    site.add_keys("web9")
    with pytest.raises(CommandExecutionError, match=re.escape(reason)):
        run(site, minion, *words)
    assert (running.ended, site.store.events(0, 1)) == ([], [])


@pytest.mark.parametrize("origin", [peers.ORIGIN, f"{BY_RUNNER}20260131235959123456"])
def test_a_job_of_a_minion_or_a_runner_runs_no_runner(site: Site, running: Runners, origin: str) -> None:
    asking = replace(job(7, (MinionId("web1"),)), origin=origin)
    with site.store.write() as tx:
        tx.put_job(asking)
    with pytest.raises(CommandExecutionError, match="runs no runner"):
        run(site, "web1", jid=asking.jid)
    assert running.ended == []


def test_the_first_request_for_a_runner_starts_it_once_although_two_masters_get_it(
    site: Site, running: Runners
) -> None:
    """Its answer was lost: the minion repeats it to another master, and does not know that it began."""
    site.master.shared = site.store
    assert run(site, "web1") == {"done": False}
    site.master.peer_runs = other = Runners(site)
    with pytest.raises(CommandExecutionError, match="lost sight of the runner"):
        run(site, "web1")
    assert (len(running.ended), len(other.ended)) == (1, 0)
    assert [event.tag.split("/")[3] for event in site.store.events(0, 100)] == ["new"], "it was told once"
    assert run(site, "web1", number=2) == {"done": False}, "another request is another runner"
    assert len(other.ended) == 1


def test_a_request_for_a_runner_that_waited_on_one_master_begins_on_another(site: Site, running: Runners) -> None:
    site.master.shared = site.store
    for number in range(RUNS_OF_A_MINION):
        run(site, "web1", number=number + 1)
    assert run(site, "web1", number=99)["waits"]
    site.master.peer_runs = other = Runners(site)
    assert run(site, "web1", number=99) == {"done": False}
    assert (len(running.ended), len(other.ended)) == (RUNS_OF_A_MINION, 1)


def test_a_runner_that_has_begun_is_not_started_by_a_master_that_does_not_know_it(site: Site, running: Runners) -> None:
    assert run(site, "web1") == {"done": False}
    site.master.peer_runs = Runners(site)
    with pytest.raises(CommandExecutionError, match="lost sight of the runner"):
        run(site, "web1", begun=True)
    running.ended[0](0, "1")
    site.master.peer_runs = running
    site.clock.advance(RUNS_KEPT_S + 1)
    with pytest.raises(CommandExecutionError, match="is not run again"):
        run(site, "web1", begun=True)
    assert len(running.ended) == 1


def test_a_minion_waits_with_a_further_runner_while_too_many_of_its_own_run(site: Site, running: Runners) -> None:
    for number in range(RUNS_OF_A_MINION):
        assert run(site, "web1", number=number) == {"done": False}
    assert run(site, "web1", number=RUNS_OF_A_MINION) == {"done": False, "waits": True}
    assert run(site, "web2", number=RUNS_OF_A_MINION) == {"done": False}
    running.ended[0](1, '"no"')
    assert run(site, "web1", number=RUNS_OF_A_MINION) == {"done": False}
    assert run(site, "web1", number=0) == {"done": True, "value": "no", "retcode": 1}


def test_the_return_that_was_kept_for_the_longest_makes_room(
    site: Site, running: Runners, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runners, "RUNS_MAX", 3)
    for number in range(3):
        assert run(site, "web1", number=number) == {"done": False}
    assert run(site, "web2") == {"done": False, "waits": True}
    for number in (2, 1):
        site.clock.advance(1)
        running.ended[number](0, str(number))
    assert run(site, "web2") == {"done": False}
    assert run(site, "web1", number=0, begun=True) == {"done": False}
    assert run(site, "web1", number=1, begun=True)["value"] == 1
    with pytest.raises(CommandExecutionError, match="lost sight"):
        run(site, "web1", number=2, begun=True)


@pytest.mark.parametrize(
    ("waits", "reason", "begun"),
    [(True, "was not run: too many others ran for 0.5 s", [False, False]), (False, "has not returned", [False, True])],
)
def test_publish_runner_ends_at_its_timeout_whether_the_runner_has_begun_or_waits(
    monkeypatch: pytest.MonkeyPatch, waits: bool, reason: str, begun: list[bool]
) -> None:
    asked: list[bool] = []

    def ask(_what: str, fields: dict[str, Any]) -> dict[str, Any]:
        asked.append("begun" in fields)
        return {"done": False, "waits": True} if waits else {"done": False}

    monkeypatch.setattr(publish, "__master__", SimpleNamespace(ask=ask), raising=False)
    monkeypatch.setattr(publish, "_words", lambda _arg: ([], {}))
    monkeypatch.setattr(publish, "_LOOK_S", 0.6)
    with pytest.raises(CommandExecutionError, match=reason):
        publish.runner("manage.up", timeout=0.5)
    assert asked == begun


def test_the_starter_begins_a_request_once_whichever_mworker_repeats_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runners, "REQUESTS_KNOWN", 1)
    run_of = RunsOfMinions(Granted(peer_run=read_peer_runs(RUNS)), "root")
    message = {"minion": "web1", "request_id": "a", "fun": "manage.up", "args": [], "kwargs": {}, "jid": "1"}
    assert run_of(message).by == "minion:web1"
    with pytest.raises(RefusedError, match="lost sight"):
        run_of(message)
    with pytest.raises(RefusedError, match="no rule"):
        run_of({**message, "fun": "manage.down"})
    assert run_of({**message, "minion": "web2"}).by == "minion:web2"
    assert run_of(message).by == "minion:web1"  # only the newest requests are known


@pytest.mark.parametrize("rules", [{"web1": ["@runner"]}, {"web1": [{"db1": ["manage.up"]}]}, {"web1": "manage.up"}])
def test_a_rule_of_peer_run_that_is_none_stops_the_master_with_a_sentence(rules: Any) -> None:
    with pytest.raises(UsageError, match="peer_run"):
        read_peer_runs(rules)


@pytest.mark.parametrize("rules", [{"web1": ["@runner"]}, {"web1": "test.ping"}, {"web1": [{"*": ["("]}]}, ["web1"]])
def test_a_rule_that_is_none_stops_the_master_with_a_sentence(rules: Any) -> None:
    with pytest.raises(UsageError, match="peer"):
        read_peers(rules)


def test_contents_that_are_fetched_have_bounded_memory_and_one_may_be_larger() -> None:
    held = HeldContents(10)
    held.put("a", b"1", b"x" * 6)
    held.put("b", b"2", b"x" * 6)
    assert (held.get("a", b"1"), held.get("b", b"2")) == (None, b"x" * 6)
    held.put("c", b"3", b"x" * 20)
    assert (held.get("b", b"2"), held.get("c", b"3"), held.get("c", b"4")) == (None, b"x" * 20, None)


def test_one_owner_has_so_many_contents_and_loses_the_oldest_of_his_own() -> None:
    held = HeldContents(100, ANSWERS_OF_A_MINION)
    held.put("b", b"0", b"x")
    for number in range(ANSWERS_OF_A_MINION + 1):
        held.put("a", bytes([number]), b"x")
    assert [held.get("a", bytes([number])) for number in range(3)] == [None, b"x", b"x"]
    assert held.get("b", b"0") == b"x"
