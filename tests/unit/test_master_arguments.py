"""Arguments of ended jobs: what a master keeps of them, when they go, and what it says then."""

from __future__ import annotations

from typing import Any

import pytest

from saltlite.master.processes import maintenance
from saltlite.master.processes.maintenance import EndedArguments
from saltlite.master.store.ports import TargetRow
from saltlite.model.ids import Jid
from saltlite.model.job import TargetState
from tests.support.keys import NOW
from tests.support.master import MasterRig

PASSWORD = ["user.add", ["fred"], {"password": "hunter2"}]
PLAIN = ["cmd.run", ["ls"], {}]


class Site(MasterRig):
    """A master with one minion, and the work of its maintenance process."""

    def __init__(self, *, keep: bool = True) -> None:
        super().__init__("web1", keep_job_args=keep)
        self.work = EndedArguments(self.store, self.clock, keep=keep)
        self._requests = 0

    def publish(self, *calls: list[Any]) -> Jid:
        self._requests += 1
        fields = {"request_id": f"{self._requests:032x}", "tgt": "web1", "tgt_type": "glob", "calls": list(calls)}
        return Jid(self.ask("publish", **fields).fields["jid"])

    def end(self, jid: Jid) -> None:
        with self.store.write() as store:
            store.set_targets([(jid, TargetRow("web1", TargetState.LOST, "", NOW))])

    def body(self, jid: Jid) -> bytes:
        job = self.store.job(jid)
        assert job is not None
        return job.body

    def shown(self, jid: Jid) -> dict[str, Any]:
        found: dict[str, Any] = self.ask("job_show", jid=jid).fields["job"]
        return found


def test_a_secret_stays_as_long_as_somebody_may_be_sent_it_and_goes_then() -> None:
    site = Site()
    jid = site.publish(PASSWORD)
    site.work.drop()
    assert b"hunter2" in site.body(jid)
    assert (site.shown(jid)["hides"], "withheld" in site.shown(jid)) == (True, False)
    site.end(jid)
    site.work.drop()
    assert b"hunter2" not in site.body(jid)
    shown = site.shown(jid)
    assert (shown["calls"], shown["withheld"], shown["hides"]) == (
        [["user.add", ["fred"], {"password": "***"}]],
        "secrets",
        True,
    )
    (row,) = site.ask("job_list", whole=True).fields["jobs"]
    assert (row["calls"], row["withheld"]) == (shown["calls"], "secrets")


def test_other_arguments_stay_for_a_rerun_unless_the_option_says_no() -> None:
    for keep in (True, False):
        site = Site(keep=keep)
        jid = site.publish(PLAIN)
        site.end(jid)
        site.work.drop()
        shown = site.shown(jid)
        assert shown["calls"] == [["cmd.run", ["ls"] if keep else ["***"], {}]]
        assert (shown.get("withheld"), shown.get("hides")) == ((None, None) if keep else ("arguments", True))


def test_jobs_that_were_published_while_the_option_was_on_lose_their_arguments_too() -> None:
    site = Site()
    jid = site.publish(PLAIN)
    site.end(jid)
    EndedArguments(site.store, site.clock, keep=False).drop()
    assert site.shown(jid)["withheld"] == "arguments"


def test_many_are_done_in_short_transactions(monkeypatch: pytest.MonkeyPatch) -> None:
    site = Site()
    jids = [site.publish(PASSWORD) for _ in range(25)]
    for jid in jids:
        site.end(jid)
    monkeypatch.setattr(maintenance, "JOBS", 10)
    monkeypatch.setattr(maintenance, "ROUNDS", 2)
    left = []
    for _ in range(3):
        site.work.drop()
        left.append(sum(b"hunter2" in site.body(jid) for jid in jids))
    assert left == [5, 0, 0]


def test_looking_takes_a_share_of_the_time_only(monkeypatch: pytest.MonkeyPatch) -> None:
    site, looks = Site(), []
    real = site.store.reducible

    def slow(limit: int) -> Any:
        looks.append(limit)
        site.clock.advance(1.0)
        return real(limit)

    monkeypatch.setattr(site.store, "reducible", slow)
    for _ in range(3):
        site.work.drop()
    assert len(looks) == 1
    site.clock.advance(1.0 / maintenance.SHARE)
    site.work.drop()
    assert len(looks) == 2


def test_a_body_that_cannot_be_read_keeps_nobody_elses_from_going(caplog: pytest.LogCaptureFixture) -> None:
    site = Site()
    broken, jid = site.publish(PASSWORD), site.publish(PASSWORD)
    for one in (broken, jid):
        site.end(one)
    with site.store.write() as store:
        store.put_reduced([(broken, b"garbage")])
        store.mark_reducible(broken)
    site.work.drop()
    assert b"hunter2" not in site.body(jid)
    assert f"job {broken} in the store cannot be read" in caplog.text
    site.work.drop()
    assert caplog.text.count("cannot be read") == 1
