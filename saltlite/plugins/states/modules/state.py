"""Apply and show states with Salt's own compiler, where Salt is installed beside the minion.

Before each run the minion syncs all environments of the master's ``file_roots`` to ``<cachedir>/files``, and Salt works
on this copy with the minion's pillar and grains. Returns, return codes and arguments are Salt's: 1 when the states
cannot be compiled, 2 when a state failed. The option ``salt_python`` names another Python that has Salt, and
``state_options`` sets Salt's options of states.

One run at a time changes the minion: another one is refused, waits with ``queue=True`` (``queue=3``: unless three wait
already), or runs at once with ``concurrent=True``.

Each state is an event ``minion/<id>/salt/job/<jid>/prog/<id>/<number>`` with ``ret`` and ``len``, the number of all.
States that end faster than a minion may send events share one, whose ``earlier`` has the others.

:maintainer:    The saltlite authors
:maturity:      new
:depends:       Salt
:platform:      Linux
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import IO, TYPE_CHECKING, Any

from saltlite.errors import CommandExecutionError, SaltInvocationError, SaltliteError

if TYPE_CHECKING:
    from saltlite.loader.hints import (
        __context__,
        __events__,
        __file_client__,
        __grains__,
        __opts__,
        __pillar__,
        __salt__,
    )

__func_alias__ = {"apply_": "apply"}
__outputter__ = {
    "apply": "highstate", "highstate": "highstate", "sls": "highstate", "sls_id": "highstate", "single": "highstate",
    "top": "highstate", "template_str": "highstate", "low": "highstate", "high": "highstate", "test": "highstate",
}  # fmt: skip

_ENGINE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "engine.py")
_OF_THE_MINION = ("event", "mine", "publish")
"""Modules that Salt's files find here, because Salt's own ask a master of Salt."""


def apply_(mods: str | list[str] | None = None, **kwargs: Any) -> Any:
    """Apply the states of the SLS files ``mods``, or without them those of the top file (``state.highstate``).

    Further arguments are Salt's: ``test``, ``pillar``, ``exclude``, ``saltenv``, ``queue``, ``concurrent`` ...

    CLI Example::

        saltlite '*' state.apply
        saltlite '*' state.apply webserver test=True
        saltlite web1 state.apply webserver,users pillar='{"port": 8080}'
    """
    return _run("apply", () if mods is None else (mods,), kwargs)


def highstate(**kwargs: Any) -> Any:
    """Apply the states that the top file assigns to this minion.

    CLI Example::

        saltlite '*' state.highstate
        saltlite '*' state.highstate test=True exclude=users
    """
    return _run("highstate", (), kwargs)


def sls(mods: str | list[str], **kwargs: Any) -> Any:
    """Apply the states of SLS files, named with commas or as a list.

    CLI Example: ``saltlite '*' state.sls webserver,users test=True``
    """
    return _run("sls", (mods,), kwargs)


def sls_id(id_: str, mods: str | list[str], **kwargs: Any) -> Any:
    """Apply the state with one ID of these SLS files, and what it requires.

    CLI Example: ``saltlite '*' state.sls_id /etc/motd motd``
    """
    return _run("sls_id", (id_, mods), kwargs)


def single(fun: str, name: str, **kwargs: Any) -> Any:
    """Apply one state function without an SLS file.

    CLI Example: ``saltlite '*' state.single file.touch name=/etc/marker makedirs=True``
    """
    return _run("single", (fun, name), kwargs)


def top(topfn: str, **kwargs: Any) -> Any:
    """Apply the states that another top file assigns to this minion.

    CLI Example: ``saltlite '*' state.top reverse_top.sls``
    """
    return _run("top", (topfn,), kwargs)


def template_str(tem: str, **kwargs: Any) -> Any:
    """Apply the states of an SLS text.

    CLI Example: ``saltlite '*' state.template_str '{"/etc/marker": {"file": ["touch"]}}'``
    """
    return _run("template_str", (tem,), kwargs)


def low(data: dict[str, Any], **kwargs: Any) -> Any:
    """Apply one state that is written as low data.

    CLI Example: ``saltlite '*' state.low '{"state": "file", "fun": "touch", "name": "/etc/marker"}'``
    """
    return _run("low", (data,), kwargs)


def high(data: dict[str, Any], **kwargs: Any) -> Any:
    """Apply states that are written as high data.

    CLI Example: ``saltlite '*' state.high '{"/etc/marker": {"file": ["touch"]}}'``
    """
    return _run("high", (data,), kwargs)


def show_highstate(**kwargs: Any) -> Any:
    """Return the high data of the states that the top file assigns to this minion.

    CLI Example: ``saltlite '*' state.show_highstate``
    """
    return _run("show_highstate", (), kwargs)


def show_lowstate(**kwargs: Any) -> Any:
    """Return the same as low data, in the order in which the states run.

    CLI Example: ``saltlite '*' state.show_lowstate``
    """
    return _run("show_lowstate", (), kwargs)


def show_sls(mods: str | list[str], **kwargs: Any) -> Any:
    """Return the high data of SLS files.

    CLI Example: ``saltlite '*' state.show_sls webserver``
    """
    return _run("show_sls", (mods,), kwargs)


def show_low_sls(mods: str | list[str], **kwargs: Any) -> Any:
    """Return the low data of SLS files.

    CLI Example: ``saltlite '*' state.show_low_sls webserver``
    """
    return _run("show_low_sls", (mods,), kwargs)


def show_top(**kwargs: Any) -> Any:
    """Return what the top file assigns to this minion, by environment.

    CLI Example: ``saltlite '*' state.show_top``
    """
    return _run("show_top", (), kwargs)


def show_states(**kwargs: Any) -> Any:
    """Return the names of the SLS files that the top file assigns to this minion, included ones too.

    CLI Example: ``saltlite '*' state.show_states``
    """
    return _run("show_states", (), kwargs)


def sls_exists(mods: str | list[str], **kwargs: Any) -> Any:
    """Return whether the SLS files exist and can be compiled.

    CLI Example: ``saltlite '*' state.sls_exists webserver``
    """
    return _run("sls_exists", (mods,), kwargs)


def id_exists(ids: str | list[str], mods: str | list[str], **kwargs: Any) -> Any:
    """Return whether the SLS files have states of these IDs.

    CLI Example: ``saltlite '*' state.id_exists /etc/motd motd``
    """
    return _run("id_exists", (ids, mods), kwargs)


def test(*args: Any, **kwargs: Any) -> Any:
    """Return what ``state.apply`` would change.

    CLI Example: ``saltlite '*' state.test webserver``
    """
    return _run("apply", args, {**kwargs, "test": True})


def running(concurrent: bool = False) -> list[str]:  # noqa: FBT001, FBT002, RUF100 - Salt's signature
    """Return a sentence about the state run that is going on, if there is one and ``concurrent`` is not set.

    CLI Example: ``saltlite '*' state.running``
    """
    if concurrent:
        return []
    with _opened(_turn_path()) as file:
        return [] if _is_taken(file) else _told(file)


# --- One run at a time ---


@contextlib.contextmanager
def _turn(fun: str, jid: str, queue: Any, *, concurrent: bool) -> Iterator[list[str]]:
    """The turn to run; its value is why not, or empty."""
    if not isinstance(queue, int):
        raise SaltInvocationError(f"queue is True, False or the number of runs that may wait, not {queue!r}.")
    if concurrent:
        yield []
        return
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(_opened(_turn_path()))
        taken = _is_taken(file)
        if not taken and queue and _may_wait(stack, queue):
            fcntl.flock(file, fcntl.LOCK_EX)
            taken = True
        if not taken:
            yield _told(file)
            return
        file.truncate(0)
        file.write(f"{fun} {os.getpid()} {jid}")
        file.flush()
        yield []


def _turn_path() -> str:
    return os.path.join(_cachedir(), "states.lock")


def _opened(path: str) -> IO[str]:
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    return open(path, "a+", encoding="utf-8")


def _is_taken(file: IO[str]) -> bool:
    """Whether the lock was free; it is held until the file is closed."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _may_wait(stack: contextlib.ExitStack, queue: int) -> bool:
    """Take one of the `queue` places of those that wait; True has no limit."""
    return queue is True or any(
        _is_taken(stack.enter_context(_opened(f"{_turn_path()}.{number}"))) for number in range(queue)
    )


