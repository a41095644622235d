"""The state of a job process, compared after each job to decide whether the process may run another one.

`ProcessState` is recorded when the modules of the first job are loaded and none of their functions has run. After each
job `difference()` returns the name of the first change, or "". A process that changed, or whose state cannot be read,
ends with its job.

The state of the kernel comes from /proc/self and system calls, that of Python from the interpreter. Globals of shipped
modules that plug-ins can import, configuration, grains and pillar are compared by identity, and containers by the
identity of their items. Changes deeper than that, and inside modules of the standard library, are not found. For this
reason only functions that ship with saltlite share a process.
"""

from __future__ import annotations

import atexit
import builtins
import ctypes
import functools
import gc
import locale
import logging
import operator
import os
import signal
import socket
import stat
import sys
import threading
import time
import warnings
from _signal import getsignal  # type: ignore[import-not-found]  # that of `signal` makes two enums of each answer
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from types import ModuleType
from typing import Any

MEMORY_GROWTH_KIB = 8 * 1024
"""KiB of anonymous memory by which a process may grow."""
JOBS_MAX = 1000
"""Jobs of one process. It bounds the growth of everything that is not compared."""

_MEMORY = "its memory"
_VOLATILE = (
    b"State:", b"VmPeak:", b"VmSize:", b"VmHWM:", b"VmRSS:", b"RssAnon:", b"RssFile:", b"RssShmem:", b"VmData:",
    b"VmStk:", b"VmExe:", b"VmLib:", b"VmPTE:", b"VmSwap:", b"FDSize:", b"SigQ:", b"voluntary_ctxt_switches:",
    b"nonvoluntary_ctxt_switches:", b"HugetlbPages:", b"Cpus_allowed", b"Mems_allowed", b"PPid:", b"Name:",
)  # fmt: skip
"""Lines of /proc/self/status that change without a cause in the job, or that are compared elsewhere."""
_NAMESPACES = ("cgroup", "ipc", "mnt", "net", "pid_for_children", "user", "uts")
_SIGNALS = tuple(sorted(signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}))
_TIMERS = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)
_OUT_OF_REACH = tuple(
    f"saltlite.{package}." for package in ("minion", "loader", "platform", "wire", "config", "files", "pillar")
)
"""The daemon's own modules, which no plug-in that ships can import: see the contract `plugins` in pyproject.toml. They
have three of four values, and looking at one takes it into the cache of the CPU."""
_SHIPPED_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep
_LIBRARY_ROOTS = tuple(
    {os.path.dirname(os.__file__) + os.sep, sys.base_prefix + os.sep + "lib" + os.sep}
)  # site-packages are below these folders, and are recognised by name
_ENVIRON = ctypes.POINTER(ctypes.c_char_p).in_dll(ctypes.CDLL(None), "environ")
_CACHE = type(functools.cache(id))
_CONTAINERS = (dict, list, set, bytearray)


class ProcessState:
    """The state of this process at one moment. Raises OSError or ValueError when /proc cannot be read.

    `shared` maps names to the mappings that jobs receive and must not change: configuration, grains, pillar.
    """

    def __init__(self, shared: Mapping[str, Mapping[str, Any]]) -> None:
        self._jobs = 0
        # The first read allocates what later reads use.
        _kernel()
        self._modules: dict[str, ModuleType] = {}
        self._record = _Record([])
        self._held = {"builtins": _Held(vars(builtins)), **{name: _Held(items) for name, items in shared.items()}}
        self.learn()
        self._environ = _environment()
        self._python = _python()
        self._kernel = _kernel()
        self._memory_kib = self._kernel.pop(_MEMORY)

    def learn(self) -> None:
        """Record new imports as unchanged. To be called before a job, when its modules are loaded."""
        if not _are_same(sys.modules.values(), self._modules.values()):
            for name in sys.modules.keys() - self._modules.keys():
                if _is_shipped(sys.modules[name]) and not name.startswith(_OUT_OF_REACH):
                    self._held[name] = _Held(vars(sys.modules[name]))
            self._modules = dict(sys.modules)
            self._record = _Record(self._held.values())
        self._import_hooks = [*sys.meta_path], [*sys.path_hooks]  # the loader adds one with its first package

    def difference(self) -> str:
        """The first change since the state was recorded, as a noun phrase for the log; "" if there is none."""
        self._jobs += 1
        if self._jobs >= JOBS_MAX:
            return "the number of its jobs"
        try:
            return next(self._differences(), "")
        except Exception as error:  # noqa: BLE001 - supervision point: a state that cannot be read counts as changed
            return f"something that cannot be read ({type(error).__name__})"

    def _differences(self) -> Iterator[str]:
        if _environment() != self._environ:
            yield "the environment"
        yield from _unequal(self._python, _python())
        yield from self._changed_modules()
        if self._import_hooks != ([*sys.meta_path], [*sys.path_hooks]):
            yield "its import hooks"
        kernel = _kernel()
        if kernel.pop(_MEMORY) > self._memory_kib + MEMORY_GROWTH_KIB:
            yield _MEMORY
        yield from _unequal(self._kernel, kernel)

    def _changed_modules(self) -> Iterator[str]:
        if not _are_same(sys.modules.values(), self._modules.values()):
            for name, module in self._modules.items():
                if sys.modules.get(name) is not module:
                    yield f"the module {name}"
            for name in sys.modules.keys() - self._modules.keys():
                module = sys.modules[name]
                if not _is_shipped(module) and not _is_library(module):
                    yield f"an import of {name}"
                if _is_shipped(module) and _may_have_kept(module):
                    yield f"what {name} holds"
            self.learn()
        if self._record.differs():
            for name, held in self._held.items():
                if held.differs():
                    yield f"what {name} holds"
            # Only submodules are new.
            self._record = _Record(self._held.values())


