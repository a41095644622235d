"""Every error that saltlite raises on purpose, as one tree.

What belongs here: exception classes with their exit code. The message is a sentence that says what is wrong
and what to do about it; nothing is logged here, and nothing here imports anything of saltlite.

Foreign exceptions (OSError, sqlite3.Error, zmq.ZMQError …) are turned into these once, in the adapter that
met them. Exit codes are the table of the README; `saltlite.cli.exitcodes` names them.
"""

from __future__ import annotations

TYPE_CHECKING = False  # importing typing takes as long as the rest of the command line
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Any


class _Text:
    """An attribute that is the text of the error, unless the error has another value for it."""

    def __get__(self, error: BaseException | None, _of: type[BaseException]) -> Any:
        return self if error is None else str(error)


class SaltliteError(Exception):
    """Something went wrong inside saltlite; the text says what, and what to try next.

    In plug-in files it is Salt's `SaltException`.
    """

    exit_code = 1
    message = _Text()
    strerror = _Text()

    def pack(self) -> dict[str, Any]:
        """The error as plain data, as in Salt."""
        return {"message": str(self), "args": self.args}


class UsageError(SaltliteError):
    """The command line was not understood."""

    exit_code = 2


class UncallableError(UsageError):
    """No target of a job can run a call, so nothing was published.

    `targets` are the minions and SRNs; `missing` is the function, if that is what they do not have.
    """

    def __init__(self, text: str, targets: Sequence[str] = (), missing: str = "") -> None:
        super().__init__(text)
        self.targets = targets
        self.missing = missing


class ConfigError(SaltliteError):
    """A configuration file cannot be used; each line of the text is `file:line:col: sentence`."""

    exit_code = 2


class NoTargetError(SaltliteError):
    """No accepted minion matches the target, so nothing was published."""

    exit_code = 3


class RefusedError(SaltliteError):
    """The caller may not do this."""

    exit_code = 6


class CostlyRuleError(RefusedError):
    """A pattern of the configuration takes too long on what the caller gave, so what it would grant is denied."""


class LoginError(RefusedError):
    """The caller has not shown who he is: a wrong password, or a token that is invalid or has expired."""


class UnreachableError(SaltliteError):
    """The master cannot be reached, or it went away before it answered."""

    exit_code = 7


class StartupError(SaltliteError):
    """A daemon cannot start: a port in use, a folder that cannot be written, a second master."""


class MisconfiguredError(StartupError):
    """A daemon cannot start with this configuration, and would not at the next try either: its unit leaves it be."""

    exit_code = 2


class RenderError(SaltliteError):
    """A pillar file does not say what pillar files can say; the text has its name and place, and no value of it."""


class StoreError(SaltliteError):
    """The master's store refused an operation (disk full, damaged, locked); nothing was changed."""


class CursorLostError(StoreError):
    """Another master has taken over what this process did for all masters that share the store."""


class StoreConflictError(StoreError):
    """Another writer stored the same, or changed what was read, in the meantime; nothing was stored."""


class DamagedError(StoreError):
    """A file of the master holds something that was never written there."""


class UnknownRowError(StoreError):
    """Whether a row exists is unknown, because rows were lost to damage and are not all there again."""


class JournalError(SaltliteError):
    """The minion's journal or spool cannot be written; the job was refused, not half run."""


class UnwrittenError(JournalError):
    """The minion's disk did not take one record or one result; nothing of it is there, and the rest is as it was.

    `why` is the kernel's phrase, such as "No space left on device".
    """

    def __init__(self, text: str, why: str) -> None:
        super().__init__(text)
        self.why = why


class MachineError(SaltliteError):
    """A machine of namespaces on this host could not be made, reached or removed; what is left of it is listed."""


class LinkError(SaltliteError):
    """The network link could not be opened or used."""


class ProtocolError(SaltliteError):
    """The wire protocol was broken."""


class LocalProtocolError(ProtocolError):
    """This side tried something that the protocol does not allow: a defect in saltlite."""