def _told(file: IO[str]) -> list[str]:
    file.seek(0)
    fun, pid, jid = [*file.read().split(), "state.apply", "", ""][:3]
    started = ""
    with contextlib.suppress(ValueError):
        started = f" and was started at {datetime.strptime(jid, '%Y%m%d%H%M%S%f'):%Y, %b %d %H:%M:%S.%f}"  # noqa: DTZ007 - as Salt writes it, in UTC
    return [f'The function "{fun}" is running as PID {pid}{started} with jid {jid}']


# --- Salt's compiler ---


def _run(fun: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    given = {name: value for name, value in kwargs.items() if name not in ("queue", "concurrent")}
    jid = str(kwargs.get("__pub_jid") or "")
    options = dict(__opts__.get("state_options") or {})
    queue = kwargs.get("queue")
    if queue is None:
        queue = options.get("state_queue", False)
    with _turn(f"state.{fun}", jid, queue, concurrent=bool(kwargs.get("concurrent"))) as conflict:
        if conflict:
            __context__["retcode"] = 1
            return conflict
        progress = _Progress()
        value, retcode = _compiled({"fun": f"state.{fun}", "args": args, "kwargs": given}, options, progress)
        progress.flush()
    __context__["retcode"] = retcode
    return value


def _compiled(order: Mapping[str, Any], options: Mapping[str, Any], progress: _Progress) -> tuple[Any, int]:
    """Let the engine run; its value and return code. Raises the error that Salt raised."""
    ours = [name for name in __salt__ if name.partition(".")[0] in _OF_THE_MINION]
    message = {**order, "options": {**options, **_places()}, "functions": ours}
    python = str(__opts__.get("salt_python") or "") or sys.executable
    try:
        engine = subprocess.Popen([python, _ENGINE], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    except OSError as error:
        raise CommandExecutionError(f"{python} (option salt_python) cannot be started: {error.strerror}") from error
    with engine, contextlib.suppress(BrokenPipeError):
        assert engine.stdin is not None  # noqa: S101 - both are pipes
        assert engine.stdout is not None  # noqa: S101 - as above
        _send(engine.stdin, message)
        while (answer := _received(engine.stdout)) is not None:
            match answer:
                case ["call", str(name), list(args), dict(kwargs)]:
                    _send(engine.stdin, _answer(name, args, kwargs, progress))
                case ["return", value, int(retcode)]:
                    return value, retcode
                case ["error", "SaltInvocationError" | "TypeError", str(text)]:
                    raise SaltInvocationError(text)
                case ["error", "ModuleNotFoundError", str(text)]:
                    raise CommandExecutionError(f"{python} has no Salt ({text}): set the option salt_python")
                case ["error", _, str(text)]:
                    raise CommandExecutionError(text)
    raise CommandExecutionError(f"Salt's state compiler ended with the status {engine.wait()}: see the minion's log")


def _places() -> dict[str, Any]:
    """The options that Salt reads, apart from those of states."""
    folder = os.path.join(_cachedir(), "salt")
    os.makedirs(folder, mode=0o700, exist_ok=True)
    config_dir = os.path.dirname(str(__opts__.get("conf_file") or "")) or folder
    return {
        "id": __grains__.get("id") or __opts__.get("id"),
        # Salt has no such grain, and asks grains before the pillar: the data of a formula for time zones is there.
        "grains": {name: value for name, value in __grains__.items() if name != "timezone"},
        "pillar": dict(__pillar__),
        "file_roots": {env: [__file_client__.mirror(env)] for env in __file_client__.envs()},
        "cachedir": folder,
        "extension_modules": os.path.join(folder, "extmods"),
        "sock_dir": folder,
        "pki_dir": folder,
        "config_dir": config_dir,
        "conf_file": os.path.join(config_dir, "minion"),
    }


def _cachedir() -> str:
    cachedir = str(__opts__.get("cachedir") or "")
    if not cachedir:
        raise CommandExecutionError("States need a folder for files of the master: set cachedir.")
    return cachedir


_LENGTH = struct.Struct(">I")


def _send(stream: IO[bytes], message: Any) -> None:
    import msgpack  # type: ignore[import-untyped]  # it has no types

    data = msgpack.packb(message, default=str)
    stream.write(_LENGTH.pack(len(data)) + data)
    stream.flush()


def _received(stream: IO[bytes]) -> Any:
    """The next message of the engine, None at its end."""
    import msgpack

    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    return msgpack.unpackb(stream.read(_LENGTH.unpack(head)[0]), strict_map_key=False)


def _answer(name: str, args: list[Any], kwargs: dict[str, Any], progress: _Progress) -> tuple[bool, Any]:
    """Call a function of this minion for Salt's files: (whether it returned, its value or the text of its error)."""
    if name == "event.fire_master" and len(args) == 2 and "/prog/" in str(args[1]):
        progress.ended(*args)
        return True, True
    try:
        function: Callable[..., Any] = __salt__[name]
        if name.startswith("event."):
            kwargs.pop("preload", None)  # the master says whose event it is
        return True, function(*args, **kwargs)
    except (SaltliteError, KeyError, TypeError, ValueError) as error:
        return False, str(error)


# --- Progress ---

_BURST = 40
_EACH_S = 0.125
"""Below what the master takes of one minion: 50 events at once, then ten per second."""
_DATA_MAX = 24 * 1024
"""Bytes of the returns in one event, of the 32 KiB that it may have."""
_SEND_S = 5.0
"""Seconds to wait for the master's acknowledgement of an event."""
_PAUSE_S = 60.0
"""Seconds without events after one that was not acknowledged, so that without a master not every state waits."""


class _Progress:
    """Sends an event for each state that ended, several in one where they end faster than a minion may send."""

    def __init__(self) -> None:
        self._tokens = float(_BURST)
        self._at = time.monotonic()
        self._waiting: list[tuple[str, dict[str, Any]]] = []
        self._paused_until = self._at

    def ended(self, data: dict[str, Any], tag: str) -> None:
        """A state ended: `data` and `tag` are those of Salt's event."""
        self._waiting.append((tag, data))
        now = time.monotonic()
        self._tokens = min(_BURST, self._tokens + (now - self._at) / _EACH_S)
        self._at = now
        if self._tokens >= 1:
            self._tokens -= 1
            self.flush()

    def flush(self) -> None:
        """Send what waits."""
        while self._waiting and time.monotonic() >= self._paused_until:
            size, count = 0, 0
            for _tag, data in self._waiting:
                data["ret"] = _shortened(data["ret"])
                size += len(str(data["ret"]))
                if count and size > _DATA_MAX:
                    break
                count += 1
            *earlier, (tag, data) = self._waiting[:count]
            del self._waiting[:count]
            if earlier:
                data = {**data, "earlier": [one["ret"] for _tag, one in earlier]}
            # Events tell how far a run is; its return says the same, so the run goes on without them.
            try:
                __events__.send(tag, data, _SEND_S)
            except CommandExecutionError:
                self._paused_until = time.monotonic() + _PAUSE_S
            except (SaltliteError, AttributeError):
                pass


def _shortened(ret: Mapping[str, Any]) -> dict[str, Any]:
    """The return of a state without what is too large for an event."""
    if len(str(ret)) <= _DATA_MAX:
        return dict(ret)
    short = {name: value for name, value in ret.items() if len(str(value)) <= 1024}
    return {**short, "shortened": sorted(set(ret) - set(short))}
