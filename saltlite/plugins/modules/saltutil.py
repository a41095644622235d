"""See and signal the jobs that run on this minion, and bring it the plug-ins of the master.

The minion keeps one JSON file a running job in ``<data_dir>/running``, named by its jid, with the keys
``jid``, ``fun``, ``user``, ``pid`` and ``started``; a job of several functions has them all in ``fun``, joined by
commas. A job's process leads a process group of its own; a signal goes to the whole group, and to the children that
have left it for a session of their own.

Plug-ins are the files in ``salt://_modules``, ``salt://_grains`` and so on. A sync compares them by digest and puts the
whole new set of a type in place of the old one in one step, or changes nothing and says why. The next job sees it.

:maintainer:    The saltlite authors
:maturity:      new
:platform:      Linux
"""

from __future__ import annotations

import contextlib
import fnmatch
import json
import logging
import os
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from saltlite.decorators.notes import note
from saltlite.errors import CommandExecutionError, SaltInvocationError, UsageError
from saltlite.model.extmods import MINION_TYPES, ExtmodFilter, SyncRules, names_text, read_filter
from saltlite.model.files import BASE_ENV
from saltlite.model.ids import parse_jid
from saltlite.model.job import FOLDER, HEADER_BYTES, SUFFIX, digest_of

if TYPE_CHECKING:
    from saltlite.loader.hints import __context__, __file_client__, __opts__


# --- Jobs ---

RECORD_BYTES_MAX = 64 * 1024
"""A larger file in the folder is not the minion's."""

KEPT_PART_MAX = 4 * 1024 * 1024
"""Bytes of a kept return in one answer, at most."""

_ANSWER_BYTES = 16 * 1024
"""What an answer takes beside the bytes of a kept return."""


__risk__ = {"kill_all_jobs": "kill-jobs", "term_all_jobs": "kill-jobs"}


def running() -> list[dict[str, Any]]:
    """The jobs that run now, without the one that asks: ``jid``, ``fun``, ``user``, ``pid`` and ``started``.

    CLI Example::

        saltlite '*' saltutil.running
    """
    folder = _folder()
    try:
        names = sorted(os.listdir(folder))
    except FileNotFoundError:
        return []
    found = []
    for name in names:
        record = _read(os.path.join(folder, name))
        if record and record["pid"] != os.getpid() and _leads_a_group(record["pid"]):
            found.append(record)
    return found


def is_running(fun: str) -> list[dict[str, Any]]:
    """The running jobs that have that function among theirs; globs work.

    CLI Example::

        saltlite '*' saltutil.is_running state.highstate
        saltlite '*' saltutil.is_running 'pkg.*'
    """
    return [
        record
        for record in running()
        if any(fnmatch.fnmatchcase(name, str(fun)) for name in str(record["fun"]).split(","))
    ]


def find_job(jid: str) -> dict[str, Any]:
    """The running job with that jid, or an empty dict.

    CLI Example::

        saltlite '*' saltutil.find_job 20260131235959123456
    """
    wanted = _jid(jid)
    return next((record for record in running() if record["jid"] == wanted), {})


def signal_job(jid: str, sig: int | str) -> str:
    """Send a signal to the processes of a running job; an empty answer says that it does not run.

    CLI Example::

        saltlite '*' saltutil.signal_job 20260131235959123456 15
    """
    number = _signal_number(sig)
    record = find_job(jid)
    if not record:
        return ""
    strays = _outside_the_group(record["pid"])
    try:
        os.killpg(record["pid"], number)
        for pid in strays:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
    except ProcessLookupError:
        return ""
    except PermissionError as error:
        text = f"This minion may not signal job {jid} at pid {record['pid']}: it runs as another user."
        raise CommandExecutionError(text) from error
    return f"Signal {number} sent to job {record['jid']} at pid {record['pid']}"


def term_job(jid: str) -> str:
    """End a running job with SIGTERM.

    CLI Example::

        saltlite '*' saltutil.term_job 20260131235959123456
    """
    return signal_job(jid, signal.SIGTERM)


def kill_job(jid: str) -> str:
    """End a running job with SIGKILL.

    CLI Example::

        saltlite '*' saltutil.kill_job 20260131235959123456
    """
    return signal_job(jid, signal.SIGKILL)


def term_all_jobs() -> list[str]:
    """End all running jobs but this one with SIGTERM; what ``term_job`` says of each.

    CLI Example::

        saltlite '*' saltutil.term_all_jobs
    """
    return [signal_job(record["jid"], signal.SIGTERM) for record in running()]


