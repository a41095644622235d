"""`saltlite call`, also `saltlite-call`: run a function on this machine with the configuration of its minion."""

from __future__ import annotations

import gc
import os
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import saltlite
from saltlite.cli import exitcodes
from saltlite.cli.commands import COMMANDS, LOG_LEVEL, NO_PARSE, QUIET, VERSIONS, begin, config_dir_of
from saltlite.cli.in_process import Ran, chain_of, exit_code, find_grains, new_jid, read_calls, run_calls, shown_value
from saltlite.cli.job_options import EXECUTION_OPTIONS
from saltlite.cli.options import ARGS_STDIN, ARGUMENTS_TEXT, Option, Table, choice
from saltlite.cli.output import FORMATS_TEXT, OUTPUT_OPTIONS, Printing, opened_output
from saltlite.config.load import load_minion
from saltlite.config.opts import opts_of
from saltlite.config.paths import require_path
from saltlite.errors import (
    CommandExecutionError,
    NoMinionError,
    RefusedError,
    StartupError,
    UnreachableError,
    UsageError,
)
from saltlite.loader.index import build_index, cached_index, is_own_folder
from saltlite.loader.loader import Loader
from saltlite.loader.search_path import search_layers
from saltlite.model.execution import Execution
from saltlite.model.ids import parse_minion_id
from saltlite.model.job import Target, TargetKind
from saltlite.platform import logs
from saltlite.plugins.grains.network import names

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from saltlite.cli.console import Console
    from saltlite.cli.options import Parsed
    from saltlite.config.minion import MinionConfig
    from saltlite.loader.call import Call
    from saltlite.loader.index import Index


