"""Batches: jobs that go through their targets a few at a time (``saltlite -b``).

Operators without the right to other people's jobs see only their own.

:maintainer:    The saltlite authors
:maturity:      new
:platform:      all
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from saltlite.errors import CommandExecutionError

if TYPE_CHECKING:
    from saltlite.loader.hints import __client__

_PAGE = 500
_DRIVER = "master"
"""What advances a batch: always the master, also while a client follows the job."""


def list_active() -> list[dict[str, Any]]:
    """Return the batches that go on, each as by ``batch.status``.

    CLI Example: ``saltlite-run batch.list_active``
    """
    found: list[dict[str, Any]] = []
    cursor: dict[str, str] = {}
    more = True
    while more:
        answer = __client__.call("job_list", limit=_PAGE, state="open", **cursor)
        batches = (job["jid"] for job in answer["jobs"] if "batch_size" in job)
        found += [row for jid in batches if (row := status(jid)) is not None]
        more = answer["more"]
        cursor = {"before": answer["jobs"][-1]["jid"]} if more else {}
    return sorted(found, key=lambda row: row["jid"])


def status(jid: str) -> dict[str, Any] | None:
    """Return how far a batch has come; ``None`` for a job that is unknown or not a batch.

    ``total``, ``completed``, ``active``, ``pending`` and ``failed`` count targets; ``completed`` includes those that
    failed. ``halted`` says that the batch ended before it had reached every target, and ``halted_reason`` why.

    CLI Example: ``saltlite-run batch.status 20260131235959123456``
    """
    try:
        job = __client__.call("job_show", jid=str(jid))["job"]
    except CommandExecutionError:  # there is no such job, or it is of another user
        return None
    if "batch" not in job:
        return None
    targets = job["targets"]
    pending = [row for row in targets if row["state"] == "planned"]
    active = [row for row in targets if row["outcome"] == "open" and row["state"] != "planned"]
    unreached = [row for row in targets if _is_unreached(row)]
    last = max((row["at"] for row in targets), default=job["created_at"])
    return {
        "jid": job["jid"],
        "fun": job["fun"],
        "tgt": job["tgt"],
        "tgt_type": job["tgt_type"],
        "total": len(targets),
        "completed": len(targets) - len(pending) - len(active) - len(unreached),
        "active": len(active),
        "pending": len(pending),
        "failed": sum(row["outcome"] == "failed" and not _is_unreached(row) for row in targets),
        "batch_size": job["batch"]["size"],
        "halted": bool(unreached),
        "halted_reason": unreached[0]["reason"] if unreached else None,
        "driver": _DRIVER,
        "user": job["user"],
        "created": job["created_at"],
        "last_progress": last,
        "age_seconds": round(__client__.time() - last, 3),
    }


def _is_unreached(row: dict[str, Any]) -> bool:
    return bool(row["state"] == "cancelled" and row["started_at"] is None)


def stop(jid: str, kill: bool = False) -> bool:
    """End a batch: it reaches no further target. Return ``False`` where it is unknown or has reached all of them.

    Targets that run the function go on; with ``kill`` it is killed there.

    CLI Example::

        saltlite-run batch.stop 20260131235959123456
        saltlite-run batch.stop 20260131235959123456 kill=True
    """
    found = status(jid)
    if found is None or not found["pending"] + (found["active"] if kill else 0):
        return False
    answer = __client__.call("job_kill", jid=str(jid), **({} if kill else {"planned": True}))
    return bool(answer["ids"] or answer["away"] or answer["cancelled"])