def kill_all_jobs() -> list[str]:
    """End all running jobs but this one with SIGKILL; what ``kill_job`` says of each.

    CLI Example::

        saltlite '*' saltutil.kill_all_jobs
    """
    return [signal_job(record["jid"], signal.SIGKILL) for record in running()]


def kept_return(jid: str, offset: int = 0, size: int = KEPT_PART_MAX) -> dict[str, Any]:
    """A part of a return that was too large to travel, for ``saltlite job fetch``: ``data`` from ``offset`` on, at most
    ``size`` bytes, with the ``size`` of all of it and its ``sha256`` in hexadecimal digits. All parts together are the
    return, encoded with msgpack. Whoever may run this function can read the returns of other people's jobs.

    CLI Example::

        saltlite '*' saltutil.kept_return 20260131235959123456 0 1024
    """
    if not isinstance(offset, int) or not isinstance(size, int) or offset < 0 or size < 1:
        raise SaltInvocationError("offset and size are whole numbers of bytes, from 0 and from 1 on.")
    wanted = _jid(jid)
    path = os.path.join(_data_dir(), FOLDER, wanted + SUFFIX)
    part = min(size, KEPT_PART_MAX, int(__opts__.get("return_max", KEPT_PART_MAX)) - _ANSWER_BYTES)
    try:
        with open(path, "rb") as stream:
            digest = digest_of(stream.read(HEADER_BYTES))
            total = os.fstat(stream.fileno()).st_size - HEADER_BYTES
            data = os.pread(stream.fileno(), part, HEADER_BYTES + offset)
    except FileNotFoundError as error:
        raise CommandExecutionError(
            f"This minion keeps no return of job {wanted}: it was not too large to travel, or it made room for "
            "later ones (kept_returns_max)."
        ) from error
    except (OSError, ValueError) as error:
        raise CommandExecutionError(f"The kept return {path} cannot be read: {error}") from error
    return {"size": total, "sha256": digest.hex(), "data": data}


def _folder() -> str:
    return os.path.join(_data_dir(), "running")


def _data_dir() -> str:
    if "data_dir" not in __opts__:
        raise CommandExecutionError("This call has no minion behind it, so there are no running jobs to look at.")
    return str(__opts__["data_dir"])


def _outside_the_group(leader: int) -> list[int]:
    """The descendants of that process which have left its group."""
    found, ahead = [], [leader]
    while ahead:
        for pid in _children(ahead.pop()):
            ahead.append(pid)
            with contextlib.suppress(ProcessLookupError):
                if os.getpgid(pid) != leader:
                    found.append(pid)
    return found


def _children(pid: int) -> list[int]:
    found: list[int] = []
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children", "rb") as stream:
                found += map(int, stream.read().split())
    return found


def _read(path: str) -> dict[str, Any] | None:
    """The record of one job, or None: it may have ended since the listing, or the file is none of ours."""
    try:
        with open(path, "rb") as stream:
            record = json.loads(stream.read(RECORD_BYTES_MAX))
    except (OSError, ValueError):
        return None
    if not isinstance(record, dict) or not isinstance(record.get("pid"), int) or record["pid"] < 2:
        return None
    keys = ("jid", "fun", "user", "pid", "started")
    return {key: record[key] for key in keys} if all(key in record for key in keys) else None


