"""Records of logins in the files wtmp and btmp: those that were added since the last look."""

from __future__ import annotations

import datetime
import os
import struct
from collections.abc import Mapping, MutableMapping
from typing import Any

from saltlite.plugins.beacons import _settings

_RECORD = struct.Struct("hi32s4s32s256shhiii4i20x")
_FIELDS = (
    "type", "PID", "line", "inittab", "user", "hostname", "exit_termination", "exit_status", "session", "time", "usec",
)  # fmt: skip
_RECORDS_MAX = 1000
"""Records that one look reads."""


def problem(config: Any, name: str) -> str:
    """Why `config` is no configuration of that beacon; "" if it is one."""
    wrong = _settings.problem_of_list(config, name)
    about = {} if wrong else _settings.settings(config)
    users = about.get("users") or {}
    if not isinstance(users, Mapping):
        return f"`users` of the beacon {name} is a map from names to settings."
    for who, given in [*users.items(), ("defaults", about.get("defaults"))]:
        hours = (given or {}).get("time_range") if isinstance(given, Mapping | None) else "x"
        if hours is not None and _hours(hours) is None:
            wrong = wrong or f"time_range of {who} is a map of start and end, times of the day as in 8am or 17:30."
    return wrong


def added(
    path: str, config: Any, context: MutableMapping[str, Any], actions: Mapping[int, str]
) -> list[dict[str, Any]]:
    """Events about records that were added to `path`; none at the first look. `actions` are the types that count."""
    about = _settings.settings(config)
    key = f"logins.{about.get('_beacon_name', path)}"
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return []
    inode, at = context.get(key, (found.st_ino, found.st_size))
    if inode != found.st_ino or at > found.st_size:
        at = 0
    context[key] = found.st_ino, at
    events = []
    with open(path, "rb") as file:
        file.seek(at)
        for _number in range(_RECORDS_MAX):
            data = file.read(_RECORD.size)
            if len(data) < _RECORD.size:
                break
            at += _RECORD.size
            event = _event(data, actions)
            if event is not None and _is_wanted(event, about):
                events.append(event)
    context[key] = found.st_ino, at
    return events


def _event(data: bytes, actions: Mapping[int, str]) -> dict[str, Any] | None:
    values = _RECORD.unpack(data)
    kind = int(values[0])
    row: dict[str, Any] = {
        name: value.partition(b"\0")[0].decode("utf-8", "replace") if isinstance(value, bytes) else value
        for name, value in zip(_FIELDS, values, strict=False)
    }
    if kind not in actions or (not row["user"] and actions[kind] != "logout"):
        return None
    return {**row, "action": actions[kind], "tag": ""}


def _is_wanted(event: Mapping[str, Any], about: Mapping[str, Any]) -> bool:
    users = about.get("users")
    if users and event["user"] not in users:
        return False
    given = (users or {}).get(event["user"]) or about.get("defaults") or {}
    hours = _hours(given["time_range"]) if given.get("time_range") else None
    if hours is None:
        return True
    start, end = hours
    at = datetime.datetime.fromtimestamp(event["time"]).time()  # noqa: DTZ006 - a local time, as the configuration's
    return start <= at <= end if start <= end else at >= start or at <= end


def _hours(value: Any) -> tuple[datetime.time, datetime.time] | None:
    """The times of the day in {start, end}; None for anything else."""
    if not isinstance(value, Mapping) or not {"start", "end"} <= set(value):
        return None
    times = []
    for text in (str(value["start"]), str(value["end"])):
        for form in ("%H:%M", "%I%p", "%I:%M%p"):
            try:
                times.append(datetime.datetime.strptime(text, form).time())  # noqa: DTZ007 - a time of a day
            except ValueError:
                continue
            break
    return (times[0], times[1]) if len(times) == 2 else None
