"""The signed job body: the exact bytes that define what runs, for which targets, and on whose order.

The master's job key signs them once. The job server of a minion verifies the signature itself, so that neither the
network process of the minion nor the link process of the master can forge a job. The encoding is a msgpack map with
one-letter keys:

    v version=1   j jid   c calls   u user   t audience root   r run_ms   d deliver_ms   x executors   o options
    m metadata, if there is any

`calls` is a list of [function, args, kwargs], which run one after the other in one process. A fourth element lists the
indexes of secret `args`, if there are any. `executors` names the executors that replace those of the minion ([] keeps
the minion's), and `options` is a map of their options.

The store keeps the signed body until the job has ended, then a reduced one. A reduced body has HIDDEN in place of
arguments, after one byte that says which were withheld. No message starts with such a byte, so a minion refuses it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import field, replace
from enum import StrEnum
from typing import Any

from saltlite.errors import LocalProtocolError, RemoteProtocolError, UsageError
from saltlite.model.dataclass import dataclass
from saltlite.model.execution import checked_executors, checked_options
from saltlite.model.ids import Jid, parse_jid
from saltlite.model.redaction import HIDDEN, without_secrets
from saltlite.wire import codec, signatures
from saltlite.wire.limits import JOB_BODY_MAX, MESSAGE_ARRAY, MESSAGE_CONTAINERS, MESSAGE_DEPTH
from saltlite.wire.merkle import HASH_BYTES

BODY = codec.Limits(
    depth=MESSAGE_DEPTH + 4,  # the map, the calls, the call and its arguments, around what the user wrote
    map=MESSAGE_ARRAY,
    array=MESSAGE_ARRAY,
    string=JOB_BODY_MAX,
    binary=JOB_BODY_MAX,
    containers=MESSAGE_CONTAINERS,
    total=JOB_BODY_MAX,
)
"""The limits of a job body."""

FUNCTION_MAX = 128
"""Characters of a function's name, `module.function`."""

CALLS_MAX = 16
"""Functions in one job."""

USER_MAX = 128
"""Characters of the name of the user who published the job."""

DURATION_MAX_MS = 366 * 86_400_000
"""Milliseconds: the longest run time or delivery time of a job."""

_VERSION = 1
_DOMAIN = b"saltlite job 1\0"
_KEYS = frozenset("vjcutrdxo")
_METADATA = "m"
_FUNCTION = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)+", re.ASCII)


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """One function of a job with its arguments."""

    fun: str
    args: list[Any] = field(default_factory=list)
    kwargs: dict[str, Any] = field(default_factory=dict)
    hidden: list[int] = field(default_factory=list)
    """Indexes of secret positional arguments; secret keyword arguments are known by their names."""

    def shown(self) -> list[Any]:
        """[function, args, kwargs] for display: HIDDEN in place of secrets."""
        args = [HIDDEN if place in self.hidden else without_secrets(one) for place, one in enumerate(self.args)]
        return [self.fun, args, without_secrets(self.kwargs)]


def shown_fun_args(calls: Sequence[FunctionCall]) -> list[Any]:
    """The arguments of a job for display, as Salt's `fun_args`: a list of them for each of several functions."""
    shown = [call.shown() for call in calls]
    args = [[*args, *([{"__kwarg__": True, **kwargs}] if kwargs else [])] for _fun, args, kwargs in shown]
    return args[0] if len(args) == 1 else args


@dataclass(frozen=True, slots=True, kw_only=True)
class JobBody:
    """A job as it is signed. `audience` is merkle.root over the parts; durations are milliseconds, `run_ms` 0 means no
    limit; the job must be delivered within `deliver_ms` after the time in its jid."""

    jid: Jid
    calls: tuple[FunctionCall, ...]
    user: str
    audience: bytes
    run_ms: int
    deliver_ms: int
    executors: list[str] = field(default_factory=list)
    """None: those of the minion's configuration."""
    executor_opts: dict[str, Any] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)
    """Free data of the publisher, shown with the job and not interpreted."""

    @property
    def fun(self) -> str:
        """The names of its functions in Salt's form, joined by commas."""
        return ",".join(call.fun for call in self.calls)


def encode_body(body: JobBody) -> bytes:
    """The encoded body. Raises UsageError with advice if a minion would refuse it."""
    problem = _problem(body)
    if problem:
        raise UsageError(f"the job cannot be published: {problem}")
    message = {
        "v": _VERSION,
        "j": body.jid,
        "c": [[call.fun, call.args, call.kwargs, *([call.hidden] if call.hidden else [])] for call in body.calls],
        "u": body.user,
        "t": body.audience,
        "r": body.run_ms,
        "d": body.deliver_ms,
        "x": body.executors,
        "o": body.executor_opts,
        **({_METADATA: body.metadata} if body.metadata else {}),
    }
    try:
        return codec.encode_checked(message, BODY)
    except LocalProtocolError as error:
        raise UsageError(f"the arguments of {body.fun} cannot travel in a job: {error}") from error


