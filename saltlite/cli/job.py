"""`saltlite TARGET MODULE.FUNCTION …`: publish a job, print its returns as they arrive, report the missing ones.

`publish` sends the call, with consent for risks and `--test`; `saltlite.cli.following` follows the job.
"""

from __future__ import annotations

import os
import time

from saltlite.cli import exitcodes, outcome
from saltlite.cli.connect import open_client
from saltlite.cli.following import Following, report_failures, report_missing, report_notes, report_skipped
from saltlite.cli.job_options import SAFE_SIZE, TARGET_AND_FUNCTION
from saltlite.cli.output import DEFAULT, FOR_PROGRAMS, STREAMS, Outputters, opened_output, style_of
from saltlite.cli.printers import EachBatch, EachEvent, EachReply, FullObject, OneDocument, OneObject, start_fields
from saltlite.cli.targets import compound_hint, kinds_text, natural_key, noun, target_kind, targets_text
from saltlite.client.follower import Progress, WaitPolicy
from saltlite.client.local import JobCall
from saltlite.config.paths import DEFAULT_CONFIG_DIR
from saltlite.errors import NoTargetError, RefusedError, UsageError

TYPE_CHECKING = False  # importing typing takes as long as the rest of the command line
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from typing import Any

    from saltlite.cli.console import Console
    from saltlite.cli.options import Parsed
    from saltlite.cli.printers import Printer
    from saltlite.client.follower import Published
    from saltlite.client.local import LocalClient

    Call = tuple[str, list[Any], dict[str, Any]]

ORIGIN_MAX = 200
"""Characters."""
FUNCTIONS_WAIT_S = 2.0
"""How long a command waits for minions that have just connected to report what their functions take and risk."""
FUNCTIONS_POLL_S = 0.05


def origin() -> str:
    """Where the request comes from, as in `ssh 10.0.0.7, pts/3, sudo from alice`; recorded, never trusted."""
    address = os.environ.get("SSH_CONNECTION", "").partition(" ")[0]
    user = os.environ.get("SUDO_USER", "")
    parts = [f"ssh {address}" if address else "", _terminal(), f"sudo from {user}" if user else ""]
    text = ", ".join(part for part in parts if part)
    return "".join(character for character in text if character.isprintable())[:ORIGIN_MAX]


def _terminal() -> str:
    for descriptor in (0, 2):
        try:
            return os.ttyname(descriptor).removeprefix("/dev/")
        except OSError:
            continue
    return ""


def require_consent(described: Mapping[str, Any], count: int, accepted: Sequence[str], console: Console) -> None:
    """Return when each risk of the described functions was accepted, by option or at the terminal.

    `described` is the master's answer to `describe`, `count` the number of targets. A risk that only some of the
    targets declare counts too, because a fleet may have several providers of a function. The question names one of
    them, so that a single minion with a false claim is noticed. Raises RefusedError.
    """
    rows = [(fun, row) for fun, known in described["functions"].items() for row in known["risks"]]
    risky = [(fun, row) for fun, row in rows if row["risk"] not in accepted]
    if not risky:
        return
    amount, kind = _amount(described, count), kind_of(described)
    what = "; ".join(_risk_text(fun, row, kind) for fun, row in risky)
    if not console.can_ask():
        names = ",".join(dict.fromkeys([*accepted, *(row["risk"] for _fun, row in risky)]))
        doubted = dict.fromkeys(row["one"] for _fun, row in risky if row["minions"] == 1 < row["of"])
        instead = f", or leave {' and '.join(doubted)} out of the target" if doubted else ""
        raise RefusedError(f"{what}; nothing was published. To run it on {amount} add --accept-risk={names}{instead}")
    if console.answer(f"{what}, on {amount}; type {count} to go on:") != str(count):
        raise RefusedError(f"that was not {count}; nothing was published")


def _amount(described: Mapping[str, Any], count: int) -> str:
    resources = described["resources"]
    if count == described["count"] or not resources:
        return targets_text(count - resources, resources)
    return f"{count} target{'' if count == 1 else 's'}"  # random ones, not chosen yet


def kind_of(described: Mapping[str, Any]) -> str:
    """The noun for the targets that the master's answer to `describe` counts."""
    return noun(described["count"] - described["resources"], described["resources"])


