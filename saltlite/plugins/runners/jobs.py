"""Current and past jobs, from the master's store.

Operators without the right to other people's jobs see only their own.

:maintainer:    The saltlite authors
:maturity:      new
:platform:      all
"""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from itertools import islice
from typing import TYPE_CHECKING, Any

from saltlite.errors import CommandExecutionError, SaltInvocationError
from saltlite.model.plain import labels
from saltlite.model.signature import outputter_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from saltlite.loader.hints import __client__

_PAGE = 500
LIMIT = 10_000
"""Default maximum of listed jobs."""

_FIND_JOB = "saltutil.find_job"
_TIMES = ("%Y, %b %d %H:%M:%S.%f", "%Y, %b %d %H:%M:%S", "%Y, %b %d %H:%M", "%Y, %b %d")
"""Formats of StartTime, full and shortened."""


def active() -> dict[str, dict[str, Any]]:
    """Return the open jobs: ``Running`` has the state of each open minion, ``Returned`` the finished ones.

    CLI Example: ``saltlite-run jobs.active``
    """
    found = {}
    for listed in _jobs({"state": "open"}):
        job = _shown(listed["jid"])
        found[job["jid"]] = {
            **_row(job),
            "Running": [{row["id"]: row["state"]} for row in job["targets"] if row["outcome"] == "open"],
            "Returned": [row["id"] for row in job["targets"] if row["state"] == "returned"],
        }
    return found


def list_jobs(
    outputter: str = "", search_metadata: dict[str, Any] | None = None, search_function: str | list[str] = "",
    search_target: str | list[str] = "", start_time: str = "", end_time: str = "", limit: int = LIMIT,
) -> dict[str, Any]:  # fmt: skip
    """Return the newest jobs by id, at most ``limit``.

    ``search_function`` and ``search_target`` are globs, as a list or a text with commas. ``search_metadata`` finds jobs
    with one of these pairs of key and value. Times are written ``2026-01-31``, ``2026-01-31T23:59`` or ``2026, Jan 31
    23:59``, in the local time zone.

    CLI Example::

        saltlite-run jobs.list_jobs
        saltlite-run jobs.list_jobs search_function='pkg.*,service.*' start_time=2026-01-31
        saltlite-run jobs.list_jobs search_target='web*' search_metadata='{ticket: 4711}' outputter=table
    """
    wanted = {name: _moment(text) for name, text in (("since", start_time), ("until", end_time)) if text}
    found = _found(wanted, search_metadata, search_function, search_target, limit)
    return _with(outputter, {job["jid"]: _row(job) for job in found})


def list_jobs_filter(count: int, filter_find_job: bool = True, outputter: str = "") -> dict[str, Any]:
    """Return the newest ``count`` jobs, without those that only looked for other jobs.

    CLI Example::

        saltlite-run jobs.list_jobs_filter 50
        saltlite-run jobs.list_jobs_filter 50 filter_find_job=False
    """
    jobs = (job for job in _jobs({}) if not (filter_find_job and job["fun"] == _FIND_JOB))
    return _with(outputter, {job["jid"]: _row(job) for job in islice(jobs, max(count, 0))})


def list_job(jid: str) -> dict[str, Any]:
    """Return one job; ``Result`` has the returns so far by minion.

    CLI Example: ``saltlite-run jobs.list_job 20260131235959123456``
    """
    return {"jid": jid, **_whole(jid)}


def print_job(jid: str) -> dict[str, dict[str, Any]]:
    """Return one job under its id.

    CLI Example: ``saltlite-run jobs.print_job 20260131235959123456``
    """
    return {jid: _whole(jid)}


def lookup_jid(jid: str, returned: bool = True, missing: bool = False) -> dict[str, Any]:
    """Return the returns of a job so far, by minion. ``missing`` adds the minions that did not return; with
    ``returned=False`` only these. The function's own outputter prints it.

    CLI Example::

        saltlite-run jobs.lookup_jid 20260131235959123456
        saltlite-run jobs.lookup_jid 20260131235959123456 missing=True
    """
    found = __client__.returns(jid)
    job = _shown(jid)
    shown = found if returned else {}
    if missing:
        away = [name for name in _names(job).values() if name not in found]
        shown = {**shown, **dict.fromkeys(away, "Minion did not return")}
    return _with(_outputter(job), shown)


def exit_success(jid: str) -> dict[str, bool]:
    """Return for each minion of a job whether it returned with return code 0.

    CLI Example: ``saltlite-run jobs.exit_success 20260131235959123456``
    """
    job = _shown(jid)
    names = _names(job)
    return {names[row["id"]]: row["outcome"] == "ok" for row in job["targets"]}


