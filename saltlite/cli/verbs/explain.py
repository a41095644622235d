"""`saltlite explain`: which file provides a module, why others do not, and how it implements its interface."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from saltlite.cli import exitcodes
from saltlite.cli.commands import command_table
from saltlite.cli.configs import config_dir_of
from saltlite.cli.connect import open_client
from saltlite.cli.options import Option
from saltlite.cli.output import print_answer
from saltlite.client.follower import Progress, WaitPolicy
from saltlite.client.local import JobCall
from saltlite.errors import NoTargetError, SaltliteError, UnreachableError, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from saltlite.cli.console import Console
    from saltlite.cli.options import Parsed

CALLS = ("sys.providers", "smi.conformance")
"""Called in one job."""

Answer = dict[str, Any]


def run(argv: Sequence[str], console: Console) -> int:
    """Ask one minion, or look at this machine. NOTHING_MATCHED when no file there could provide the module."""
    parsed = command_table(
        "explain",
        Option("--local", help="look at this machine, as its minion would"),
    ).parse(argv)
    console.quiet = parsed.on("quiet")
    wanted = 1 if parsed.on("local") else 2
    if len(parsed.words) != wanted or "." in parsed.words[0]:
        raise UsageError("say a module and a minion, or --local: saltlite explain pkg web1")
    module = parsed.words[0]
    answer = _look_here(module, parsed) if parsed.on("local") else _ask(module, parsed.words[1], parsed)
    candidates = answer["sys.providers"][module]
    report = answer["smi.conformance"].get(module)
    where = "this machine" if parsed.on("local") else parsed.words[1]
    print_answer(
        {"candidates": candidates, "interface": report}, _text(module, where, candidates, report), parsed, console
    )
    return exitcodes.OK if candidates else exitcodes.NOTHING_MATCHED


def _ask(module: str, minion: str, parsed: Parsed) -> Answer:
    first, second = CALLS
    job = JobCall([minion], first, arg=[module], tgt_type="list", more=[(second, [module], {})])
    with open_client(parsed) as client:
        published = client.publish(job, follow=True)
        if minion in published.away:
            raise UnreachableError(f"{minion} is not connected: try again when it is back")
        progress = Progress(published, now=time.monotonic())
        for reply in client.watch(progress, WaitPolicy(published.timeout_s)):
            return _checked(minion, reply.value)
    raise UnreachableError(f"{minion} did not answer: look with `saltlite job show {published.jid}`")


def _checked(minion: str, value: object) -> Answer:
    """The minion's answer. Raises NoTargetError when it is malformed."""
    if isinstance(value, dict) and all(isinstance(value.get(fun), dict) for fun in CALLS):
        return value
    raise NoTargetError(f"{minion} could not answer: {value if isinstance(value, str) else 'it runs another version'}")


def _look_here(module: str, parsed: Parsed) -> Answer:
    from saltlite.cli.in_process import find_grains
    from saltlite.config.load import load_minion
    from saltlite.config.options import opts_of
    from saltlite.loader.call import call
    from saltlite.loader.index import build_index
    from saltlite.loader.loader import Loader
    from saltlite.loader.search_path import search_layers
    from saltlite.plugins.grains.network import names

    config = load_minion(config_dir_of(parsed)).config
    opts = opts_of(config, config.id or names()["fqdn"].lower())
    loader = Loader(build_index(search_layers(opts)), opts, find_grains(opts), {})
    found = {}
    for fun in CALLS:
        outcome = call(loader, fun, [module], {})
        if outcome.retcode:
            raise SaltliteError(str(outcome.value))
        found[fun] = outcome.value
    return found


def _text(module: str, where: str, candidates: Sequence[Mapping[str, Any]], report: Mapping[str, Any] | None) -> str:
    if not candidates:
        return f"{module}: no file of {where} could provide it\n"
    lines = []
    for one in candidates:
        mark = "provides it" if one["chosen"] else f"does not: {one['reason']}"
        lines.append(f"{one['file']} ({one['layer']}) {mark}\n  {one['path']}")
    if report is not None:
        counts = ", ".join(f"{count} {state.replace('_', ' ')}" for state, count in sorted(report["counts"].items()))
        lines.append(f"interface {report['interface']} {report['version']}: {counts}")
        lacking = [fun for fun, row in report["functions"].items() if row["state"] == "not_implemented"]
        lines += [f"  not implemented: {', '.join(lacking)}"] if lacking else []
        for fun, row in report["functions"].items():
            bad = [one["text"] for one in row["differences"] if one["level"] != "ok"]
            noted = [row["note"]] if row["note"] else []
            if bad or noted:
                lines.append(f"  {fun}: {'; '.join([*noted, *bad])}")
    return "".join(f"{line}\n" for line in lines)