def _risk_text(fun: str, row: Mapping[str, Any], kind: str) -> str:
    if row["minions"] == row["of"]:
        return f"{fun} carries the risk {row['risk']}"
    return f"{sayers(row, kind)} that {fun} carries the risk {row['risk']}"


def sayers(row: Mapping[str, Any], kind: str) -> str:
    """The targets that report something about a function, as the beginning of a sentence.

    `row` has `minions` (their number), `of` (how many have the function) and `one` (an id); `kind` is their noun.
    """
    few, of, one = row["minions"], row["of"], row["one"]
    return f"1 of {of} {kind} ({one}) says" if few == 1 else f"{few} of {of} {kind} ({one} is one of them) say"


PARAMETER = "test"


def dry_run(calls: Sequence[Call], described: Mapping[str, Any]) -> list[Call]:
    """The same calls with `test=True`, for `--test`.

    A function takes part if it has a parameter named `test`. `**kwargs` does not count: such a function may
    ignore the word and do what was only to be tried. `described` is the master's answer to `describe`. Raises
    RefusedError when a target may have a function without the parameter, or did not report its signature; NoTargetError
    without any target, UsageError when no target has the function.
    """
    if not described["count"]:
        raise NoTargetError("nothing matches the target; nothing was published")
    for fun, _arg, kwarg in calls:
        known = described["functions"][fun]
        if not known["signatures"] and not known["unknown"]:
            raise UsageError(f"no target has {fun}; nothing was published")
        refusal = _refusal(fun, known, kind_of(described))
        if refusal:
            raise RefusedError(refusal)
        if kwarg.get(PARAMETER, True) is not True:
            raise RefusedError(f"{fun} is given test={kwarg[PARAMETER]}, and --test says otherwise; drop one of them")
    return [(fun, arg, {**kwarg, PARAMETER: True}) for fun, arg, kwarg in calls]


def _refusal(fun: str, known: Mapping[str, Any], kind: str) -> str:
    from saltlite.model.signature import parse_signature  # slow to import, and few jobs need it

    for text, row in zip(known["signatures"], known["takers"], strict=True):
        signature = parse_signature(text)[1]
        if signature is None or signature.named(PARAMETER) is None:
            whose = "" if row["minions"] == row["of"] else f"{sayers(row, kind)} that "
            sentence = f"{fun} has no dry run (no parameter '{PARAMETER}'), so --test does not run it"
            return f"{whose}{sentence}; nothing was published"
    if unknown := known["unknown"]:
        have = f"{kind.removesuffix('s')} has" if unknown == 1 else f"{kind} have"
        return (
            f"{unknown} {have} not reported whether {fun} has a dry run, so --test does not run it; narrow the target"
        )
    return ""


def publish(client: LocalClient, parsed: Parsed, console: Console) -> tuple[Published, str]:
    """Publish the job that a command line asks for; and the outputter that its targets name for the function, or "".

    The master is asked once, unless it has a question first: whether the user accepts the risks of the functions, or
    what these take, where that decides what the words mean. It is asked again while minions that have just connected
    report their functions. With `--test` it is always asked what they take.

    Raises UsageError for an invalid line, RefusedError for a risk that the user does not accept and for a function that
    `--test` must not run, NoTargetError.
    """
    target, tgt_type, written = _target(parsed), target_kind(parsed), _functions(parsed)
    follow, accepted = not parsed.on("async"), list(parsed.options.get("accept_risk", ()))
    as_text = parsed.options.get("no_parse", ())
    if parsed.on("test"):
        described = client.call("describe", tgt=target, tgt_type=tgt_type, funs=[fun for fun, _words in written])
        job = _job_call(parsed, target, tgt_type, dry_run(_calls(written, described["functions"], as_text), described))
        with _Sending(job):
            published = client.publish(job, follow=follow)
        return published, _outputter(described["functions"][written[0][0]]["signatures"]) if len(written) == 1 else ""
    try:
        calls = _calls(written, {}, as_text)
    except UsageError:  # of an argument that is right as text, perhaps
        answer: Published | dict[str, Any] = client.call(
            "describe", tgt=target, tgt_type=tgt_type, funs=[fun for fun, _words in written]
        )
    else:
        job = _job_call(parsed, target, tgt_type, calls)
        with _Sending(job):
            answer = client.publish_or_ask(job, accepted, untyped=True, follow=follow)
    give_up = time.monotonic() + FUNCTIONS_WAIT_S
    while isinstance(answer, dict):
        job = _job_call(parsed, target, tgt_type, _calls(written, answer["functions"], as_text))
        waits = answer["awaited"] > 0 and time.monotonic() < give_up
        if waits:
            time.sleep(FUNCTIONS_POLL_S)
        else:
            accept_risks(answer, min(answer["count"], parsed.options.get("subset", answer["count"])), accepted, console)
        with _Sending(job):
            answer = client.publish_or_ask(job, accepted, untyped=waits, follow=follow)
    if not answer.count:
        raise NoTargetError(f"nothing matches {target!r}; nothing was published")
    return answer, answer.outputter


