"""Jobs of the past and of now, as the master has stored them.

:maintainer:    The saltlite authors
:maturity:      new
:platform:      all
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from saltlite.errors import SaltInvocationError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from saltlite.loader.hints import __client__

_PAGE = 500


def list_jobs(
    search_function: str = "", start_time: str = "", end_time: str = "", limit: int = 10_000
) -> dict[str, dict[str, Any]]:
    """
    The newest jobs by their id, at most ``limit`` of them. ``search_function`` is a glob; times are written
    ``2026-01-31`` or ``2026-01-31T23:59``, in the time of this machine.

    CLI Example::

        saltlite-run jobs.list_jobs
        saltlite-run jobs.list_jobs search_function='pkg.*' start_time=2026-01-31
    """
    wanted: dict[str, Any] = {"fun": search_function} if search_function else {}
    for field, text in (("since", start_time), ("until", end_time)):
        if text:
            wanted[field] = _moment(text)
    return {job["jid"]: _row(job) for job in _jobs(wanted, limit)}


def lookup_jid(jid: str) -> dict[str, Any]:
    """
    What a job has returned until now, by minion.

    CLI Example::

        saltlite-run jobs.lookup_jid 20260131235959123456
    """
    return __client__.returns(jid)


def active() -> dict[str, dict[str, Any]]:
    """
    The jobs that have not ended everywhere: ``Running`` has how far each minion is, ``Returned`` those that are done.

    CLI Example::

        saltlite-run jobs.active
    """
    found = {}
    for job in _jobs({"state": "open"}, 10_000):
        targets = __client__.call("job_show", jid=job["jid"])["job"]["targets"]
        found[job["jid"]] = {
            **_row(job),
            "Running": {row["id"]: row["state"] for row in targets if row["outcome"] == "open"},
            "Returned": [row["id"] for row in targets if row["state"] == "returned"],
        }
    return found


def _jobs(wanted: dict[str, Any], limit: int) -> Iterator[dict[str, Any]]:
    cursor: dict[str, str] = {}
    while limit > 0:
        answer = __client__.call("job_list", limit=min(_PAGE, limit), **wanted, **cursor)
        yield from answer["jobs"]
        if not answer["more"]:
            return
        limit -= len(answer["jobs"])
        cursor = {"before": answer["jobs"][-1]["jid"]}


def _row(job: dict[str, Any]) -> dict[str, Any]:
    began = datetime.fromtimestamp(job["created_at"], UTC).astimezone()
    return {
        "Function": job["fun"],
        "Target": job["tgt"],
        "Target-type": job["tgt_type"],
        "User": job["user"],
        "StartTime": began.strftime("%Y, %b %d %H:%M:%S.%f"),
    }


def _moment(text: str) -> float:
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError as error:
        raise SaltInvocationError(f"{text!r} is not a time: write it 2026-01-31 or 2026-01-31T23:59") from error
