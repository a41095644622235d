"""Jobs that this minion runs by itself: list and change them.

The schedule comes from the option ``schedule``, from the pillar ``schedule``, which goes first, and from these
functions, whose changes go before both. A change is stored on the minion (not with ``persist=False``).

:maintainer:    The saltlite authors
:maturity:      new
:platform:      all
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from saltlite.errors import CommandExecutionError, nearest

if TYPE_CHECKING:
    from saltlite.loader.hints import __salt__, __timers__, __utils__

__func_alias__ = {"list_": "list", "reload_": "reload"}
__outputter__ = {"show_next_fire_time": "nested"}

_HIDDEN = "__"
"""Names of entries that the minion adds by itself begin so."""
_CONTROL = frozenset({"test", "persist", "offline", "job_args", "job_kwargs", "fire_event"})


def list_(
    show_all: bool = False,
    show_disabled: bool = True,
    where: str | None = None,
    return_yaml: bool = True,
) -> Any:
    """Return the entries of the schedule, as text in YAML, or with ``return_yaml=False`` as a map.

    ``show_all`` adds those that the minion has by itself. ``where`` is ``pillar``, ``opts`` or ``function``.

    CLI Example::

        saltlite '*' schedule.list
        saltlite '*' schedule.list show_all=True return_yaml=False
    """
    found = _ask("list")
    jobs: dict[str, Any] = {
        name: job
        for name, job in found["jobs"].items()
        if (show_all or not name.startswith(_HIDDEN))
        and (show_disabled or job["enabled"])
        and (where is None or found["sources"][name] == where)
    }
    if not found["enabled"]:
        jobs["enabled"] = False
    if not return_yaml:
        return jobs
    return __utils__["yaml.safe_dump"]({"schedule": jobs}, default_flow_style=False) if jobs else {"schedule": {}}


def is_enabled(name: str | None = None) -> Any:
    """Return the entry of that name, ``{}`` without one; without a name, whether the schedule is enabled.

    CLI Example: ``saltlite '*' schedule.is_enabled backup``
    """
    found = _ask("list")
    return found["enabled"] if name is None else found["jobs"].get(name, {})


def add(name: str, **kwargs: Any) -> dict[str, Any]:
    """Add an entry: ``function``, ``job_args`` and ``job_kwargs``, and when it runs.

    That is ``seconds``, ``minutes``, ``hours`` and ``days``; ``when``, a time or a list (``5:00pm``, ``Monday 17:00``,
    ``2026-01-31 17:00``); ``cron``; or ``once``. ``splay``, ``range``, ``skip_during_range``, ``after``, ``until``,
    ``maxrunning``, ``jid_include``, ``run_on_start``, ``return_job``, ``enabled``, ``metadata`` and ``catch_up`` are
    explained by ``saltlite help automation``. ``test`` changes nothing.

    CLI Example::

        saltlite '*' schedule.add backup function=cmd.run job_args="['backup --all']" cron='15 2 * * *' splay=600
        saltlite '*' schedule.add ping function=test.ping seconds=3600
    """
    if name in _ask("list")["jobs"]:
        return _result(False, f"Job {name} already exists in schedule.")
    entry = _entry(kwargs)
    return _change("added", f"Added job: {name} to schedule.{_warning(entry)}", name, {**kwargs}, entry)


def modify(name: str, **kwargs: Any) -> dict[str, Any]:
    """Change fields of an entry, as ``schedule.add`` takes them.

    CLI Example: ``saltlite '*' schedule.modify ping seconds=600``
    """
    jobs = _ask("list")["jobs"]
    if name not in jobs:
        return _result(False, f"Job {name} does not exist in schedule.")
    new = _entry(kwargs)
    times = {"seconds", "minutes", "hours", "days", "when", "cron", "once"}
    old = {key: value for key, value in jobs[name].items() if not (times & set(new) and key in times)}
    if {**old, **new} == jobs[name]:
        return _result(True, f"Job {name} in correct state")
    comment = f"Modified job: {name} in schedule.{_warning(new)}"
    answer = _change("modified", comment, name, kwargs, {**old, **new})
    if answer["result"]:
        answer["changes"] = {name: {"old": jobs[name], "new": {**old, **new}}}
    return answer


def delete(name: str, **kwargs: Any) -> dict[str, Any]:
    """Delete an entry.

    CLI Example: ``saltlite '*' schedule.delete backup``
    """
    if kwargs.get("test"):
        return _result(True, f"Job: {name} would be deleted from schedule.")
    asked = {"name": name, "persist": kwargs.get("persist", True)}
    return _done("delete", asked, f"Deleted Job {name} from schedule.", {name: "removed"})


def purge(**kwargs: Any) -> dict[str, Any]:
    """Delete all entries but those that the minion has by itself.

    CLI Example: ``saltlite '*' schedule.purge``
    """
    answer: dict[str, Any] = {"comment": [], "changes": {}, "result": True}
    for name in _ask("list")["jobs"]:
        if name.startswith(_HIDDEN):
            continue
        one = delete(name, **kwargs)
        answer["comment"].append(one["comment"])
        answer["changes"].update(one["changes"])
        answer["result"] = answer["result"] and one["result"]
    return answer


def enable(**kwargs: Any) -> dict[str, Any]:
    """Enable the schedule.

    CLI Example: ``saltlite '*' schedule.enable``
    """
    return _switch(kwargs, enabled=True)


def disable(**kwargs: Any) -> dict[str, Any]:
    """Disable the whole schedule; entries that the minion has by itself stop, too.

    CLI Example: ``saltlite '*' schedule.disable``
    """
    return _switch(kwargs, enabled=False)


def enable_job(name: str, **kwargs: Any) -> dict[str, Any]:
    """Enable an entry.

    CLI Example: ``saltlite '*' schedule.enable_job backup``
    """
    return _switch_job(name, kwargs, enabled=True)


def disable_job(name: str, **kwargs: Any) -> dict[str, Any]:
    """Disable an entry.

    CLI Example: ``saltlite '*' schedule.disable_job backup``
    """
    return _switch_job(name, kwargs, enabled=False)


def run_job(name: str, force: bool = False) -> dict[str, Any]:
    """Run an entry now, a disabled one only with ``force``.

    CLI Example: ``saltlite '*' schedule.run_job backup``
    """
    jobs = _ask("list")["jobs"]
    if name in jobs and not jobs[name]["enabled"] and not force:
        return _result(False, f"Job {name} is disabled.")
    return _done("run", {"name": name}, f"Scheduling Job {name} on minion.", {})


def show_next_fire_time(name: str) -> dict[str, Any]:
    """Return when an entry runs next, in local time; an empty text for never.

    CLI Example: ``saltlite '*' schedule.show_next_fire_time backup``
    """
    try:
        return {"result": True, "next_fire_time": _ask("next", name=name)["next"]}
    except CommandExecutionError as error:
        return _result(False, str(error))


def skip_job(name: str, current_time: str) -> dict[str, Any]:
    """Do not run an entry at that time, as ``schedule.show_next_fire_time`` returns it. A restart forgets it.

    CLI Example: ``saltlite '*' schedule.skip_job backup 2026-01-31T02:15:00``
    """
    comment = f"Skipped Job {name} at {current_time}."
    return _done("move", {"name": name, "moment": str(current_time)}, comment, {})


def postpone_job(name: str, current_time: str, new_time: str) -> dict[str, Any]:
    """Run an entry at another time. A restart of the minion forgets it.

    CLI Example: ``saltlite '*' schedule.postpone_job backup 2026-01-31T02:15:00 2026-01-31T04:00:00``
    """
    asked = {"name": name, "moment": str(current_time), "to": str(new_time)}
    return _done("move", asked, f"Postponed Job {name} until {new_time}.", {})


def save(**kwargs: Any) -> dict[str, Any]:
    """Store changes that were made with ``persist=False``.

    CLI Example: ``saltlite '*' schedule.save``
    """
    if kwargs.get("test"):
        return _result(True, "Schedule would be saved.")
    return _done("save", {}, "Schedule (non-pillar items) saved.", {})


def reload_() -> dict[str, Any]:
    """Drop changes that were not stored.

    CLI Example: ``saltlite '*' schedule.reload``
    """
    return _done("reload", {}, "Reloaded schedule.", {})


def _ask(operation: str, **fields: Any) -> dict[str, Any]:
    if not isinstance(__timers__, Callable):  # type: ignore[arg-type]  # an empty dict where no minion runs
        raise CommandExecutionError("This call has no minion with a schedule.")
    return __timers__("schedule", operation, fields)


def _entry(kwargs: dict[str, Any]) -> dict[str, Any]:
    """The fields of an entry in the arguments of `add` and `modify`."""
    fields = {key: value for key, value in kwargs.items() if key not in _CONTROL and not key.startswith("__")}
    for name, given in (("args", "job_args"), ("kwargs", "job_kwargs")):
        if given in kwargs:
            fields[name] = kwargs[given]
    return fields


def _warning(entry: dict[str, Any]) -> str:
    """That the entry's function is not here. It may come later, with a package or a module, so the entry is taken."""
    function = entry.get("function")
    if not isinstance(function, str) or function in __salt__:
        return ""
    near = nearest(function, list(__salt__))
    return f" This minion has no function {function!r} now{f'; did you mean {near}?' if near else '.'}"


