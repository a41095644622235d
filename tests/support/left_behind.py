"""`python -m tests.support.left_behind`: what functions leave behind in a process, as `ProcessState` sees it.

Each function of CASES runs in a forked process of its own, which took its state before. Prints JSON: the name of each
function -> the difference that was found.
"""

from __future__ import annotations

import atexit
import builtins
import ctypes
import functools
import gc
import json
import locale
import logging
import os
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from saltlite.minion.jobs.process_state import ProcessState
from saltlite.platform.process import adopt_orphans
from saltlite.plugins.modules import _programs

CASES: dict[str, Callable[[], Any]] = {}
HARMLESS: dict[str, Callable[[], Any]] = {}
GRAINS: dict[str, Any] = {"os": "Debian", "ips": ["::1"]}
KEPT: list[Any] = []


def case(function: Callable[[], Any]) -> Callable[[], Any]:
    """A function that leaves something behind."""
    CASES[function.__name__] = function
    return function


def harmless(function: Callable[[], Any]) -> Callable[[], Any]:
    """A function that leaves nothing behind."""
    HARMLESS[function.__name__] = function
    return function


@functools.cache
def cached(value: int) -> int:
    return value


_programs.a_cache = cached  # type: ignore[attr-defined]
_programs.a_list = [1]  # type: ignore[attr-defined]
_programs.a_table = {"a": 1}  # type: ignore[attr-defined]


@case
def working_directory() -> None:
    os.chdir("/tmp")


@case
def umask() -> None:
    os.umask(0o007)


@case
def environment_set() -> None:
    os.environ["LEFT"] = "1"


@case
def environment_removed() -> None:
    del os.environ["PATH"]


@case
def environment_of_the_c_library() -> None:
    os.putenv("LEFT", "1")


@case
def open_file() -> None:
    KEPT.append(open("/etc/passwd"))  # noqa: SIM115 - it is left open


@case
def another_stdout() -> None:
    os.dup2(os.open("/dev/null", os.O_WRONLY), 1)


@case
def same_descriptor_other_file() -> None:
    fd = os.open("/etc/passwd", os.O_RDONLY)
    os.dup2(fd, 0)
    os.close(fd)


@case
def inheritable_descriptor() -> None:
    os.set_inheritable(3, not os.get_inheritable(3))


@case
def thread() -> None:
    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()


@case
def child() -> None:
    KEPT.append(subprocess.Popen(["sleep", "1"]))


@case
def zombie() -> None:
    if os.fork() == 0:
        os._exit(0)


@case
def orphan() -> None:
    subprocess.run(["sh", "-c", "sleep 1 & "], check=True)


@case
def signal_handler() -> None:
    signal.signal(signal.SIGUSR1, lambda *_: None)


@case
def other_python_handler() -> None:
    signal.signal(signal.SIGUSR2, print)


@case
def ignored_signal() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


@case
def blocked_signal() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])


@case
def timer() -> None:
    signal.setitimer(signal.ITIMER_VIRTUAL, 1000)


@case
def limit() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (100, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))


@case
def capability_or_privilege() -> None:
    ctypes.CDLL(None).prctl(38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS


@case
def session() -> None:
    os.setsid()


@case
def name() -> None:
    Path("/proc/self/comm").write_text("other")


@case
def nice() -> None:
    os.nice(1)


@case
def out_of_memory_score() -> None:
    Path("/proc/self/oom_score_adj").write_text("500")


@case
def a_locale() -> None:
    locale.setlocale(locale.LC_ALL, "C.UTF-8" if locale.setlocale(locale.LC_ALL) == "C" else "C")


@case
def time_zone() -> None:
    os.environ["TZ"] = "Asia/Tokyo"
    time.tzset()
    del os.environ["TZ"]


@case
def import_of_another_file() -> None:
    folder = tempfile.mkdtemp()
    Path(folder, "left_module.py").write_text("")
    sys.path.insert(0, folder)
    import left_module  # type: ignore[import-not-found]  # noqa: F401

    sys.path.remove(folder)


@case
def import_replaced() -> None:
    sys.modules["json"] = sys.modules["os"]


@case
def import_removed() -> None:
    del sys.modules["json"]


@case
def search_path() -> None:
    sys.path.append("/tmp")


@case
def builtin() -> None:
    builtins.left = 1  # type: ignore[attr-defined]


@case
def trace() -> None:
    sys.settrace(lambda *_: None)


@case
def recursion() -> None:
    sys.setrecursionlimit(5000)


@case
def stream() -> None:
    sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - it is left open


@case
def hook() -> None:
    sys.excepthook = lambda *_: None


@case
def warning_filter() -> None:
    warnings.simplefilter("ignore")


@case
def log_handler() -> None:
    logging.getLogger().addHandler(logging.NullHandler())


@case
def log_level() -> None:
    logging.getLogger().setLevel(5)


@case
def exit_function() -> None:
    atexit.register(print)


@case
def collector() -> None:
    gc.disable()


@case
def socket_timeout() -> None:
    socket.setdefaulttimeout(3)


@case
def memory() -> None:
    KEPT.append(bytearray(os.urandom(1)) * 200_000_000)


@case
def module_name_bound() -> None:
    _programs.left = 1  # type: ignore[attr-defined]


@case
def module_name_rebound() -> None:
    _programs.a_list = [1]  # type: ignore[attr-defined]


@case
def module_list() -> None:
    _programs.a_list.append(2)  # type: ignore[attr-defined]


@case
def module_list_and_an_import() -> None:
    import colorsys  # noqa: F401 - what is imported during the job

    _programs.a_list.append(2)  # type: ignore[attr-defined]


@case
def module_table_value() -> None:
    _programs.a_table["a"] = 2  # type: ignore[attr-defined]


@case
def module_table_key() -> None:
    table = _programs.a_table  # type: ignore[attr-defined]
    table["b"] = table.pop("a")


@case
def module_cache() -> None:
    cached(5)


@case
def grain_set() -> None:
    GRAINS["os"] = "other"


@case
def grain_appended() -> None:
    GRAINS["ips"].append("127.0.0.1")


@harmless
def nothing() -> None:
    pass


@harmless
def a_program() -> None:
    subprocess.run(["true"], check=True)


@harmless
def a_file() -> None:
    with tempfile.TemporaryFile() as file:
        file.write(b"x")


@harmless
def an_import_of_the_library() -> None:
    import wave  # noqa: F401


@harmless
def memory_returned() -> None:
    bytearray(os.urandom(1)) * 200_000_000


def left_by(function: Callable[[], Any]) -> str:
    """What a process differs in after the call, and again after a second look."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(reader)
            adopt_orphans()
            state = ProcessState({"grains": GRAINS})
            assert state.difference() == ""
            function()
            os.write(writer, state.difference().encode())
        finally:
            os._exit(0)
    os.close(writer)
    with open(reader, "rb") as stream:
        found = stream.read().decode()
    os.waitpid(pid, 0)
    return found


def main() -> None:
    """Print the document."""
    os.open("/dev/null", os.O_RDONLY)  # descriptor 3
    print(json.dumps({name: left_by(function) for name, function in {**CASES, **HARMLESS}.items()}, indent=1))


if __name__ == "__main__":
    main()