class _Sending:
    """A context for the request that publishes a job. It completes the errors that only a publish has."""

    __slots__ = ("_job",)

    def __init__(self, job: JobCall) -> None:
        self._job = job

    def __enter__(self) -> None:
        """The request is sent next."""

    def __exit__(self, _kind: type[BaseException] | None, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, NoTargetError):
            raise NoTargetError(f"{error}{compound_hint(self._job.tgt, self._job.tgt_type)}") from error
        if isinstance(error, KeyboardInterrupt):
            raise UnansweredInterrupt from None


def _calls(written: Sequence[tuple[str, list[str]]], known: Mapping[str, Any], as_text: Collection[str]) -> list[Call]:
    """The calls, with arguments typed by the signatures that are known of the functions, except those `as_text`."""
    return [
        (fun, *_arguments(words, known[fun]["signatures"] if fun in known else (), as_text)) for fun, words in written
    ]


def accept_risks(described: Mapping[str, Any], count: int, accepted: list[str], console: Console) -> None:
    """Add the risks of the described functions to `accepted`, once the user accepts them. Raises RefusedError."""
    if described["count"]:
        require_consent(described, count, accepted, console)
    accepted += [row["risk"] for known in described["functions"].values() for row in known["risks"]]


def _job_call(parsed: Parsed, target: str, tgt_type: str, calls: Sequence[Call]) -> JobCall:
    options = parsed.options
    first, *more = calls
    return JobCall(
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
        metadata=options.get("metadata"),
        origin=origin() or None,
    )


def _outputter(signatures: Sequence[str]) -> str:
    from saltlite.model.signature import outputter_of

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
    from saltlite.client.arguments import SEPARATOR, split_calls

    return split_calls(function, words, parsed.options.get("args_separator", SEPARATOR))


def _arguments(
    words: Sequence[str], signatures: Sequence[str], as_text: Collection[str]
) -> tuple[list[Any], dict[str, Any]]:
    if not words:
        return [], {}
    from saltlite.client.arguments import parse_arguments  # reading signatures costs as much as the rest of this file

    return parse_arguments(words, signatures, as_text=as_text)


def _what_is_missing(words: Sequence[str]) -> str:
    if not words:
        return "say what to run where: saltlite TARGET MODULE.FUNCTION, as in saltlite '*' test.ping"
    if len(words) == 1:
        sentence = f"{words[0]!r} is not a command, and a target needs a function: saltlite {words[0]!r} test.ping"
    else:
        sentence = f"{words[1]!r} is not a function: it is written MODULE.FUNCTION, as in test.ping"
    return sentence + _meant(words)


def _meant(words: Sequence[str]) -> str:
    """A hint at the command that was perhaps mistyped."""
    from saltlite.cli.commands import members
    from saltlite.errors import nearest  # difflib is slow to import, and only errors need it

    near = nearest(words[0], members(""))
    verb = nearest(words[1], members(near)) if near and len(words) > 1 else None
    return f"; did you mean saltlite {near}{f' {verb}' if verb else ''}?" if near else ""


def _milliseconds(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * 1000)


def _batch(parsed: Parsed) -> dict[str, Any] | None:
    if "batch" not in parsed.options:
        if "batch_safe_limit" in parsed.options:
            return None  # fewer targets match
        if alone := [name for name in ("batch_wait", "failhard") if parsed.on(name)]:
            raise UsageError(f"--{alone[0].replace('_', '-')} needs --batch: it concerns the targets of a batch")
        return None
    size, percent = parsed.options["batch"]
    return {
        "size": size,
        "percent": percent,
        "wait_ms": _milliseconds(parsed.options.get("batch_wait", 0.0)),
        "failhard": parsed.on("failhard"),
    }


DOCUMENTATION = "sys.doc"
"""The function that `--doc` runs."""
EXPIRY_S = 3.0
"""How much later than the end of its delivery time the master has surely reported that a job was not delivered."""