class RunningMinion:
    """The minion that runs here with the configuration of this command: `__events__`, its master, refreshes.

    What it needs is imported at the first use, because most functions need none of it.
    """

    def __init__(self, data_dir: str) -> None:
        self._data_dir = data_dir

    def send(self, tag: str, data: Mapping[str, Any] | str, timeout_s: float) -> None:
        """Send an event, and raise, as `saltlite.minion.jobs.rpc_client.RpcEventSender` does."""
        from saltlite.minion.jobs.rpc_client import RpcEventSender

        RpcEventSender(self).send(tag, data, timeout_s)

    def event(self, message: Mapping[str, Any], patience_s: float) -> dict[str, Any] | None:
        """The master's answer to an `event`, None when there is none in that time. Raises NoMinionError."""
        return self._ask(message, patience_s, "The event was not sent")

    def timers(self, about: str, operation: str, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Ask about the schedule or the beacons, as `saltlite.minion.jobs.rpc_client.RpcClient.timers`."""
        from saltlite.minion.jobs.rpc_client import PATIENCE_S, timers_answer

        message = {"t": "timers", "n": 0, "about": about, "operation": operation, "fields": dict(fields)}
        answer = self._ask(message, PATIENCE_S, f"The minion was not asked about its {about}")
        if answer is None:
            raise CommandExecutionError(f"The minion has not answered for {PATIENCE_S:g} s: look at its log.")
        return timers_answer(answer)

    def request(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """The master's answer to an `ask`. Raises NoMinionError, and CommandExecutionError without an answer."""
        from saltlite.minion.jobs.rpc_client import BUSY_S, PATIENCE_S, still_busy

        give_up_at = time.monotonic() + PATIENCE_S
        while True:
            answer = self._ask(message, PATIENCE_S, "The master was not asked")
            if answer is None:
                raise CommandExecutionError(
                    f"The master has not answered for {PATIENCE_S:g} s: look at the minion's log."
                )
            if answer["state"] != "busy":
                return answer
            if time.monotonic() + BUSY_S > give_up_at:
                raise still_busy(answer, PATIENCE_S)
            time.sleep(BUSY_S)

    def refresh(self, what: str) -> dict[str, Any]:
        """Refresh, and raise, as `saltlite.minion.jobs.rpc_client.RpcClient.refresh`; also raises NoMinionError."""
        from saltlite.minion.jobs.rpc_client import REFRESH_S, refreshed

        answer = self._ask({"t": "refresh", "n": 0, "what": what}, REFRESH_S, f"The {what} could not be refreshed")
        return refreshed(answer, what, REFRESH_S)

    def _ask(self, message: Mapping[str, Any], patience_s: float, problem: str) -> dict[str, Any] | None:
        from saltlite.client.connection import Connection
        from saltlite.minion.jobs.rpc_server import SOCKET_NAME

        path = os.path.join(self._data_dir, SOCKET_NAME)
        try:
            connection = Connection(path)
            try:
                connection.send(dict(message))
                return connection.receive(patience_s)
            finally:
                connection.close()
        except (UnreachableError, RefusedError) as error:
            needs = f"that requires a running saltlite-minion here, and the rights of its user ({path})"
            raise NoMinionError(f"{problem}: {needs}.") from error


class MasterOfMinion:
    """`__master__`: what `saltlite.minion.jobs.rpc_client.MasterRequests` has, through the running minion."""

    def __init__(self, minion: RunningMinion) -> None:
        self._minion = minion

    def __getattr__(self, name: str) -> Any:
        from saltlite.minion.jobs.rpc_client import MasterRequests

        return getattr(MasterRequests(self._minion), name)


class WithoutFiles:
    """`__file_client__` of a configuration without file_roots: only refreshes."""

    def __init__(self, minion: RunningMinion) -> None:
        self.refresh = minion.refresh

    def sync(self, *_what: object) -> None:
        """Raises CommandExecutionError."""
        raise CommandExecutionError("There is nothing to sync with: set file_roots in the minion's configuration.")


LOCAL = "local"
"""The key in the place of a minion's id, as in Salt."""

_EPILOG = f"""\
{ARGUMENTS_TEXT}

Several functions are called as in a job: test.ping,test.echo , hello

Everything happens on this machine. Modules, grains and module configuration are
those of the minion's configuration, salt:// is its file_roots, and the pillar
is compiled from its pillar_roots, or the last one of its master where
minion_pillar_cache keeps it. There is no run timeout and no journal, and the
running minion learns only events (event.send), requests to its master
(publish.*, mine.*) and what to refresh (event.fire, saltutil.refresh_*,
saltutil.sync_*, grains.set). So --local changes nothing.
The function has the rights of its caller. With --resources the return is a map
by id, or that of the one target; TYPE is glob, list, pcre, grain, pillar,
ipcidr, compound ...

{FORMATS_TEXT}

exit codes: 0 all is well, 2 usage or configuration, 4 the function failed or is
  not there, 130 interrupted; with --retcode-passthrough that of the function"""


def _table() -> Table:
    usage, summary = COMMANDS["call"]
    return Table(
        usage,
        summary,
        (
            Option("--local", help="no effect: it always runs without a master"),
            Option("-g", "--grains", help="print the grains, and run nothing"),
            Option("--skip-grains", help="collect no grains, which takes a moment"),
            Option("-d", "--documentation", "--doc", help="print the documentation of functions, and run none"),
            Option("-r", "--resources", help="run it on the resources of this machine too"),
            Option("--tgt", metavar="TARGET", help="with -r: run it on what matches: '*'"),
            Option("--tgt-type", metavar="TYPE", convert=choice(*TargetKind), help="with -r: how TARGET is read: glob"),
            Option(
                "-m",
                "--module-dirs",
                metavar="DIR",
                convert=require_path,
                many=True,
                help="look for modules there first",
            ),
            Option("--priv", metavar="USER", help="run as this user, whom only root can become"),
            Option("--id", metavar="ID", convert=parse_minion_id, help="run as if the minion had this id"),
            _folders("--file-root", help="salt:// is this folder, and no other"),
            _folders("--pillar-root", help="compile the pillar from this folder, and no other"),
            Option("--cachedir", metavar="DIR", convert=require_path, help="instead of the minion's folder of caches"),
            *EXECUTION_OPTIONS,
            NO_PARSE,
            ARGS_STDIN,
            Option("--metadata", help="print the job id, retcode and time with the return"),
            Option("--retcode-passthrough", help="end with the return code of the function"),
            LOG_LEVEL,
            *OUTPUT_OPTIONS,
            QUIET,
            Option(
                "-c",
                "--config-dir",
                metavar="DIR",
                convert=require_path,
                help="the minion's configuration folder (/etc/saltlite)",
            ),
            *VERSIONS,
        ),
        _EPILOG,
        salt="salt-call",
    )


def _folders(name: str, help: str) -> Option:  # noqa: A002 - as in Option
    return Option(name, metavar="DIR", convert=require_path, many=True, help=help)


def run(argv: Sequence[str], console: Console) -> int:
    """Run functions here. Raises UsageError, ConfigError, KeyboardInterrupt."""
    parsed = _table().parse(argv, words_before_arguments=1)
    begin(parsed, "saltlite-call", console)
    _check(parsed)
    logs.configure(parsed.options.get("log_level", "warning"))
    if "priv" in parsed.options:
        _become(parsed.options["priv"])
    config = _config(parsed)
    opts = _opts(config, parsed)
    # What is imported so far lives as long as the process. Without this, Python searches all of it for cycles while the
    # process ends, which takes a sixth of a short call. What modules make is collected as ever.
    gc.freeze()
    with opened_output(parsed, console) as output:
        printing = Printing(parsed, output, lambda: opts)
        grains = {"id": opts["id"]} if parsed.on("skip_grains") else find_grains(opts)
        if parsed.on("grains"):
            printing.show({LOCAL: grains})
            return exitcodes.OK
        ran = _ran(parsed, config, opts, grains, console)
        for warning in ran.outcome.warnings:
            console.note(f"saltlite: {warning}")
        value = shown_value(ran)
        if parsed.on("metadata"):
            printing.show({LOCAL: _metadata(ran, value)}, retcode=ran.outcome.retcode)
        else:
            printing.show({LOCAL: value}, ran.outcome.out, ran.outcome.retcode)
    return exit_code(ran, passthrough=parsed.on("retcode_passthrough"))


def _become(user: str) -> None:
    """Give up the rights of root for those of the user. Raises UsageError."""
    from saltlite.platform.privileges import drop_to, uid_of  # most calls keep the user

    uid = uid_of(user)
    if uid == -1:
        raise UsageError(f"--priv: there is no user {user!r}")
    if uid == os.geteuid():
        return
    if os.geteuid() != 0:
        raise UsageError(f"--priv: only root can become another user, such as {user}")
    drop_to(user)
    for folder in (os.path.dirname(os.__file__), os.path.dirname(saltlite.__file__)):
        if not os.access(folder, os.R_OK | os.X_OK):
            raise UsageError(
                f"--priv: {user} cannot read {folder}, which has the program: install Python and saltlite where every "
                f"user may read, such as below /opt"
            )


def _config(parsed: Parsed) -> MinionConfig:
    """The minion's configuration with the folders of the command line."""
    config = load_minion(config_dir_of(parsed)).config
    given: dict[str, Any] = {}
    for option, name in (("file_root", "file_roots"), ("pillar_root", "pillar_roots")):
        if option in parsed.options:
            given[name] = {"base": [os.path.abspath(folder) for folder in parsed.options[option]]}
    if "cachedir" in parsed.options:
        given["cachedir"] = os.path.abspath(parsed.options["cachedir"])
    return replace(config, **given) if given else config


def _ran(parsed: Parsed, config: MinionConfig, opts: dict[str, Any], grains: dict[str, Any], console: Console) -> Ran:
    """Make the calls."""
    index = _index(opts, with_more="module_dirs" in parsed.options)
    pillar = _pillar(config, opts["id"], grains)
    if pillar:
        from saltlite.pillar.compiler import ERRORS  # most calls need no pillar

        for mistake in pillar.get(ERRORS, ()):
            console.note(f"saltlite: the pillar is incomplete: {mistake}")
    loader = Loader(index, opts, grains, pillar, more=_given(config))
    if parsed.on("resources"):
        from saltlite.cli.verbs.call_resources import Machine, run_on_targets  # most calls are for this machine only
        from saltlite.minion.resources.discovery import declared_by

        machine = Machine(opts, grains, pillar, loader, index.function_texts(config.providers))
        kind = TargetKind(parsed.options.get("tgt_type", TargetKind.GLOB))
        target = Target(parsed.options.get("tgt", "*"), kind)
        return run_on_targets(machine, declared_by(config), target, parsed.words, _execution(parsed))
    return run_calls(loader, _calls(parsed, index, config), new_jid(), chain_of(loader, _execution(parsed)))


def _calls(parsed: Parsed, index: Index, config: MinionConfig) -> list[Call]:
    if parsed.on("doc"):
        return [("sys.doc", parsed.words, {})]
    as_text = parsed.options.get("no_parse", ())
    return read_calls(parsed.words[0], parsed.words[1:], index, config.providers, as_text=as_text)


def _execution(parsed: Parsed) -> Execution:
    return Execution(parsed.options.get("module_executors", ()), parsed.options.get("executor_opts"))


def _check(parsed: Parsed) -> None:
    if parsed.on("resources") and (parsed.on("doc") or parsed.on("grains")):
        raise UsageError("--resources runs functions: it excludes --doc and --grains")
    if not parsed.on("resources") and ("tgt" in parsed.options or "tgt_type" in parsed.options):
        raise UsageError("--tgt and --tgt-type select resources: they need --resources")
    if parsed.on("grains") and parsed.on("skip_grains"):
        raise UsageError("--grains and --skip-grains exclude each other")
    if parsed.on("grains") and (parsed.words or parsed.on("doc")):
        raise UsageError("--grains stands alone: it runs no function")
    if not (parsed.words or parsed.on("grains") or parsed.on("doc")):
        raise UsageError("say what to run: saltlite call MODULE.FUNCTION, as in saltlite call test.ping")


def _opts(config: MinionConfig, parsed: Parsed) -> dict[str, Any]:
    opts = opts_of(config, parsed.options.get("id") or _own_id(config))
    folders = [os.path.abspath(folder) for folder in parsed.options.get("module_dirs", ())]
    # The list of modules that jobs may call applies to remote callers.
    more = {"module_dirs": [*config.module_dirs, *folders], "whitelist_modules": [], "file_client": "local"}
    return {**opts, **more}


def _index(opts: dict[str, Any], *, with_more: bool) -> Index:
    """The index of modules; one `with_more` folders than the minion's is not cached.

    Only the minion's own user reads and writes its cached index, because another user's folder is not safe to write to.
    """
    layers, cachedir = search_layers(opts), opts["cachedir"]
    stored = not with_more and is_own_folder(cachedir)
    return cached_index(layers, cachedir) if stored else build_index(layers)


def _given(config: MinionConfig) -> dict[str, Any]:
    """The additional dunder names of modules."""
    minion = RunningMinion(config.data_dir)
    return {
        "__file_client__": _files(config, minion),
        "__events__": minion,
        "__master__": MasterOfMinion(minion),
        "__timers__": minion.timers,
        "__minion_key__": lambda: _minion_key(config),
    }


def _minion_key(config: MinionConfig) -> bytes:
    """The minion's key, made as by its first start if there is none. Raises CommandExecutionError."""
    import secrets  # few calls need it

    from saltlite.minion.processes import identity
    from saltlite.platform.privileges import private_dir

    try:
        private_dir(config.pki_dir, os.geteuid(), os.getegid())
        return identity.minion_key(config.pki_dir, secrets.token_bytes)
    except StartupError as error:
        raise CommandExecutionError(f"The key of this minion cannot be read or made: {error}.") from error


def _files(config: MinionConfig, minion: RunningMinion) -> Any:
    """`__file_client__` over the folders of file_roots, if there are any."""
    if not config.file_roots:
        return WithoutFiles(minion)
    from saltlite.files.client import FileClient  # most calls need no files
    from saltlite.files.roots import FileRoots
    from saltlite.files.server import FileService

    desk = FileService(FileRoots(config.file_roots))
    return FileClient(desk, config.cachedir, extmods=config.extension_modules, refresh=minion.refresh)


def _pillar(config: MinionConfig, minion: str, grains: Mapping[str, Any]) -> dict[str, Any]:
    """The pillar that a master with the folders of pillar_roots would compile; without such folders the minion's cached
    one.
    """
    if not config.pillar_roots:
        if not config.minion_pillar_cache:
            return {}
        from saltlite.minion.sync import kept_pillar  # as below

        return kept_pillar(config.cachedir)
    from saltlite.pillar.files import pillar_here  # most calls need no pillar

    return pillar_here(config.pillar_roots, minion, grains)


def _own_id(config: MinionConfig) -> str:
    """The id of the minion here, as far as this user can tell; nothing is written."""
    if config.id:
        return config.id
    from saltlite.platform.privileges import read_secret  # the configuration of most minions has their id

    try:
        stored = read_secret(os.path.join(config.pki_dir, "minion_id"))
    except StartupError:
        stored = None  # it belongs to another user; this one uses the host name
    return stored.decode(errors="replace").strip() if stored else str(names()["fqdn"]).lower()


def _metadata(ran: Ran, value: Any) -> dict[str, Any]:
    funs = [fun for fun, _args, _kwargs in ran.calls]
    every = [[*args, *([{"__kwarg__": True, **kwargs}] if kwargs else [])] for _fun, args, kwargs in ran.calls]
    alone = len(funs) == 1
    return {
        "jid": ran.jid,
        "fun": funs[0] if alone else funs,
        "fun_args": every[0] if alone else every,
        "return": value,
        "retcode": ran.outcome.retcode,
        "success": ran.outcome.retcode == 0,
        "out": ran.outcome.out,
        "warnings": list(ran.outcome.warnings),
        **({"smi": dict(ran.outcome.interface)} if ran.outcome.interface else {}),
        "duration_s": round(ran.duration_s, 3),
    }
