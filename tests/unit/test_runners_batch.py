"""The runner `batch`, over a master that a test plays."""

from __future__ import annotations

from typing import Any

from tests.support.api import Client, run


class Row(dict[str, Any]):
    """A target that is not to be compared with others: that takes the square of their number."""

    __hash__ = None

    def __eq__(self, other: object) -> bool:
        raise AssertionError("targets are compared")


def target(number: int, state: str, outcome: str, started_at: float | None) -> Row:
    reason = "it was ended" if state == "cancelled" else ""
    named = {"id": f"web{number}", "state": state, "outcome": outcome, "reason": reason, "at": 5.0}
    return Row(named, started_at=started_at)


TARGETS = [
    target(1, "returned", "ok", 1.0),
    target(2, "returned", "failed", 1.0),
    target(3, "cancelled", "failed", 1.0),
    target(4, "cancelled", "failed", None),
    target(5, "cancelled", "failed", None),
]
JOB = {"jid": "20260131000000000002", "fun": "test.ping", "tgt": "*", "tgt_type": "glob", "user": "root"}


def show(jid: str) -> dict[str, Any]:
    assert jid == JOB["jid"], "a job that is no batch is read"
    return {"job": {**JOB, "created_at": 0.0, "batch": {"size": 2}, "targets": TARGETS}}


def test_targets_that_a_batch_did_not_reach_have_not_failed() -> None:
    found = run(Client(job_show=show), "batch.status", JOB["jid"]).value
    counts = {name: found[name] for name in ("total", "completed", "active", "pending", "failed", "halted")}
    assert counts == {"total": 5, "completed": 3, "active": 0, "pending": 0, "failed": 2, "halted": True}
    assert found["halted_reason"] == "it was ended"


def test_only_batches_are_read_with_their_targets() -> None:
    jobs = [{**JOB, "batch_size": 2}, {**JOB, "jid": "20260131000000000001"}]
    client = Client(job_show=show, job_list=lambda **_filter: {"jobs": jobs, "more": False})
    assert [row["jid"] for row in run(client, "batch.list_active").value] == [JOB["jid"]]