def run(parsed: Parsed, console: Console) -> int:
    """Run one job, parsed with the table JOB; the exit code. Raises SaltliteError, and Detached when interrupted."""
    _check(parsed)
    if "log_level" in parsed.options:
        from saltlite.platform import logs  # few commands log anything

        logs.configure(parsed.options["log_level"])
    if parsed.on("doc"):
        _ask_for_documentation(parsed)
    with opened_output(parsed, console) as output:
        form = _Format(parsed, output)
        with open_client(parsed, console) as client:
            if parsed.on("preview_target"):
                form.show(sorted(_selected(client, parsed), key=natural_key))
                return exitcodes.OK
            if "batch_safe_limit" in parsed.options:
                _keep_safe_limit(client, parsed, form)
            published, wanted = publish(client, parsed, console)
            form.prefer(wanted)
            if parsed.on("async"):
                report_skipped(published, form.console)
                _print_jid(published, form.out, form.console, batch="batch" in parsed.options)
                return exitcodes.OK
            return _follow(client, published, parsed, form)


def _ask_for_documentation(parsed: Parsed) -> None:
    """Make of `[TARGET] [NAME...]` the job that reads the documentation of these modules and functions."""
    target, *names = parsed.words or ["*"]
    parsed.words = [target, DOCUMENTATION, *(names[1:] if names[:1] == [DOCUMENTATION] else names)]


def _selected(client: LocalClient, parsed: Parsed) -> list[str]:
    """The targets. Raises NoTargetError."""
    if not parsed.words:
        raise UsageError("say a target: saltlite --preview-target 'web*'")
    target, kind = parsed.words[0], target_kind(parsed)
    answer = client.call("match", tgt=target, tgt_type=kind)
    found = [*answer["minions"], *(srn for srns in answer["resources"].values() for srn in srns)]
    if not found:
        raise NoTargetError(f"nothing matches {target!r}{compound_hint(target, kind)}")
    return found


def _keep_safe_limit(client: LocalClient, parsed: Parsed, form: _Format) -> None:
    """Run in batches if the targets are as many as --batch-safe-limit, or more."""
    if "batch" not in parsed.options and len(_selected(client, parsed)) >= parsed.options["batch_safe_limit"]:
        form.say("NOTICE: Too many minions targeted, switching to batch execution.")
        parsed.options["batch"] = parsed.options.get("batch_safe_size", SAFE_SIZE)


def follow_job(client: LocalClient, published: Published, parsed: Parsed, console: Console) -> int:
    """Follow a job whose stream the client's connection carries, as the command that publishes one does.

    Of the options in `parsed` those in FOLLOW_OPTIONS count. The exit code; raises as `run` does.
    """
    console.quiet = parsed.on("quiet")
    _check(parsed)
    with opened_output(parsed, console) as output:
        return _follow(client, published, parsed, _Format(parsed, output))


def _check(parsed: Parsed) -> None:
    if parsed.on("verbose") and parsed.on("quiet"):
        raise UsageError("--verbose and --quiet exclude each other")
    if "batch_safe_size" in parsed.options and "batch_safe_limit" not in parsed.options:
        raise UsageError("--batch-safe-size needs --batch-safe-limit")


