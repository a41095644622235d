"""Find and signal the jobs on this minion, and sync the master's plug-ins to it.

The minion keeps one JSON file per running job in ``<data_dir>/running``, named by its jid, with the keys ``jid``,
``fun``, ``user``, ``pid`` and ``started``. A job of several functions joins them with commas in ``fun``. Each job leads
a process group. Signals go to the whole group, and to children that started their own session.

Plug-ins are the files in ``salt://_modules``, ``salt://_grains`` and so on. A sync compares digests and replaces each
type as a whole in one step, or changes nothing and reports why. The next job uses the new plug-ins.

:maintainer:    The saltlite authors
:maturity:      new
:platform:      Linux
"""

from __future__ import annotations

import contextlib
import fnmatch
import json
import os
import signal
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from saltlite.decorators import same_parameters
from saltlite.errors import CommandExecutionError, NoMinionError, SaltInvocationError, UsageError
from saltlite.model.files import MINION_TYPES
from saltlite.model.ids import parse_jid
from saltlite.model.job import CLAIMED, FOLDER, HEADER_BYTES, SUFFIX, digest_of
from saltlite.plugins._plugin_sync import SyncRequest, noting, raise_failed, sync

if TYPE_CHECKING:
    from saltlite.loader.hints import __context__, __file_client__, __opts__, __salt__


# --- Jobs ---

RECORD_BYTES_MAX = 64 * 1024
"""Maximum size of a job's file; larger files are not the minion's."""

KEPT_PART_MAX = 4 * 1024 * 1024
"""Maximum bytes of a stored return in one answer."""

_ANSWER_BYTES = 16 * 1024
"""Bytes of an answer besides the stored return."""


__risk__ = {"kill_all_jobs": "kill-jobs", "term_all_jobs": "kill-jobs"}


def running() -> list[dict[str, Any]]:
    """Return the running jobs except this one: ``jid``, ``fun``, ``user``, ``pid`` and ``started``.

    CLI Example: ``saltlite '*' saltutil.running``
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
    """Return the running jobs with this function; globs work.

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
    """Return the running job with this jid, or an empty dict.

    CLI Example: ``saltlite '*' saltutil.find_job 20260131235959123456``
    """
    wanted = _jid(jid)
    return next((record for record in running() if record["jid"] == wanted), {})


def signal_job(jid: str, sig: int | str) -> str:
    """Send a signal to the processes of a running job; an empty answer means that it does not run.

    CLI Example: ``saltlite '*' saltutil.signal_job 20260131235959123456 15``
    """
    number = _signal_number(sig)
    record = find_job(jid)
    if not record:
        return ""
    strays = _outside_the_group(record["pid"])
    try:
        with _claimed(record["jid"]):
            os.killpg(record["pid"], number)
            for pid in strays:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
    except (FileNotFoundError, ProcessLookupError):
        return ""
    except PermissionError as error:
        text = f"This minion may not signal job {jid} at pid {record['pid']}: it runs as another user."
        raise CommandExecutionError(text) from error
    return f"Signal {number} sent to job {record['jid']} at pid {record['pid']}"


@contextlib.contextmanager
def _claimed(jid: str) -> Iterator[None]:
    """Keep the process of a job from running another one until the end of the block.

    The minion reuses the process only if it can delete the job's note under its own name. Raises FileNotFoundError
    when the job has ended.
    """
    note = os.path.join(_folder(), jid)
    os.rename(note, note + CLAIMED)
    try:
        yield
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.rename(note + CLAIMED, note)


def term_job(jid: str) -> str:
    """End a running job with SIGTERM.

    CLI Example: ``saltlite '*' saltutil.term_job 20260131235959123456``
    """
    return signal_job(jid, signal.SIGTERM)


def kill_job(jid: str) -> str:
    """End a running job with SIGKILL.

    CLI Example: ``saltlite '*' saltutil.kill_job 20260131235959123456``
    """
    return signal_job(jid, signal.SIGKILL)


def term_all_jobs() -> list[str]:
    """End all running jobs except this one with SIGTERM; return the answers of ``term_job``.

    CLI Example: ``saltlite '*' saltutil.term_all_jobs``
    """
    return [signal_job(record["jid"], signal.SIGTERM) for record in running()]


def kill_all_jobs() -> list[str]:
    """End all running jobs except this one with SIGKILL; return the answers of ``kill_job``.

    CLI Example: ``saltlite '*' saltutil.kill_all_jobs``
    """
    return [signal_job(record["jid"], signal.SIGKILL) for record in running()]


