"""`saltlite runner`, also `saltlite-run`: run a function about the fleet in this process.

Runners are plug-ins and run with the rights of the caller: the master's processes never load one, and a runner can ask
the master only for what its operator may ask. The events salt/run/<jid>/new and salt/run/<jid>/ret report a run.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from saltlite.cli import exitcodes
from saltlite.cli.commands import (
    COMMANDS,
    CONFIG_DIR,
    LOG_LEVEL,
    LOGIN_OPTIONS,
    NO_PARSE,
    QUIET,
    VERSIONS,
    begin,
    config_dir_of,
)
from saltlite.cli.connect import open_client
from saltlite.cli.in_process import Ran, exit_code, find_grains, new_jid, read_calls, run_calls, shown_value
from saltlite.cli.options import ARGS_STDIN, ARGUMENTS_TEXT, Option, Table, parse_duration
from saltlite.cli.output import DEFAULT, FORMATS_TEXT, OUTPUT_OPTIONS, Printing, opened_output
from saltlite.client.local import LocalClient
from saltlite.client.runners import RunnerClient, without_outputter
from saltlite.cloud import LazyCloud
from saltlite.config.load import load_master
from saltlite.config.opts import opts_of, shown_opts
from saltlite.errors import SaltliteError, UnreachableError, UsageError
from saltlite.files.client import FileClient
from saltlite.files.roots import FileRoots
from saltlite.files.server import FileService
from saltlite.loader.dunders import LazyFunctions
from saltlite.loader.index import build_index
from saltlite.loader.loader import Loader
from saltlite.loader.search_path import search_layers
from saltlite.platform import logs
from saltlite.platform.privileges import require_trusted
from saltlite.wire.limits import MIB

if TYPE_CHECKING:
    from collections.abc import Sequence

    from saltlite.cli.console import Console
    from saltlite.cli.options import Parsed
    from saltlite.config.master import MasterConfig
    from saltlite.loader.call import Call
    from saltlite.loader.index import Index
    from saltlite.model.ids import Jid

RUNNERS = "runners"
"""The type of these plug-ins."""
_ELSEWHERE = {
    "state.event": "`saltlite events` shows events as they come (saltlite events 'salt/job/*/ret/*'), and "
    "`saltlite-run event.listen` returns some of them"
}
"""Runners of Salt that another command replaces here."""

_EPILOG = f"""\
{ARGUMENTS_TEXT}

runners that come with saltlite (saltlite runner -d shows what they do):
  salt.cmd         an execution module function on this machine
  salt.execute     a job on minions
  survey.hash, .diff     minions by what they answer, and how that differs
  manage.up, .down, .status, .versions, .present ...     the minions
  key.list_all, .accept, .reject, .delete, .finger ...   their keys
  cache.grains, .pillar, .clear_all ...     what is known of them
  cache.store, .fetch, .list, .flush        values of one's own
  network.wol, .wollist, .wolmatch          wake machines up
  pillar.show_pillar, .show_top             the pillar of one minion
  jobs.list_jobs, .list_job, .lookup_jid, .last_run, .active ...   the jobs
  batch.list_active, .status, .stop         the batches
  match.compound_matches                    whether a target selects a minion
  event.listen, .send                       the events of the master
  fileserver.envs, .file_list, .dir_list ...     what minions may fetch
  resource.list, .owner, .match, .stats ... the resources of minions
  cloud.query, .profile, .destroy ...       machines of clouds
  config.get                                the options of the master
  saltutil.sync_all, .sync_runners ...      plug-ins from file_roots to here
  doc.runner, doc.execution                 what there is
  smi.report                                who keeps to which interface
  test.arg, .sleep, .stream, .get_opts ...  for trying out

{FORMATS_TEXT}

