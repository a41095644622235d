"""From the words of a command line to what is asked of the master, checked before anything is published."""

from __future__ import annotations

from saltlite.cli.joboptions import TARGET_AND_FUNCTION
from saltlite.cli.origin import origin
from saltlite.cli.targets import target_kind
from saltlite.client.local import JobCall
from saltlite.errors import UsageError
from saltlite.model.signature import outputter_of

TYPE_CHECKING = False  # typing costs as much start-up time as all of the command line
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from saltlite.cli.console import Console
    from saltlite.cli.options import Parsed
    from saltlite.client.local import LocalClient


def read_call(client: LocalClient, parsed: Parsed, console: Console) -> tuple[JobCall, str]:
    """The job that a command line asks for, its arguments typed by what the targeted minions say of the functions; and
    the outputter that all of them name for what the function returns, or "".

    Raises UsageError for a line that is none, RefusedError for a risk that nobody accepted and a function that
    `--test` must not run.
    """
    options = parsed.options
    target, tgt_type, written = _target(parsed), target_kind(parsed), _functions(parsed)
    described = client.call("describe", tgt=target, tgt_type=tgt_type, funs=[fun for fun, _ in written])
    calls = [(fun, *_arguments(words, described["functions"][fun])) for fun, words in written]
    if parsed.on("test"):
        from saltlite.cli.dryrun import dry_run

        calls = dry_run(calls, described)
    elif described["count"] and any(known["risks"] for known in described["functions"].values()):
        from saltlite.cli.risk import require_consent

        count = min(described["count"], options.get("subset", described["count"]))
        require_consent(described, count, options.get("accept_risk", ()), console)
    first, *more = calls
    call = JobCall(
        target,
        first[0],
        arg=first[1],
        kwarg=first[2],
        more=more,
        tgt_type=tgt_type,
        deliver_ms=_milliseconds(options.get("deliver_by")),
        run_ms=_milliseconds(options.get("run_timeout")),
        subset=options.get("subset"),
        batch=_batch(parsed),
        module_executors=options.get("module_executors"),
        ret=options.get("return"),
        executor_opts=options.get("executor_opts"),
        origin=origin() or None,
    )
    return call, "" if more else _outputter(described["functions"][first[0]]["signatures"])


def _outputter(signatures: Sequence[str]) -> str:
    found = {outputter_of(text) for text in signatures}
    return found.pop() if len(found) == 1 else ""


def _target(parsed: Parsed) -> str:
    if len(parsed.words) < TARGET_AND_FUNCTION or "." not in parsed.words[1]:
        raise UsageError(_what_is_missing(parsed.words))
    return parsed.words[0]


def _functions(parsed: Parsed) -> list[tuple[str, list[str]]]:
    function, words = parsed.words[1], parsed.words[TARGET_AND_FUNCTION:]
    if "," not in function:
        return [(function, words)]
    from saltlite.cli.arguments import split_calls

    return split_calls(function, words)


def _arguments(words: Sequence[str], known: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    if not words:
        return [], {}
    from saltlite.cli.arguments import parse_arguments  # reading signatures costs as much as the rest of this file

    return parse_arguments(words, known["signatures"])


def _what_is_missing(words: Sequence[str]) -> str:
    if not words:
        return "say what to run where: saltlite TARGET MODULE.FUNCTION, as in saltlite '*' test.ping"
    if len(words) == 1:
        sentence = f"{words[0]!r} is no command, and a target needs a function: saltlite {words[0]!r} test.ping"
    else:
        sentence = f"{words[1]!r} is not a function: it is written MODULE.FUNCTION, as in test.ping"
    return sentence + _meant(words[0])


def _meant(word: str) -> str:
    """The command that somebody mistyped, perhaps."""
    from saltlite.cli.commands import members
    from saltlite.config.nearest import nearest  # difflib is slow to import, and only errors need it

    near = "--help" if word == "help" else nearest(word, members(""))
    return f"; did you mean saltlite {near}?" if near else ""


def _milliseconds(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * 1000)


def _batch(parsed: Parsed) -> dict[str, Any] | None:
    if "batch" not in parsed.options:
        if alone := [name for name in ("batch_wait", "failhard") if parsed.on(name)]:
            raise UsageError(f"--{alone[0].replace('_', '-')} needs --batch: it is about what follows a batch")
        return None
    size, percent = parsed.options["batch"]
    return {
        "size": size,
        "percent": percent,
        "wait_ms": _milliseconds(parsed.options.get("batch_wait", 0.0)),
        "failhard": parsed.on("failhard"),
    }