def _unequal(before: dict[str, Any], now: dict[str, Any]) -> Iterator[str]:
    if before != now:
        yield next(name for name in before if before[name] != now[name])


def _kernel() -> dict[str, Any]:
    """The state in the kernel, by name."""
    status = _read("/proc/self/status")
    return {
        "ids, signals, threads, session or umask": _compared_lines()(status.splitlines()),
        "its working directory": _entry("."),
        "its root directory": _entry("/"),
        "its descriptors": _descriptors(),
        "its children": _read(f"/proc/self/task/{os.getpid()}/children"),  # with those that were adopted or have ended
        "its timers": [signal.getitimer(timer) for timer in _TIMERS],
        "its limits": _read("/proc/self/limits"),
        "its priority": (os.getpriority(os.PRIO_PROCESS, 0), os.sched_getscheduler(0), os.sched_getaffinity(0)),
        "its out-of-memory score": _read("/proc/self/oom_score_adj"),
        "its personality": _read("/proc/self/personality"),
        "its name": _read("/proc/self/comm"),
        "its namespaces": [os.readlink(f"/proc/self/ns/{name}") for name in _NAMESPACES],
        _MEMORY: int(status[status.index(b"RssAnon:") + 8 :].split(None, 1)[0]),
    }


@functools.cache
def _compared_lines() -> operator.itemgetter[Any]:
    """Takes the lines of /proc/self/status that are compared, by their places, which are the same in each process."""
    lines = _read("/proc/self/status").splitlines()
    return operator.itemgetter(*(place for place, line in enumerate(lines) if not line.startswith(_VOLATILE)))


def _environment() -> tuple[dict[bytes, bytes], list[bytes]]:
    """The environment in Python and in the C library. `os.putenv` changes only the second one."""
    python: dict[bytes, bytes] = vars(os.environ)["_data"].copy()  # comparing os.environ itself decodes every value
    return python, list(iter(functools.partial(next, iter(_ENVIRON), None), None))


def _entry(path: str) -> tuple[int, int]:
    found = os.stat(path)
    return found.st_dev, found.st_ino


def _read(path: str) -> bytes:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)  # `open` asks the kernel four times more
    try:
        return os.read(fd, 64 * 1024)
    finally:
        os.close(fd)


def _descriptors() -> dict[int, tuple[int, ...]]:
    """Open descriptors with device, inode, type and inheritance."""
    found: dict[int, tuple[int, ...]] = {}
    with os.scandir("/proc/self/fd") as entries:
        numbers = [int(entry.name) for entry in entries]
    for number in numbers:
        try:
            status = os.fstat(number)
        except OSError:
            continue  # the folder's own
        found[number] = status.st_dev, status.st_ino, stat.S_IFMT(status.st_mode), os.get_inheritable(number)
    return found


def _python() -> dict[str, Any]:
    """The state of the interpreter, by name."""
    root = logging.getLogger()
    return {
        "its signal handlers": list(map(getsignal, _SIGNALS)),
        "its threads": [thread.ident for thread in threading.enumerate()],
        "its locale": locale.setlocale(locale.LC_ALL, None),
        "its time zone": (time.tzname, time.timezone),
        "sys.path": [*sys.path],
        "sys.argv": [*sys.argv],
        "its trace function": (sys.gettrace(), sys.getprofile()),
        "its interpreter limits": (
            sys.getrecursionlimit(), sys.getswitchinterval(), sys.dont_write_bytecode, sys.get_int_max_str_digits(),
        ),
        "its streams or hooks": [
            id(getattr(sys, name))
            for name in ("stdin", "stdout", "stderr", "excepthook", "displayhook", "unraisablehook")
        ],
        "its collector": (gc.isenabled(), gc.get_threshold(), [*gc.callbacks]),
        "functions for its end": atexit._ncallbacks(),
        "its warnings": list(warnings.filters),
        "its socket timeout": socket.getdefaulttimeout(),
        "its logging": (root.level, list(root.handlers), logging.root.manager.disable),
    }  # fmt: skip