class RemoteProtocolError(ProtocolError):
    """The peer sent something that the protocol does not allow; it costs the peer its session.

    `reason` is a short stable word for counters and tests, such as `bad-mac` or `oversize`.
    """

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason = reason


class CommandExecutionError(SaltliteError):
    """An execution module function could not do its work; the text is shown to the caller as it stands.

    As in Salt, `info` is data that the text ends with, `error` is the text without it, and `strerror_without_changes`
    the text without the key `changes` of it.
    """

    def __init__(self, message: object = "", info: Any = None) -> None:
        self.error = _plain(message)
        self.info = info
        super().__init__(_with_info(self.error, info))

    @property
    def strerror_without_changes(self) -> str:
        """The text without the changes that `info` has."""
        if not isinstance(self.info, dict):
            return str(self)
        return _with_info(self.error, {key: value for key, value in self.info.items() if key != "changes"})


def _plain(text: object) -> str:
    return text.decode(errors="replace") if isinstance(text, bytes) else str(text)


def _with_info(text: str, info: Any) -> str:
    if not info:
        return text
    stop = "" if not text else " " if text[-1] in ".?!" else ". "
    return f"{text}{stop}Additional info follows:\n\n" + "\n".join(_lines(info, 0))


def _lines(data: Any, indent: int, prefix: str = "") -> Iterator[str]:
    """The data in Salt's nested format, without colours."""
    blank = " " * indent
    if isinstance(data, dict):
        if indent:
            yield f"{blank}----------"
        for key in sorted(data, key=str):
            yield f"{blank}{prefix}{key}:"
            yield from _lines(data[key], indent + 4)
    elif isinstance(data, list | tuple):
        for item in data:
            if isinstance(item, dict | list | tuple):
                yield f"{blank}|_"
                yield from _lines(item, indent + 2, "" if isinstance(item, dict) else "- ")
            else:
                yield from _lines(item, indent, "- ")
    elif isinstance(data, str | bytes):
        for number, line in enumerate(_plain(data).splitlines()):
            yield f"{blank}{' ' * len(prefix) if number else prefix}{line}"
    else:
        yield f"{blank}{prefix}{data!r}"


class NoMinionError(CommandExecutionError):
    """No minion runs on this machine, or this user may not speak for it."""


class CommandNotFoundError(SaltliteError):
    """A program that the function needs is not installed. As in Salt, this is no CommandExecutionError."""


class SaltInvocationError(SaltliteError, TypeError):
    """An execution module function was called with values that it cannot work with."""


class InterfaceError(CommandExecutionError):
    """A function of a virtual module does not do here what its interface promises.

    `details` is what a program reads in place of the text: status, interface, version, provider, function.
    """

    retcode = 69

    def __init__(self, text: str, details: Mapping[str, str]) -> None:
        super().__init__(text)
        self.details = dict(details)


class InterfaceNotImplemented(InterfaceError, NotImplementedError):  # noqa: N818 - a state, named as the report does
    """The provider of this machine lacks a function that it should have."""


class InterfaceNotSupported(InterfaceError, NotImplementedError):  # noqa: N818 - as above
    """The function is not to be had on machines of this kind."""


class InterfaceReturnError(InterfaceError):
    """The function returned something else than the interface promises, and the minion is strict about that."""

    retcode = 70


class InterfaceArgumentError(SaltInvocationError):
    """The provider of this machine has no place for an argument that the interface knows."""


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The one of `known` that is most like `name`, for messages about unknown names; None if none is similar."""
    import difflib  # noqa: PLC0415 - slow to import, and few messages need it

    matches = difflib.get_close_matches(name, known, n=1)
    return matches[0] if matches else None


def invalid_keywords(unknown: Iterable[str], known: Iterable[str]) -> str:
    """Salt's sentence about keywords that a function does not take, each with the name that was probably meant.

    `unknown` are names, or `name=value`.
    """
    names, shown = list(known), []
    for one in unknown:
        near = nearest(one.partition("=")[0], names)
        shown.append(f"{one} (did you mean {near}?)" if near else one)
    return f"The following keyword arguments are not valid: {', '.join(shown)}"