def _leads_a_group(pid: int) -> bool:
    """Whether that process lives and leads its group, as a job's does; a reused pid almost never does."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        return os.getpgid(pid) == pid
    return False


def _jid(text: Any) -> str:
    try:
        return parse_jid(str(text))
    except UsageError as error:
        raise SaltInvocationError(str(error)) from error


def _signal_number(sig: int | str) -> int:
    try:
        name = str(sig)
        return int(signal.Signals(int(name)) if name.isdecimal() else signal.Signals["SIG" + name.removeprefix("SIG")])
    except (ValueError, KeyError) as error:
        raise SaltInvocationError(f"{sig!r} is not a signal: 15, TERM and SIGTERM all name one.") from error


# --- Plug-ins ---

log = logging.getLogger(__name__)

_COPIES = ("files", "localfiles")
"""Folders of `cachedir` with copies of files."""


def sync_modules(
    saltenv: str | list[str] | None = None,
    refresh: bool = True,
    extmod_whitelist: str | list[str] | dict[str, Any] | None = None,
    extmod_blacklist: str | list[str] | dict[str, Any] | None = None,
    *,
    extmod_empty: bool | None = None,
) -> list[str]:
    """Bring the execution modules in ``salt://_modules``; the names of those that changed, as ``modules.lumberjack``.

    ``saltenv`` is one environment or several (``base`` by default). ``extmod_whitelist`` and ``extmod_blacklist`` are
    globs of names: a list, a text with commas, or a map from types to lists, as the options of these names are, whose
    place they take. With ``refresh`` the minion looks at its modules at once.

    What the master does not have any more, or the lists leave out, is removed; a note beside the return and the log
    name it. When the lists leave out all that the master has, nothing is changed and the call fails, unless
    ``extmod_empty``, or the option of that name, is True.

    CLI Example::

        saltlite '*' saltutil.sync_modules
        saltlite '*' saltutil.sync_modules saltenv=dev extmod_blacklist=lumberjack
        saltlite '*' saltutil.sync_modules extmod_whitelist='{modules: [plain, "web*"]}'
    """
    return _sync(_Wish("modules", saltenv, extmod_whitelist, extmod_blacklist, extmod_empty), refresh)


def sync_grains(
    saltenv: str | list[str] | None = None,
    refresh: bool = True,
    extmod_whitelist: str | list[str] | dict[str, Any] | None = None,
    extmod_blacklist: str | list[str] | dict[str, Any] | None = None,
    *,
    extmod_empty: bool | None = None,
) -> list[str]:
    """Bring the grains in ``salt://_grains``, as ``sync_modules``; with ``refresh`` all grains are found anew.

    CLI Example::

        saltlite '*' saltutil.sync_grains
    """
    return _sync(_Wish("grains", saltenv, extmod_whitelist, extmod_blacklist, extmod_empty), refresh)


def sync_executors(
    saltenv: str | list[str] | None = None,
    refresh: bool = True,
    extmod_whitelist: str | list[str] | dict[str, Any] | None = None,
    extmod_blacklist: str | list[str] | dict[str, Any] | None = None,
    *,
    extmod_empty: bool | None = None,
) -> list[str]:
    """Bring the executors in ``salt://_executors``, as ``sync_modules``.

    CLI Example::

        saltlite '*' saltutil.sync_executors
    """
    return _sync(_Wish("executors", saltenv, extmod_whitelist, extmod_blacklist, extmod_empty), refresh)


def sync_interfaces(
    saltenv: str | list[str] | None = None,
    refresh: bool = True,
    extmod_whitelist: str | list[str] | dict[str, Any] | None = None,
    extmod_blacklist: str | list[str] | dict[str, Any] | None = None,
    *,
    extmod_empty: bool | None = None,
) -> list[str]:
    """Bring the module interfaces in ``salt://_interfaces``, as ``sync_modules``.

    CLI Example::

        saltlite '*' saltutil.sync_interfaces
    """
    return _sync(_Wish("interfaces", saltenv, extmod_whitelist, extmod_blacklist, extmod_empty), refresh)


def sync_resources(
    saltenv: str | list[str] | None = None,
    refresh: bool = True,
    extmod_whitelist: str | list[str] | dict[str, Any] | None = None,
    extmod_blacklist: str | list[str] | dict[str, Any] | None = None,
    *,
    extmod_empty: bool | None = None,
) -> list[str]:
    """Bring the resource types in ``salt://_resources``, as ``sync_modules``; with ``refresh`` resources are looked
    for.

    CLI Example::

        saltlite '*' saltutil.sync_resources
    """
    return _sync(_Wish("resources", saltenv, extmod_whitelist, extmod_blacklist, extmod_empty), refresh)


def sync_output(
    saltenv: str | list[str] | None = None,
    refresh: bool = True,
    extmod_whitelist: str | list[str] | dict[str, Any] | None = None,
    extmod_blacklist: str | list[str] | dict[str, Any] | None = None,
    *,
    extmod_empty: bool | None = None,
) -> list[str]:
    """Bring the outputters in ``salt://_output``, for ``saltlite-call``, as ``sync_modules``.

    CLI Example::

        saltlite '*' saltutil.sync_output
    """
    return _sync(_Wish("output", saltenv, extmod_whitelist, extmod_blacklist, extmod_empty), refresh)


def sync_outputters(
    saltenv: str | list[str] | None = None,
    refresh: bool = True,
    extmod_whitelist: str | list[str] | dict[str, Any] | None = None,
    extmod_blacklist: str | list[str] | dict[str, Any] | None = None,
    *,
    extmod_empty: bool | None = None,
) -> list[str]:
    """The same as ``sync_output``.

    CLI Example::

        saltlite '*' saltutil.sync_outputters
    """
    return _sync(_Wish("output", saltenv, extmod_whitelist, extmod_blacklist, extmod_empty), refresh)


def sync_utils(
    saltenv: str | list[str] | None = None,
    refresh: bool = True,
    extmod_whitelist: str | list[str] | dict[str, Any] | None = None,
    extmod_blacklist: str | list[str] | dict[str, Any] | None = None,
    *,
    extmod_empty: bool | None = None,
) -> list[str]:
    """Bring the files in ``salt://_utils``, which modules reach as ``__utils__``, as ``sync_modules``.

    CLI Example::

        saltlite '*' saltutil.sync_utils
    """
    return _sync(_Wish("utils", saltenv, extmod_whitelist, extmod_blacklist, extmod_empty), refresh)


def sync_all(
    saltenv: str | list[str] | None = None,
    refresh: bool = True,
    extmod_whitelist: dict[str, Any] | None = None,
    extmod_blacklist: dict[str, Any] | None = None,
    *,
    extmod_empty: bool | None = None,
    report: bool = False,
) -> dict[str, Any]:
    """Bring the plug-ins of every type; type -> the names of those that changed.

    The lists are maps here, type -> globs of names. With ``report`` each type has ``synced``, ``removed`` and
    ``failed`` (name -> why; then nothing of that type was changed) instead.

    CLI Example::

        saltlite '*' saltutil.sync_all
        saltlite '*' saltutil.sync_all report=True
    """
    wish = _Wish("", saltenv, extmod_whitelist, extmod_blacklist, extmod_empty)
    chosen = _filter(wish)
    found = {kind: _synced(kind, wish, chosen) for kind in MINION_TYPES}
    if refresh:
        _refresh_after([kind for kind, said in found.items() if said["synced"] or said["removed"]])
    if report:
        return found
    failed = {name: why for said in found.values() for name, why in said["failed"].items()}
    if failed:
        raise CommandExecutionError(_why_failed(failed))
    return {kind: said["synced"] for kind, said in found.items()}


def refresh_modules() -> bool:
    """Have the minion look at its modules, and tell the master what they offer; True when it has.

    CLI Example::

        saltlite '*' saltutil.refresh_modules
    """
    _client().refresh("modules")
    return True


def refresh_grains(refresh_pillar: bool = True) -> bool:
    """Have the minion find its grains anew, and tell the master; True when the next job will see them.

    With ``refresh_pillar`` the pillar, which may depend on them, is fetched after that.

    CLI Example::

        saltlite '*' saltutil.refresh_grains
    """
    _client().refresh("grains")
    if refresh_pillar:
        _client().refresh("pillar")
    return True


def refresh_pillar(wait: bool = True, timeout: float = 30) -> bool:  # noqa: ARG001 - Salt's signature
    """Have the minion fetch its pillar anew, and register its resources again where they follow from it.

    True when that is done, and the next job will see it. ``wait`` and ``timeout`` are there because Salt has
    them, and change nothing.

    CLI Example::

        saltlite '*' saltutil.refresh_pillar
    """
    _client().refresh("pillar")
    return True


def pillar_refresh(wait: bool = True, timeout: float = 30) -> bool:
    """The same as ``refresh_pillar``, by its older name.

    CLI Example::

        saltlite '*' saltutil.pillar_refresh
    """
    return refresh_pillar(wait, timeout)


def refresh_resources() -> dict[str, Any]:
    """Have the minion look for its resources and their grains, register them, and tell how that went.

    ``types`` has of each resource type whether it was ``loaded`` and ``initialised``, how many resources were ``found``
    and how many it ``was`` in the look before, and the ``error`` that kept it from that, if any. Where nothing was
    found, ``looked_at`` says which keys of the pillar declare resources. ``kept_back`` is what the master did not take,
    or keeps although it was not found. With an error of a type, or anything kept back, the return code is 1.

    Grains that take longer than a second are registered as they come.

    CLI Example::

        saltlite '*' saltutil.refresh_resources
    """
    told: dict[str, Any] = _client().refresh("resources")
    if told["kept_back"] or any("error" in one for one in told["types"].values()):
        __context__["retcode"] = 1
    return told if told["looked_at"] else {name: value for name, value in told.items() if name != "looked_at"}


def list_extmods() -> dict[str, list[str]]:
    """The plug-ins that were brought, by type.

    CLI Example::

        saltlite '*' saltutil.list_extmods
    """
    folder = str(_option("extension_modules"))
    found = {}
    for kind in MINION_TYPES:
        with contextlib.suppress(FileNotFoundError):
            names = {name.partition(".")[0] for name in os.listdir(os.path.join(folder, kind))}
            found[kind] = sorted(name for name in names if name and not name.startswith("__"))
    return {kind: names for kind, names in found.items() if names}


def clear_cache(days: int = -1) -> bool:
    """Remove the copies of files that ``cp`` keeps; those only that are older than ``days``, where it is given.

    Plug-ins that were brought, kept returns and grains are no part of that.

    CLI Example::

        saltlite '*' saltutil.clear_cache
        saltlite '*' saltutil.clear_cache days=7
    """
    oldest = time.time() - days * 86400 if days >= 0 else None
    for folder in _COPIES:
        for above, _, names in os.walk(os.path.join(str(_option("cachedir")), folder)):
            for name in names:
                _drop(os.path.join(above, name), oldest)
    return True


def _drop(path: str, oldest: float | None) -> None:
    try:
        if oldest is None or os.lstat(path).st_mtime < oldest:
            os.unlink(path)
    except FileNotFoundError:
        return
    except OSError as error:
        raise CommandExecutionError(f"{path} cannot be removed: {error.strerror}.") from error


def _option(name: str) -> Any:
    if name not in __opts__:
        raise CommandExecutionError(f"This call has no minion behind it, so it has no {name}.")
    return __opts__[name]


@dataclass(frozen=True, slots=True)
class _Wish:
    """What a sync was asked for; `kind` is "" for all types."""

    kind: str
    saltenv: Any
    whitelist: Any
    blacklist: Any
    may_empty: bool | None


def _sync(wish: _Wish, refresh: bool) -> list[str]:
    said = _synced(wish.kind, wish, _filter(wish))
    if said["failed"]:
        raise CommandExecutionError(_why_failed(said["failed"]))
    if refresh and (said["synced"] or said["removed"]):
        _refresh_after([wish.kind])
    names: list[str] = said["synced"]
    return names


def _filter(wish: _Wish) -> ExtmodFilter:
    try:
        return read_filter(__opts__, MINION_TYPES, wish.kind, wish.whitelist, wish.blacklist)
    except UsageError as error:
        raise SaltInvocationError(str(error)) from error


def _synced(kind: str, wish: _Wish, chosen: ExtmodFilter) -> dict[str, Any]:
    """`synced`, `removed` and `failed` of one type."""
    # A program may have given anything: only true is true here.
    may_empty = (__opts__.get("extmod_empty") if wish.may_empty is None else wish.may_empty) is True
    clean = __opts__.get("clean_dynamic_modules", True)
    rules = SyncRules(clean, chosen.chooser(kind), may_empty, _say_removed)
    envs = _names_in_order(wish.saltenv) or [BASE_ENV]
    try:
        report = _client().sync(kind, envs, rules)
    except OSError as error:
        raise CommandExecutionError(f"The plug-ins cannot be written: {error.strerror} ({error.filename})") from error
    except UsageError as error:
        raise SaltInvocationError(str(error)) from error
    return {"synced": report.synced, "removed": report.removed, "failed": report.failed}


def _say_removed(names: Sequence[str]) -> None:
    """Before it is done. The return stays what it is in Salt, the names of those that were brought."""
    text = f"plug-ins that are removed here: {names_text(names)}"
    log.warning("%s", text)
    note(text)


def _refresh_after(kinds: Sequence[str]) -> None:
    if "grains" in kinds:
        _client().refresh("grains")
    if kinds:
        _client().refresh("modules")
    if "resources" in kinds:
        _client().refresh("resources")


def _why_failed(failed: dict[str, str]) -> str:
    """The sentences of types that were left alone; after them, which files could not be fetched."""
    sentences = [why for name, why in failed.items() if name in MINION_TYPES]
    reasons = "; ".join(f"{name}: {why}" for name, why in failed.items() if name not in MINION_TYPES)
    fetched = [f"Nothing was changed, because not all could be fetched. {reasons}"] if reasons else []
    return " ".join([*sentences, *fetched])


def _names_in_order(given: Any) -> list[str]:
    listed = given.split(",") if isinstance(given, str) else given or []
    return [str(name).strip() for name in listed]


def _client() -> Any:
    if not hasattr(__file_client__, "sync"):
        raise CommandExecutionError("This call has no minion behind it, so there is nothing to sync with.")
    return __file_client__