class _Held:
    """A record of the values in a mapping: identities, items of containers, sizes of function caches."""

    def __init__(self, space: Mapping[str, Any]) -> None:
        self.space = space
        # References, so that no new object gets the identity of a deleted one.
        self.values = list(space.values())
        contents = [value for name, value in space.items() if name != "__builtins__"]
        self.inner = [(value, _inside(value)) for value in contents if isinstance(value, _CONTAINERS)]
        self.caches = [(value, value.cache_info().currsize) for value in contents if isinstance(value, _CACHE)]

    def differs(self) -> bool:
        """Whether a name was rebound, or the items of a container or a cache changed. New submodules are recorded."""
        if not _are_same(self.space.values(), self.values):
            if not self._has_new_modules_only():
                return True
            self.values = list(self.space.values())
        return any(not _are_same(_inside(value), before) for value, before in self.inner) or any(
            value.cache_info().currsize != before for value, before in self.caches
        )

    def _has_new_modules_only(self) -> bool:
        """Whether the other values are the same: an import binds a submodule in its package."""
        now, before = (
            [value for value in values if type(value) is not ModuleType]
            for values in (self.space.values(), self.values)
        )
        return _are_same(now, before)


class _Record:
    """What many `_Held` have recorded, in a few long rows: to compare these after every job takes a third of the time,
    because nothing is called or made for each mapping and container. It tells that something differs, but not what."""

    def __init__(self, every: Collection[_Held]) -> None:
        dicts = [pair for held in every for pair in held.inner if isinstance(pair[0], dict)]
        others = [pair for held in every for pair in held.inner if not isinstance(pair[0], dict)]
        values = operator.methodcaller("values")
        self._rows = (
            _Row([(held.space, held.values) for held in every], values),
            _Row([(value, before[: len(before) // 2]) for value, before in dicts], iter),
            _Row([(value, before[len(before) // 2 :]) for value, before in dicts], values),
            _Row(others, iter),
        )
        self._caches = [pair for held in every for pair in held.caches]

    def differs(self) -> bool:
        """Whether a name was rebound or added, or the items of a container or a cache changed."""
        return any(row.differs() for row in self._rows) or any(
            value.cache_info().currsize != before for value, before in self._caches
        )


class _Row:
    """The recorded items of many containers, one after the other; `inside` gives those that one has now."""

    def __init__(
        self, recorded: Sequence[tuple[Collection[Any], list[Any]]], inside: Callable[[Any], Iterable[Any]]
    ) -> None:
        self._containers = [container for container, _before in recorded]
        self._inside = inside
        self._lengths = [len(before) for _container, before in recorded]
        self._items = [item for _container, before in recorded for item in before]

    def differs(self) -> bool:
        """Whether any has other items than before."""
        now = chain.from_iterable(map(self._inside, self._containers))
        return list(map(len, self._containers)) != self._lengths or not all(map(operator.is_, now, self._items))


def _are_same(now: Collection[Any], before: Collection[Any]) -> bool:
    return len(now) == len(before) and all(map(operator.is_, now, before))


def _may_have_kept(module: ModuleType) -> bool:
    """Whether a module that the job imported has filled a cache, or a container that is not a constant."""
    return any(
        value.cache_info().currsize > 0
        if isinstance(value, _CACHE)
        else isinstance(value, _CONTAINERS) and len(value) > 0 and name.strip("_") != name.strip("_").upper()
        for name, value in vars(module).items()
        if not name.startswith("__")
    )


def _inside(value: Any) -> list[Any]:
    """The items of a container; of a dict the keys, then the values."""
    return [*value, *value.values()] if isinstance(value, dict) else list(value)


def _is_shipped(module: ModuleType) -> bool:
    return (getattr(module, "__file__", None) or "").startswith(_SHIPPED_ROOT)


def _is_library(module: ModuleType) -> bool:
    """Whether it is one of Python's own modules, or one without a file that the interpreter brings."""
    path = getattr(module, "__file__", None)
    if path is None:
        return module.__name__ in sys.builtin_module_names
    return path.startswith(_LIBRARY_ROOTS) and "-packages" + os.sep not in path