def kept_return(jid: str, offset: int = 0, size: int = KEPT_PART_MAX) -> dict[str, Any]:
    """Return a part of a return that was too large to send, for ``saltlite job fetch``: ``data`` from ``offset``, at
    most ``size`` bytes, with the total ``size`` and the ``sha256`` of the whole. All parts together are the return in
    msgpack. This function gives access to the returns of other users' jobs.

    CLI Example: ``saltlite '*' saltutil.kept_return 20260131235959123456 0 1024``
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
        raise CommandExecutionError("This call runs without a minion, so there are no running jobs to look at.")
    return str(__opts__["data_dir"])


def _outside_the_group(leader: int) -> list[int]:
    """Return the descendants of that process which have left its group."""
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
    """Return the record of one job, or None if it has ended or the file is not the minion's."""
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
    """Whether that process lives and leads its group, as a job does; a reused pid almost never does."""
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

_PUBLISH_WAIT_S = 5.0
"""Seconds that `cmd` waits for returns of other minions."""

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
    """Sync the execution modules in ``salt://_modules``; return the names of those that changed, as
    ``modules.lumberjack``.

    ``saltenv`` is one or several environments (default ``base``). ``extmod_whitelist`` and ``extmod_blacklist``
    override the options of these names: globs, as a list, a text with commas, or a map from types to lists. ``refresh``
    reloads the modules at once.

    Other plug-ins are removed; a note and the log name them. If the lists exclude everything that the master has, the
    call fails without changes, unless ``extmod_empty`` or the option of that name is True.

    CLI Example::

        saltlite '*' saltutil.sync_modules
        saltlite '*' saltutil.sync_modules saltenv=dev extmod_blacklist=lumberjack
        saltlite '*' saltutil.sync_modules extmod_whitelist='{modules: [plain, "web*"]}'
    """
    return _sync("modules", saltenv, refresh, extmod_whitelist, extmod_blacklist, extmod_empty=extmod_empty)


@same_parameters(sync_modules)
def sync_grains(*args: Any, **kwargs: Any) -> list[str]:
    """Sync the grains in ``salt://_grains``, like ``sync_modules``; ``refresh`` collects all grains anew.

    CLI Example: ``saltlite '*' saltutil.sync_grains``
    """
    return _sync("grains", *args, **kwargs)


@same_parameters(sync_modules)
def sync_executors(*args: Any, **kwargs: Any) -> list[str]:
    """Sync the executors in ``salt://_executors``, like ``sync_modules``.

    CLI Example: ``saltlite '*' saltutil.sync_executors``
    """
    return _sync("executors", *args, **kwargs)


@same_parameters(sync_modules)
def sync_beacons(*args: Any, **kwargs: Any) -> list[str]:
    """Sync the beacons in ``salt://_beacons``, like ``sync_modules``.

    CLI Example: ``saltlite '*' saltutil.sync_beacons``
    """
    return _sync("beacons", *args, **kwargs)


@same_parameters(sync_modules)
def sync_interfaces(*args: Any, **kwargs: Any) -> list[str]:
    """Sync the module interfaces in ``salt://_interfaces``, like ``sync_modules``.

    CLI Example: ``saltlite '*' saltutil.sync_interfaces``
    """
    return _sync("interfaces", *args, **kwargs)


@same_parameters(sync_modules)
def sync_resources(*args: Any, **kwargs: Any) -> list[str]:
    """Sync the resource types in ``salt://_resources``, like ``sync_modules``.

    ``refresh`` discovers the resources anew.

    CLI Example: ``saltlite '*' saltutil.sync_resources``
    """
    return _sync("resources", *args, **kwargs)


@same_parameters(sync_modules)
def sync_output(*args: Any, **kwargs: Any) -> list[str]:
    """Sync the outputters in ``salt://_output`` for ``saltlite-call``, like ``sync_modules``.

    CLI Example::

        saltlite '*' saltutil.sync_output
        saltlite '*' saltutil.sync_outputters
    """
    return _sync("output", *args, **kwargs)


sync_outputters = sync_output


@same_parameters(sync_modules)
def sync_utils(*args: Any, **kwargs: Any) -> list[str]:
    """Sync the files in ``salt://_utils``, which modules reach as ``__utils__``, like ``sync_modules``.

    CLI Example: ``saltlite '*' saltutil.sync_utils``
    """
    return _sync("utils", *args, **kwargs)


# Plug-in types of Salt's minions that minions of saltlite do not have. Scripts that sync each type keep working.

