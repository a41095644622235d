"""The job as the store keeps it: the signed body while anybody may still be sent it, a reduced one after its end.

A reduced body has HIDDEN in the place of arguments, and one byte in front of it that says which of them were withheld.
No message begins with such a byte, so a minion that was sent a reduced body would refuse it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from saltlite.model.secretargs import HIDDEN, without_secrets
from saltlite.wire.jobbody import FunctionCall, JobBody, decode_body, encode_body


class Withheld(StrEnum):
    """Which arguments of a job left the store at its end."""

    NOTHING = ""
    SECRETS = "secrets"
    """Those that nobody was shown."""
    ARGUMENTS = "arguments"
    """All."""


_MARKS = {Withheld.SECRETS: b"\x01", Withheld.ARGUMENTS: b"\x02"}
_WITHHELD = {mark: withheld for withheld, mark in _MARKS.items()}


@dataclass(frozen=True, slots=True)
class JobRecord:
    """A stored body, and what of it was withheld."""

    body: JobBody
    withheld: Withheld = Withheld.NOTHING


def decode_record(data: bytes) -> JobRecord:
    """The body that a store returned. Raises RemoteProtocolError as decode_body does."""
    withheld = _WITHHELD.get(data[:1], Withheld.NOTHING)
    return JobRecord(decode_body(data[1:] if withheld else data), withheld)


def holds_secrets(calls: tuple[FunctionCall, ...], executor_opts: dict[str, object]) -> bool:
    """Whether some argument, or option of an executor, is one that nobody is shown."""
    return any(_shown(call) != call for call in calls) or without_secrets(executor_opts) != executor_opts


def reduced(data: bytes, *, keep_arguments: bool) -> bytes:
    """What the store keeps of a body after the end of its job; `data` itself when nothing is to be withheld.

    Secrets always are; with `keep_arguments` the other arguments stay, for `job rerun`.
    """
    record = decode_record(data)
    body = record.body
    calls = tuple(_shown(call) if keep_arguments else _bare(call) for call in body.calls)
    options = without_secrets(body.executor_opts)
    if calls == body.calls and options == body.executor_opts:
        return data
    withheld = Withheld.SECRETS if keep_arguments else Withheld.ARGUMENTS
    return _MARKS[withheld] + encode_body(replace(body, calls=calls, executor_opts=options))


def _shown(call: FunctionCall) -> FunctionCall:
    fun, args, kwargs = call.shown()
    return call if [args, kwargs] == [call.args, call.kwargs] else FunctionCall(fun, args, kwargs)


def _bare(call: FunctionCall) -> FunctionCall:
    given = bool(call.args or call.kwargs) and call.args != [HIDDEN]
    return FunctionCall(call.fun, [HIDDEN]) if given else call
