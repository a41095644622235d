"""Run functions in the process of the command: shared by `saltlite call`, `saltlite runner` and others."""

from __future__ import annotations

import contextlib
import os
import pwd
import signal
import sys
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from saltlite.cli import exitcodes
from saltlite.client.arguments import parse_arguments, split_calls
from saltlite.errors import UsageError
from saltlite.loader.call import call_each
from saltlite.loader.encode import decode_return, encode_whole
from saltlite.loader.executors import Executors
from saltlite.minion.custom_grains import custom_grains
from saltlite.model.execution import is_direct
from saltlite.model.ids import Jid, jid_at
from saltlite.model.signature import bind, parse_signature
from saltlite.plugins.grains.collect import collect, static_grains

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from types import FrameType

    from saltlite.loader.call import Call, Outcome
    from saltlite.loader.executors import Chain
    from saltlite.loader.index import Index
    from saltlite.loader.loader import Loader
    from saltlite.model.execution import Execution

VALUE_MAX = 2**40
"""The size limit in bytes of a value that stays on this machine: practically none."""


class Ran(NamedTuple):
    """The calls that ran and their outcome: `outcome.value` is what a minion would have sent."""

    jid: Jid
    calls: Sequence[Call]
    outcome: Outcome
    duration_s: float


def read_calls(
    function: str,
    words: Sequence[str],
    index: Index,
    providers: Mapping[str, str],
    *,
    as_text: Collection[str] = (),
) -> list[Call]:
    """The functions on a command line, with arguments typed by the files' signatures, except the keywords `as_text`.

    Raises UsageError for malformed arguments, and for a call that the signature does not allow. A function that no file
    declares passes: the loader knows best why it is missing.
    """
    if "." not in function:
        raise UsageError(f"{function!r} is not a function: it is written MODULE.FUNCTION, as in test.ping")
    calls = split_calls(function, words)
    return [_read_call(fun, rest, index.function_text(fun, providers), as_text) for fun, rest in calls]


def _read_call(fun: str, words: Sequence[str], text: str | None, as_text: Collection[str]) -> Call:
    args, kwargs = parse_arguments(words, [] if text is None else [text], as_text=as_text)
    signature = None if text is None else parse_signature(text)[1]
    misfit = bind(fun, signature, args, kwargs) if signature is not None else ""
    if misfit:
        raise UsageError(misfit)
    return fun, args, kwargs


def new_jid() -> Jid:
    """The id of a job that begins now."""
    return jid_at(time.time_ns() // 1000)


def caller() -> str:
    """The user of this process."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


def find_grains(opts: Mapping[str, Any]) -> dict[str, Any]:
    """The grains of this machine, as its minion collects them."""
    with printing_to_stderr():
        grains = collect(opts)
        for found in custom_grains(opts, grains):
            grains.update(found)
        grains.update(static_grains(opts))
    return {**grains, **(opts.get("grains") or {}), "id": opts["id"]}


def chain_of(loader: Loader, asked: Execution, *, threads: bool = False) -> Chain | None:
    """The executors for a call: those of the configuration or of the command line; None for a direct call.

    `threads`: for resources.
    """
    return None if is_direct(loader.opts, asked) else Executors(loader, threads=threads).chain(asked, remote=False)


def run_calls(loader: Loader, calls: Sequence[Call], jid: Jid, chain: Chain | None = None) -> Ran:
    """Run the functions through the executors of the chain. What they print goes to stderr, so stdout has only the
    result.

    Raises KeyboardInterrupt after Ctrl-C, which the loader alone would turn into a result.
    """
    interrupted = False

    def interrupt(_signum: int, _frame: FrameType | None) -> None:
        nonlocal interrupted
        interrupted = True
        raise KeyboardInterrupt

    def until_interrupted() -> Iterator[Call]:
        for one in calls:
            if not interrupted:
                yield one

    before = signal.signal(signal.SIGINT, interrupt)
    began = time.monotonic()
    try:
        with printing_to_stderr():
            outcome = call_each(loader, until_interrupted(), jid=jid, user=caller(), chain=chain)
    finally:
        signal.signal(signal.SIGINT, before)
    if interrupted:
        raise KeyboardInterrupt
    return Ran(jid, calls, outcome, time.monotonic() - began)


def shown_value(ran: Ran) -> Any:
    """The value as it would have arrived from a minion: plain data."""
    return decode_return(encode_whole(ran.outcome.value, VALUE_MAX).body, VALUE_MAX)


def exit_code(ran: Ran, *, passthrough: bool) -> int:
    """FAILED when the function failed; with `passthrough` its own return code, clipped to what a process can have."""
    retcode = ran.outcome.retcode
    if not passthrough:
        return exitcodes.FAILED if retcode else exitcodes.OK
    return retcode if 0 <= retcode <= 255 else 255


@contextlib.contextmanager
def printing_to_stderr() -> Iterator[None]:
    """Make file descriptor 1 stderr, also for programs that a function starts."""
    if sys.stdout is None or sys.stderr is None:  # closed: the numbers 1 and 2 may stand for anything then
        yield
        return
    sys.stdout.flush()
    stdout = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(stdout, 1)
        os.close(stdout)