_NOT_SYNCED = {
    "sync_engines": "Engines do not exist here",
    "sync_log_handlers": "Custom log handlers do not exist here",
    "sync_matchers": "Custom matchers do not exist here",
    "sync_proxymodules": "Proxy minions do not exist here",
    "sync_renderers": "Each run of states takes salt://_renderers itself, where Salt is installed beside",
    "sync_sdb": "SDB drivers do not exist here",
    "sync_serializers": "Custom serializers do not exist here",
    "sync_states": "Each run of states takes salt://_states itself, where Salt is installed beside",
    "sync_thorium": "Thorium does not exist here",
    "sync_tops": "Master tops do not exist here",
    "sync_wrapper": "Wrappers of salt-ssh do not exist here",
    "sync_clouds": "Cloud drivers run on the master: use `saltlite-run saltutil.sync_clouds`",
    "sync_pillar": "External pillars run on the master: use `saltlite-run saltutil.sync_pillar`",
    "sync_returners": "Returners run on the master: use `saltlite-run saltutil.sync_returners`",
}
"""Function -> the sentence of its note."""


@same_parameters(sync_modules)
def _sync_nothing(*_args: Any, **_kwargs: Any) -> list[str]:
    """Sync nothing: minions have no plug-ins of this type. A note says so.

    CLI Example::

        saltlite '*' saltutil.sync_engines
        saltlite '*' saltutil.sync_log_handlers
        saltlite '*' saltutil.sync_matchers
        saltlite '*' saltutil.sync_pillar
        saltlite '*' saltutil.sync_proxymodules
        saltlite '*' saltutil.sync_renderers
        saltlite '*' saltutil.sync_sdb
        saltlite '*' saltutil.sync_serializers
        saltlite '*' saltutil.sync_states
        saltlite '*' saltutil.sync_thorium
        saltlite '*' saltutil.sync_tops
        saltlite '*' saltutil.sync_wrapper
        saltlite '*' saltutil.sync_clouds
        saltlite '*' saltutil.sync_returners
    """
    return []


# The assignment declares the names for readers of the source, the update adds the notes.
sync_engines = sync_log_handlers = sync_matchers = sync_pillar = sync_proxymodules = _sync_nothing
sync_renderers = sync_sdb = sync_serializers = sync_states = sync_thorium = sync_tops = sync_wrapper = _sync_nothing
sync_clouds = sync_returners = _sync_nothing
globals().update(noting(_sync_nothing, _NOT_SYNCED))


def sync_all(
    saltenv: str | list[str] | None = None, refresh: bool = True, extmod_whitelist: dict[str, Any] | None = None,
    extmod_blacklist: dict[str, Any] | None = None, *, extmod_empty: bool | None = None, report: bool = False,
) -> dict[str, Any]:  # fmt: skip
    """Sync the plug-ins of every type; type -> the names of those that changed.

    The lists map types to globs. With ``report`` each type has ``synced``, ``removed`` and ``failed`` (name -> reason;
    then nothing of that type was changed).

    CLI Example::

        saltlite '*' saltutil.sync_all
        saltlite '*' saltutil.sync_all report=True
    """
    reports = _synced(SyncRequest("", saltenv, extmod_whitelist, extmod_blacklist, extmod_empty))
    if refresh:
        _refresh_after([kind for kind, one in reports.items() if one.synced or one.removed])
    if report:
        return {
            kind: {"synced": one.synced, "removed": one.removed, "failed": one.failed} for kind, one in reports.items()
        }
    raise_failed(reports, MINION_TYPES, "fetched")
    return {kind: one.synced for kind, one in reports.items()}


def refresh_modules() -> bool:
    """Reload the minion's modules and report their functions to the master; True when done.

    CLI Example: ``saltlite '*' saltutil.refresh_modules``
    """
    _refresh("modules")
    return True


def refresh_grains(refresh_pillar: bool = True) -> bool:
    """Collect the minion's grains anew and send them to the master; True when the next job uses them.

    ``refresh_pillar`` then also fetches the pillar, which may depend on them.

    CLI Example: ``saltlite '*' saltutil.refresh_grains``
    """
    _refresh("grains")
    if refresh_pillar:
        _refresh("pillar")
    return True


def refresh_pillar(wait: bool = True, timeout: float = 30) -> bool:  # noqa: ARG001 - Salt's signature
    """Fetch the minion's pillar anew, and register its resources again if they depend on it.

    True when the next job uses it. ``wait`` and ``timeout`` exist for Salt and have no effect.

    CLI Example::

        saltlite '*' saltutil.refresh_pillar
        saltlite '*' saltutil.pillar_refresh
    """
    _refresh("pillar")
    return True


pillar_refresh = refresh_pillar