exit codes: 0 all is well, 2 usage or configuration, 4 the runner failed or is
  not there, 6 refused, 7 the runner failed because the master is unreachable,
  130 interrupted"""


def _table() -> Table:
    usage, summary = COMMANDS["runner"]
    return Table(
        usage,
        summary,
        (
            Option("-d", "--documentation", "--doc", help="print the documentation of runners, and run none"),
            Option("--async", help="print the job id; the return goes to --out-file"),
            Option(
                "-t", "--timeout", metavar="TIME", convert=parse_duration, help="how long its jobs wait for minions"
            ),
            Option("--skip-grains", help="collect no grains of this machine"),
            NO_PARSE,
            ARGS_STDIN,
            LOG_LEVEL,
            *OUTPUT_OPTIONS,
            *LOGIN_OPTIONS,
            QUIET,
            CONFIG_DIR,
            *VERSIONS,
        ),
        _EPILOG,
        salt="salt-run",
    )


def run(argv: Sequence[str], console: Console) -> int:
    """Run a runner. Raises UsageError, ConfigError, RefusedError, KeyboardInterrupt."""
    parsed = _table().parse(argv, words_before_arguments=1)
    begin(parsed, "saltlite-run", console)
    if not parsed.words and not parsed.on("doc"):
        raise UsageError("say what to run: saltlite runner RUNNER.FUNCTION, as in saltlite runner manage.up")
    logs.configure(parsed.options.get("log_level", "warning"))
    config = load_master(config_dir_of(parsed)).config
    if "timeout" in parsed.options:
        config = replace(config, timeout=parsed.options["timeout"])
    opts = _opts(config)
    require_trusted([*opts["module_dirs"], *opts["runner_dirs"], opts["extension_modules"]])
    index = build_index(search_layers(opts, RUNNERS))
    with opened_output(parsed, console) as output, open_client(parsed, console) as client:
        printing = Printing(parsed, output, lambda: opts)
        there = RunnerClient(client, parsed.options.get("timeout"))
        cloud = LazyCloud(config_dir_of(parsed), client)
        given = {"__client__": there, "__cloud__": cloud, "__config__": shown_opts(config, opts["id"])}
        loader = _loader(index, opts, given, _files(config, opts["cachedir"]), grains=not parsed.on("skip_grains"))
        if parsed.on("doc"):
            printing.show(_docs(loader, parsed.words))
            return exitcodes.OK
        as_text = parsed.options.get("no_parse", ())
        calls = read_calls(parsed.words[0], parsed.words[1:], index, {}, as_text=as_text)
        _point_elsewhere(loader, calls)
        if parsed.on("async"):
            _require_runners(loader, calls)  # in the background, no terminal would show the error
        jid = new_jid()
        reported = _report_begin(client, jid, calls, console)
        if parsed.on("async"):
            _go_on_in_background(jid, parsed, console)
        ran = _run(loader, calls, jid, client, console) if reported else run_calls(loader, calls, jid)
        code = exit_code(ran, passthrough=False)
        for warning in ran.outcome.warnings:
            console.note(f"saltlite: {warning}")
        value, out = without_outputter(shown_value(ran))
        printing.show(value, out or ran.outcome.out)
        return exitcodes.UNREACHABLE if code and there.unreachable else code


def _point_elsewhere(loader: Loader, calls: Sequence[Call]) -> None:
    for fun, _args, _kwargs in calls:
        if fun in _ELSEWHERE and loader.describe(fun) is None:
            raise UsageError(f"there is no runner {fun} here: {_ELSEWHERE[fun]}")


def _opts(config: MasterConfig) -> dict[str, Any]:
    """The master's options, with a cachedir that belongs to the operator.

    The operator is usually root, and the configured cachedir belongs to the master's user: root does not write to
    another user's folder (S10).
    """
    own = os.path.join(config.extension_modules, ".cache") if config.extension_modules else ""
    return {**opts_of(config, f"{config.master_name or socket.gethostname()}_master"), "cachedir": own}


def _loader(index: Index, opts: dict[str, Any], own: dict[str, Any], files: dict[str, Any], *, grains: bool) -> Loader:
    """The loader of runners. Besides the usual names, runners see `own` and `files`, execution modules `files`."""
    found = find_grains(opts) if grains else {"id": opts["id"]}

    def execution(pillar: dict[str, Any]) -> Loader:
        return Loader(build_index(search_layers(opts)), opts, found, pillar, more=files)

    def with_pillar() -> Loader:
        from saltlite.pillar.files import pillar_here  # few runners need it

        return execution(pillar_here(opts["pillar_roots"], opts["id"], found))

    executions = {
        "__execution__": LazyFunctions(lambda: execution({})),
        "__pillar_execution__": LazyFunctions(with_pillar),
    }
    return Loader(index, opts, found, {}, more={**files, **own, **executions})


def _files(config: MasterConfig, cachedir: str) -> dict[str, Any]:
    """`__file_client__` over the files that minions may fetch, if there is a cache folder."""
    if not cachedir:
        return {}
    roots = FileRoots(config.file_roots, ignore=config.file_ignore_glob, largest=config.fileserver_max * MIB)
    return {"__file_client__": FileClient(FileService(roots), cachedir, extmods=config.extension_modules)}


def _require_runners(loader: Loader, calls: Sequence[Call]) -> None:
    for fun, _args, _kwargs in calls:
        if loader.describe(fun) is None:
            raise UsageError(f"there is no runner {fun!r}; `saltlite runner -d` shows all of them")


def _report_begin(client: LocalClient, jid: Jid, calls: Sequence[Call], console: Console) -> bool:
    """Send the event that precedes a run; whether the master has it.

    Raises RefusedError when the caller is not an operator.
    """
    try:
        client.call("runner_event", jid=jid, funs=[fun for fun, _args, _kwargs in calls])
    except UnreachableError as error:
        # Many runners need no master, and may be wanted just when there is none.
        console.note(f"saltlite: no event reports this runner: {error}")
        return False
    return True


def _go_on_in_background(jid: Jid, parsed: Parsed, console: Console) -> None:
    """Print the job id and end this process; return in another, without terminal, which outlives it."""
    sys.stdout.flush()
    if os.fork():
        if parsed.options.get("out", DEFAULT) == DEFAULT:
            console.data(f"Executed command with job ID: {jid}\n")
        else:
            Printing(parsed, console, dict).show({"jid": jid, "tag": f"salt/run/{jid}"})
        os._exit(exitcodes.OK)  # the output file and the login belong to the other process
    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    os.close(null)


def _run(loader: Loader, calls: Sequence[Call], jid: Jid, client: LocalClient, console: Console) -> Ran:
    """Run it, and send the event that reports its end."""
    funs = [fun for fun, _args, _kwargs in calls]
    retcode, began = exitcodes.INTERRUPTED, time.monotonic()
    try:
        ran = run_calls(loader, calls, jid)
        retcode = ran.outcome.retcode
    finally:
        try:
            duration_ms = round((time.monotonic() - began) * 1000)
            client.call("runner_event", jid=jid, funs=funs, retcode=retcode, duration_ms=duration_ms)
        except SaltliteError as error:  # the result is here nevertheless
            console.note(f"saltlite: the master did not learn that the runner has ended: {error}")
    return ran


def _docs(loader: Loader, words: Sequence[str]) -> dict[str, str | None]:
    wanted = words or loader.modules()
    names = [
        name
        for word in wanted
        for name in ([word] if "." in word else [f"{word}.{function}" for function in loader.functions(word)])
    ]
    docs = {name: found.doc for name in names if (found := loader.describe(name)) is not None}
    if not docs:
        raise UsageError(f"there is no runner {' or '.join(words)!r}; `saltlite runner -d` shows all of them")
    return docs