def last_run(
    outputter: str = "",
    metadata: dict[str, Any] | None = None,
    function: str | list[str] = "",
    target: str | list[str] = "",
) -> dict[str, Any] | bool:
    """Return the newest job as ``jobs.print_job`` does, or False. The filters are those of ``jobs.list_jobs``.

    CLI Example::

        saltlite-run jobs.last_run
        saltlite-run jobs.last_run function=pkg.install target='web*'
    """
    for job in _found({}, metadata, function, target, 1):
        return _with(outputter, print_job(job["jid"]))
    return False


def _found(
    wanted: dict[str, Any],
    metadata: dict[str, Any] | None,
    function: str | list[str],
    target: str | list[str],
    limit: int,
) -> Iterator[dict[str, Any]]:
    """Return the newest jobs that match all filters. The master filters by one function; the rest is filtered here."""
    functions, targets = _globs(function), _globs(target)
    if metadata is not None and not isinstance(metadata, dict):
        raise SaltInvocationError("Metadata to search for is a map, as in '{ticket: 4711}'.")
    if len(functions) == 1:
        wanted = {**wanted, "fun": functions.pop()}
    if not (functions or targets or metadata):
        return _jobs(wanted, limit)
    jobs = (
        job
        for job in _jobs(wanted)
        if _fits([job["fun"], *job["fun"].split(",")], functions)
        and _fits([job["tgt"]], targets)
        and (not metadata or any(job.get("metadata", {}).get(name) == one for name, one in metadata.items()))
    )
    return islice(jobs, max(limit, 0))


def _jobs(wanted: dict[str, Any], limit: int | None = None) -> Iterator[dict[str, Any]]:
    cursor: dict[str, str] = {}
    while limit is None or limit > 0:
        page = _PAGE if limit is None else min(_PAGE, limit)
        answer = __client__.call("job_list", limit=page, whole=True, **wanted, **cursor)
        yield from answer["jobs"]
        if not answer["more"]:
            return
        limit = None if limit is None else limit - len(answer["jobs"])
        cursor = {"before": answer["jobs"][-1]["jid"]}


def _shown(jid: str) -> dict[str, Any]:
    job: dict[str, Any] = __client__.call("job_show", jid=str(jid))["job"]
    return job


def _whole(jid: str) -> dict[str, Any]:
    job = _shown(jid)
    return {**_row(job), "Minions": sorted(_names(job).values()), "Result": __client__.results(jid)}


def _names(job: dict[str, Any]) -> dict[str, str]:
    """Target -> the key of its return."""
    minions = [row["id"] for row in job["targets"] if "minion" not in row]
    return labels(minions, [row["id"] for row in job["targets"] if "minion" in row])


def _row(job: dict[str, Any]) -> dict[str, Any]:
    began = datetime.fromtimestamp(job["created_at"], UTC).astimezone()
    arguments = [[*args, {"__kwarg__": True, **kwargs}] if kwargs else args for _fun, args, kwargs in job["calls"]]
    return {
        "Function": job["fun"],
        "Arguments": arguments[0] if len(arguments) == 1 else arguments,
        "Target": job["tgt"],
        "Target-type": job["tgt_type"],
        "User": job["user"],
        **({"Metadata": job["metadata"]} if "metadata" in job else {}),
        "StartTime": began.strftime(_TIMES[0]),
    }


def _outputter(job: dict[str, Any]) -> str:
    """The outputter that the function of a job asks for, read from a minion that returned; "" for none."""
    one = next((row["id"] for row in job["targets"] if row["state"] == "returned"), "")
    if not one or len(job["calls"]) != 1:
        return ""
    fun = job["calls"][0][0]
    # An operator without the right to describe the function still gets the return.
    with contextlib.suppress(CommandExecutionError):
        reply = __client__.call("describe", tgt=one, tgt_type="list", funs=[fun])
        return next(iter({outputter_of(text) for text in reply["functions"][fun]["signatures"]}), "")
    return ""


def _with(outputter: str, data: dict[str, Any]) -> dict[str, Any]:
    return {"outputter": outputter, "data": data} if outputter else data


def _globs(given: str | list[str]) -> list[str]:
    listed = given.split(",") if isinstance(given, str) else given
    return [glob for one in listed if (glob := str(one).strip())]


def _fits(texts: list[str], globs: list[str]) -> bool:
    return not globs or any(fnmatchcase(text, glob) for text in texts for glob in globs)


def _moment(text: str) -> float:
    with contextlib.suppress(ValueError):
        return datetime.fromisoformat(text).timestamp()
    for form in _TIMES:
        with contextlib.suppress(ValueError):
            return datetime.strptime(text, form).astimezone().timestamp()
    raise SaltInvocationError(f"{text!r} is not a time: write it 2026-01-31, 2026-01-31T23:59 or 2026, Jan 31 23:59")
