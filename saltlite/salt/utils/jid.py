"""`salt.utils.jid`: job ids."""

from __future__ import annotations

import datetime
import hashlib
import os
from calendar import month_abbr
from collections.abc import Mapping
from typing import Any

_DIGITS = 20
_last: datetime.datetime | None = None


def gen_jid(opts: Mapping[str, Any]) -> str:
    """A job id of the present time in UTC. With option `unique_jid` it grows with each call, and ends with the number
    of the process."""
    global _last  # noqa: PLW0603 - the ids of one process differ
    now = datetime.datetime.now(tz=datetime.UTC)
    if not opts.get("unique_jid", False):
        return f"{now:%Y%m%d%H%M%S%f}"
    if _last is not None and _last >= now:
        now = _last + datetime.timedelta(microseconds=1)
    _last = now
    return f"{now:%Y%m%d%H%M%S%f}_{os.getpid()}"


def is_jid(jid: Any) -> bool:
    """Whether it is a text of 20 digits, which `_` and more may follow."""
    return isinstance(jid, str) and _has_form(jid) and jid[:_DIGITS].isdigit()


def _has_form(jid: str) -> bool:
    return len(jid) == _DIGITS or (len(jid) > _DIGITS + 1 and jid[_DIGITS] == "_")


def jid_to_time(jid: Any) -> str:
    """The time of a job id: `2026, Jan 31 23:59:59.123456`; "" for what is none."""
    text = str(jid)
    if not _has_form(text):
        return ""
    day = f"{text[:4]}, {month_abbr[int(text[4:6])]} {text[6:8]}"
    return f"{day} {text[8:10]}:{text[10:12]}:{text[12:14]}.{text[14:20]}"


_SHOWN = (
    ("User", "user", "root"),
    ("Target", "tgt", "unknown-target"),
    ("Target-type", "tgt_type", "list"),
    ("Function", "fun", "unknown-function"),
)
"""Shown key, the key of the job, and the value without it."""


def format_job_instance(job: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a job that its users see, by their shown names."""
    arguments = list(job.get("arg") or ())
    found = {shown: job.get(key, default) for shown, key, default in _SHOWN} | {"Arguments": arguments}
    keywords = (one for one in arguments if isinstance(one, dict) and one.get("__kwarg__") is True)
    for place in (job, job.get("kwargs") or {}, *keywords):
        if "metadata" in place:
            return found | {"Metadata": place["metadata"]}
    return found


def format_jid_instance(jid: Any, job: Mapping[str, Any]) -> dict[str, Any]:
    """Like `format_job_instance`, with the start time."""
    return {**format_job_instance(job), "StartTime": jid_to_time(jid)}


def format_jid_instance_ext(jid: Any, job: Mapping[str, Any]) -> dict[str, Any]:
    """Like `format_job_instance`, with the id and the start time."""
    return {**format_job_instance(job), "JID": jid, "StartTime": jid_to_time(jid)}


def jid_dir(jid: Any, job_dir: str | None = None, hash_type: str = "sha256") -> str:
    """The folder of a job below `job_dir`: two characters of its digest, and the rest."""
    digest = hashlib.new(hash_type, str(jid).encode()).hexdigest()
    return os.path.join(job_dir or "", digest[:2], digest[2:])