class _Format:
    """How the returns of a job are printed, and where. Raises UsageError for an unknown outputter."""

    def __init__(self, parsed: Parsed, console: Console) -> None:
        self.console = console
        self._style = style_of(parsed, console)
        self._outputters = Outputters(lambda: _master_opts(parsed))
        self._asked: str = parsed.options.get("out", "")
        self._documents = parsed.on("doc")
        self._unpaged = parsed.on("no_pager")
        if self._asked and self._asked not in STREAMS:
            self._outputters.find(self._asked, self._style)
        self.out = self._asked or DEFAULT

    def show(self, value: Any) -> None:
        """Print a value that is not the return of a target."""
        if self.out in FOR_PROGRAMS:
            self.console.use_utf8()
        text = self._outputters.render("json" if self.out in STREAMS else self.out, value, self._style)
        self.console.paged(text, off=self._unpaged)

    def say(self, sentence: str) -> None:
        """Print a sentence among the returns, as Salt does; on stderr where programs read them."""
        if self.out in FOR_PROGRAMS or self.out == "quiet":
            self.console.note(sentence)
        elif not self.console.quiet:
            self.console.data(f"\n{sentence}\n\n")

    def prefer(self, wanted: str) -> None:
        """The outputter that the function asks for, or ""."""
        self.out = self._outputters.choose(self._asked, wanted, self._style)

    def printer(self, progress: Progress) -> Printer:
        console, style = self.console, self._style
        if self.out in FOR_PROGRAMS:
            console.use_utf8()
        if self._documents and self.out not in STREAMS:
            return OneDocument(console, self.out, self._outputters, style)
        one_line = style.indent is not None and style.indent < 0
        if self.out == "json" and not one_line:
            return OneObject(console, style.indent)
        if self.out == "json-full":
            return FullObject(console, progress)
        if self.out == "jsonl":
            return EachEvent(console, progress)
        if not self._asked and self.out == DEFAULT and console.shows_data() and len(progress.states) > 1:
            from saltlite.cli.printers import EqualAnswers

            return EqualAnswers(console, color=style.color, unpaged=self._unpaged)
        alone = len(progress.states) == 1
        if self.out == "table" and not alone:
            from saltlite.cli.printers import OneTable

            return OneTable(console, self._outputters, style, unpaged=self._unpaged)
        return EachReply(console, self.out, self._outputters, style, unpaged=self._unpaged or not alone)


def _master_opts(parsed: Parsed) -> dict[str, Any]:
    from saltlite.cli.custom_output import master_opts

    return master_opts(parsed.options.get("config_dir", DEFAULT_CONFIG_DIR))


class UnansweredInterrupt(KeyboardInterrupt):
    """Interrupted between the request and its answer."""

    def __str__(self) -> str:
        return "interrupted before the master answered: the job may have been published"


def _follow(client: LocalClient, published: Published, parsed: Parsed, form: _Format) -> int:
    console = form.console
    progress = Progress(published, now=time.monotonic())
    _report_start(published, parsed, console)
    printer, shown = form.printer(progress), not parsed.on("hide_timeout")
    if "batch" in parsed.options:
        printer = EachBatch(printer, progress, form.say)
    passthrough = parsed.on("retcode_passthrough")
    following = Following(client, progress, printer, console, names_away=shown, passthrough=passthrough)
    code, missing = following.run(_wait_policy(published, parsed))
    if not printer.names_failures:
        report_failures(progress, console)
    report_notes(progress, console)
    if shown:
        report_missing(progress, missing, console)
    if parsed.on("summary"):
        console.error(_summary(progress, len(missing)))
    return code


def _summary(progress: Progress, missing_count: int) -> str:
    counts = outcome.summary(progress, missing_count)
    resources = counts["resources"]
    which = f" ({kinds_text(len(progress.states) - resources, resources)})" if resources else ""
    return (
        f"{counts['targeted']} targeted{which}, {counts['returned']} returned, {counts['failed']} of them failed, "
        f"{counts['missing']} did not return ({time.monotonic() - progress.published_at:.1f} s)"
    )


def _report_start(published: Published, parsed: Parsed, console: Console) -> None:
    if parsed.on("show_jid"):
        console.error(f"jid: {published.jid}")
    if parsed.on("verbose"):
        count = targets_text(len(published.minions), len(published.managing))
        began = outcome.local_time(console.now(), console.now())
        console.error(f"job {published.jid}: {published.fun} on {published.target!r}, {count}, followed since {began}")
    report_skipped(published, console)


def _wait_policy(published: Published, parsed: Parsed) -> WaitPolicy:
    timeout_s = parsed.options.get("timeout")
    if timeout_s is not None:
        return WaitPolicy(timeout_s, away_quiet_s=timeout_s)
    if "deliver_by" not in parsed.options:
        return WaitPolicy(published.timeout_s)
    # --deliver-by also says how long to wait for the delivery.
    whole_s = published.deliver_s + EXPIRY_S
    return WaitPolicy(max(published.timeout_s, whole_s), away_s=whole_s)


def _print_jid(published: Published, out: str, console: Console, *, batch: bool) -> None:
    if out in ("json", "json-full", "jsonl"):
        from saltlite.plugins.output import json

        console.use_utf8()
        shape = json.line if out == "jsonl" else json.document
        fields = start_fields(published)
        console.data(shape({"type": "start", **fields} if out == "jsonl" else fields))
    elif out != "quiet":
        console.data(f"Executed {'batch ' if batch else ''}command with job ID: {published.jid}\n")