def refresh_resources() -> dict[str, Any]:
    """Discover the minion's resources and their grains, register them, and report the outcome.

    ``types`` has for each resource type whether it was ``loaded`` and ``initialised``, how many resources were
    ``found`` now and ``was`` before, and its ``error``, if any. If nothing was found, ``looked_at`` names the pillar
    keys that declare resources. ``withheld`` lists what the master withheld, or keeps although it was not found. After
    an error, or with anything withheld, the return code is 1.

    Grains that take longer than a second are registered later.

    CLI Example: ``saltlite '*' saltutil.refresh_resources``
    """
    outcome = _refresh("resources")
    if outcome["withheld"] or any("error" in one for one in outcome["types"].values()):
        __context__["retcode"] = 1
    return outcome if outcome["looked_at"] else {name: value for name, value in outcome.items() if name != "looked_at"}


def list_extmods() -> dict[str, list[str]]:
    """Return the synced plug-ins by type.

    CLI Example: ``saltlite '*' saltutil.list_extmods``
    """
    folder = str(_option("extension_modules"))
    found = {}
    for kind in MINION_TYPES:
        with contextlib.suppress(FileNotFoundError):
            names = {name.partition(".")[0] for name in os.listdir(os.path.join(folder, kind))}
            found[kind] = sorted(name for name in names if name and not name.startswith("__"))
    return {kind: names for kind, names in found.items() if names}


def cmd(  # noqa: PLR0913, PLR0917, RUF100 - Salt's signature
    tgt: str | list[str],
    fun: str,
    arg: Sequence[Any] = (),
    timeout: float | None = None,
    tgt_type: str = "glob",
    ret: str = "",
    kwarg: dict[str, Any] | None = None,
    ssh: bool = False,
) -> dict[str, dict[str, Any]]:
    """Run a function on other minions, as far as ``peer`` of the master allows this one, like ``publish.full_data``.

    Salt has this on the master's machine only, where it needs no rule. ``ssh=True`` is refused: there is no salt-ssh.

    CLI Example: ``saltlite web1 saltutil.cmd 'db*' test.kwarg kwarg='{n: 1}'``
    """
    if ssh:
        raise SaltInvocationError("There is no salt-ssh: hosts without a minion are resources of the type ssh.")
    words = [*arg, {"__kwarg__": True, **kwarg}] if kwarg else list(arg)
    targets = tgt if isinstance(tgt, str) else ",".join(tgt)
    wait_s = _PUBLISH_WAIT_S if timeout is None else timeout
    rows: dict[str, dict[str, Any]] = __salt__["publish.full_data"](targets, fun, words, tgt_type, ret, wait_s)
    return rows


@same_parameters(cmd)
def cmd_iter(*args: Any, **kwargs: Any) -> list[dict[str, dict[str, Any]]]:
    """Run a function on other minions, like ``cmd``; a list with a map for each target.

    CLI Example: ``saltlite web1 saltutil.cmd_iter 'db*' test.ping``
    """
    return [{target: row} for target, row in cmd(*args, **kwargs).items()]


def clear_cache(days: int = -1) -> bool:
    """Remove the copies of files that ``cp`` keeps, or only those older than ``days``.

    Synced plug-ins, stored returns and grains stay.

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
        raise CommandExecutionError(f"This call runs without a minion, so it has no {name}.")
    return __opts__[name]


def _sync(
    kind: str, saltenv: Any = None, refresh: bool = True, extmod_whitelist: Any = None, extmod_blacklist: Any = None, *,
    extmod_empty: bool | None = None,
) -> list[str]:  # fmt: skip
    reports = _synced(SyncRequest(kind, saltenv, extmod_whitelist, extmod_blacklist, extmod_empty))
    raise_failed(reports, MINION_TYPES, "fetched")
    report = reports[kind]
    if refresh:  # also without a changed file: another process, as `saltlite call`, may have synced them
        _refresh_after([kind])
    names: list[str] = report.synced
    return names


def _synced(request: SyncRequest) -> dict[str, Any]:
    return sync(_client, __opts__, MINION_TYPES, request, clean=__opts__.get("clean_dynamic_modules", True))


def _refresh_after(kinds: Sequence[str]) -> None:
    """Refresh what the synced types concern. Without a running minion there is nothing to do: it looks at its start."""
    try:
        if "grains" in kinds:
            _refresh("grains")
        if kinds:
            _refresh("modules")
        if "resources" in kinds:
            _refresh("resources")
    except NoMinionError:
        return


def _refresh(what: str) -> dict[str, Any]:
    report: dict[str, Any] = _client().refresh(what)
    return report


def _client() -> Any:
    if not hasattr(__file_client__, "sync"):
        raise CommandExecutionError("This call runs without a minion, so there is nothing to sync with.")
    return __file_client__