def _change(what: str, comment: str, name: str, kwargs: dict[str, Any], job: dict[str, Any]) -> dict[str, Any]:
    if kwargs.get("test"):
        return _result(True, f"Job: {name} would be {what} in schedule.")
    return _done("set", {"name": name, "job": job, "persist": kwargs.get("persist", True)}, comment, {name: what})


def _switch(kwargs: dict[str, Any], *, enabled: bool) -> dict[str, Any]:
    word = "enabled" if enabled else "disabled"
    if kwargs.get("test"):
        return _result(True, f"Schedule would be {word}.")
    asked = {"enabled": enabled, "persist": kwargs.get("persist", True)}
    return _done("enable", asked, f"{word.capitalize()} schedule on minion.", {"schedule": word})


def _switch_job(name: str, kwargs: dict[str, Any], *, enabled: bool) -> dict[str, Any]:
    word = "enabled" if enabled else "disabled"
    job = _ask("list")["jobs"].get(name)
    if job is None:
        return _result(False, f"Job {name} does not exist.")
    if kwargs.get("test"):
        return _result(True, f"Job: {name} would be {word} in schedule.")
    asked = {"name": name, "job": {**job, "enabled": enabled}, "persist": kwargs.get("persist", True)}
    return _done("set", asked, f"{word.capitalize()} Job {name} in schedule.", {name: word})


def _done(operation: str, fields: dict[str, Any], comment: str, changes: dict[str, Any]) -> dict[str, Any]:
    try:
        _ask(operation, **fields)
    except CommandExecutionError as error:
        return _result(False, str(error))
    return {"comment": comment, "changes": changes, "result": True}


def _result(result: bool, comment: str) -> dict[str, Any]:  # noqa: FBT001, RUF100 - a value
    return {"comment": comment, "changes": {}, "result": result}