def decode_body(data: bytes) -> JobBody:
    """Decode a body whose signature the caller has verified.

    Raises RemoteProtocolError("bad-job") when a field is missing, unknown or invalid, or with a reason of codec.decode.
    """
    message = codec.decode(data, BODY)
    if type(message) is not dict or message.keys() - {_METADATA} != _KEYS or message["v"] != _VERSION:
        raise RemoteProtocolError("bad-job", "its fields are not those of version 1")
    calls = message["c"]
    if type(calls) is not list or not all(type(call) is list and len(call) in (3, 4) for call in calls):
        raise RemoteProtocolError("bad-job", "its calls are not lists of function, arguments and keyword arguments")
    body = JobBody(
        jid=message["j"],
        calls=tuple(FunctionCall(*call) for call in calls),
        user=message["u"],
        audience=message["t"],
        run_ms=message["r"],
        deliver_ms=message["d"],
        executors=message["x"],
        executor_opts=message["o"],
        metadata=message.get(_METADATA, {}),
    )
    problem = _problem(body)
    if problem:
        raise RemoteProtocolError("bad-job", problem)
    return body


def sign(job_private: bytes, body: bytes) -> bytes:
    """The 64-byte signature of the master's job key (a raw 32-byte seed) over an encoded body."""
    return signatures.sign(job_private, _DOMAIN, body)


def is_signed(job_public: bytes, body: bytes, signature: bytes) -> bool:
    """Whether the holder of `job_public` (32 bytes) signed exactly `body`."""
    return signatures.is_signed(job_public, _DOMAIN, body, signature)


def verify(job_public: bytes, body: bytes, signature: bytes) -> None:
    """Return if the holder of `job_public` (32 bytes) signed exactly `body`.

    Raises RemoteProtocolError("bad-job-signature"); do not look at such a body.
    """
    if not is_signed(job_public, body, signature):
        raise RemoteProtocolError("bad-job-signature", "the master did not sign this job")


def _problem(body: JobBody) -> str:
    """What is wrong with the fields of a job, "" for nothing. They come from a peer and may have any type."""
    try:
        parse_jid(body.jid)
    except UsageError as error:
        return str(error)
    checks = (
        (1 <= len(body.calls) <= CALLS_MAX, f"a job has 1 to {CALLS_MAX} functions"),
        (
            all(_is_function(call.fun) for call in body.calls),
            f"a function is named module.function, in at most {FUNCTION_MAX} characters",
        ),
        (all(type(call.args) is list for call in body.calls), "the arguments are a list"),
        (all(_are_keywords(call.kwargs) for call in body.calls), "keyword arguments have names"),
        (all(_are_indexes(call.hidden, call.args) for call in body.calls), "what is hidden are arguments"),
        (_is_user(body.user), f"a user's name has 1 to {USER_MAX} printable characters"),
        (
            type(body.audience) is bytes and len(body.audience) == HASH_BYTES,
            f"the audience has {HASH_BYTES} bytes",
        ),
        (_is_duration(body.run_ms), f"a run time has 0 to {DURATION_MAX_MS} ms"),
        (_is_duration(body.deliver_ms), f"a delivery time has 0 to {DURATION_MAX_MS} ms"),
        (type(body.executors) is list, "the executors are a list"),
        (type(body.executor_opts) is dict, "the options for executors are a map"),
        (_are_keywords(body.metadata), "metadata are a map of names"),
    )
    return next((sentence for holds, sentence in checks if not holds), "") or _problem_of_execution(body)


def _problem_of_execution(body: JobBody) -> str:
    try:
        checked_executors(body.executors)
        checked_options(body.executor_opts)
    except UsageError as error:
        return str(error)
    return ""


def _is_function(name: object) -> bool:
    return type(name) is str and len(name) <= FUNCTION_MAX and _FUNCTION.fullmatch(name) is not None


def _are_keywords(kwargs: object) -> bool:
    return type(kwargs) is dict and all(type(key) is str for key in kwargs)


def _are_indexes(hidden: object, args: list[Any]) -> bool:
    return type(hidden) is list and all(type(one) is int and 0 <= one < len(args) for one in hidden)


def _is_user(name: object) -> bool:
    return type(name) is str and 1 <= len(name) <= USER_MAX and name.isprintable()


def _is_duration(milliseconds: object) -> bool:
    return type(milliseconds) is int and 0 <= milliseconds <= DURATION_MAX_MS


# -- Stored bodies


class Withheld(StrEnum):
    """Which arguments of a job were withheld from the store at its end."""

    NOTHING = ""
    SECRETS = "secrets"
    """Secret ones."""
    ARGUMENTS = "arguments"
    """All."""


_MARKS = {Withheld.SECRETS: b"\x01", Withheld.ARGUMENTS: b"\x02"}
_WITHHELD = {mark: withheld for withheld, mark in _MARKS.items()}


@dataclass(frozen=True, slots=True)
class JobRecord:
    """A stored body, and which of its arguments were withheld."""

    body: JobBody
    withheld: Withheld = Withheld.NOTHING


def decode_record(data: bytes) -> JobRecord:
    """Decode a stored body. Raises RemoteProtocolError as decode_body does."""
    withheld = _WITHHELD.get(data[:1], Withheld.NOTHING)
    return JobRecord(decode_body(data[1:] if withheld else data), withheld)


def holds_secrets(calls: tuple[FunctionCall, ...], executor_opts: dict[str, object]) -> bool:
    """Whether an argument, or an option of an executor, is secret."""
    return any(_shown(call) != call for call in calls) or without_secrets(executor_opts) != executor_opts


def reduced(data: bytes, *, keep_arguments: bool) -> bytes:
    """The body to store after the end of its job; `data` itself when nothing is withheld.

    Secrets are always withheld; with `keep_arguments` the other arguments stay, for `job rerun`.
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
