"""A master whose link process belongs to an attacker: started in the place of the daemon, it does what it is ordered.

    python tests/e2e/taken_over.py ORDERS /path/to/saltlite-master -c FOLDER

Everything else of the master is as it is. The code below runs inside the real link process, with its user, its keys and
its sessions; its orders are words in the file ORDERS. What it tried, and what became of it, it
says in the log, because it has no other place to write to. Any other program is started as if this were not there.
"""

from __future__ import annotations

import ctypes
import hashlib
import logging
import os
import runpy
import signal
import socket
import stat
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from saltlite.master.processes import link
from saltlite.master.protocol.effects import Decide
from saltlite.wire import signatures
from saltlite.wire.codec import encode_document
from saltlite.wire.framing import IpcMessage, pack, unpack

log = logging.getLogger("attack")

ORDERS = Path(sys.argv[1] if len(sys.argv) > 1 else "")
"""Where its orders are: a word of LIES, `replay`, `sign`, `steal`, `files FOLDER`, or nothing."""
LOOK_S = 0.02
EVIL = b"evil"
EVIL_PILLAR = encode_document({"role": "evil"})
EVIL_KEYS = (b"e" * 32, b"f" * 32)
PTRACE_ATTACH = 16
NO_SESSION = 2**40

Said = dict[str, Any]


def evil_bytes(question: Said, said: Said) -> Said:
    """Other bytes of a file, and nothing else."""
    return {**said, "data": EVIL} if question.get("operation") == "read" else said


def evil_file(question: Said, said: Said) -> Said:
    """Another file whose size and digest fit."""
    if question.get("operation") == "find":
        return {**said, "size": len(EVIL), "sha256": hashlib.sha256(EVIL).digest()}
    return evil_bytes(question, said)


def evil_mode(question: Said, said: Said) -> Said:
    """A file that is executed with the rights of its owner."""
    return {**said, "mode": 0o4755} if question.get("operation") == "find" else said


def no_file(question: Said, said: Said) -> Said:
    """A file that is there is not."""
    return {**said, "state": "absent"} if question.get("operation") == "find" else said


def no_names(question: Said, said: Said) -> Said:
    """There is nothing to sync, so what is there may go."""
    return {**said, "names": [], "more": False} if question.get("operation") == "files" else said


def evil_pillar(question: Said, said: Said) -> Said:
    """Another pillar, whole and with its digest."""
    if question["t"] != "doc_get":
        return said
    digest = hashlib.sha256(EVIL_PILLAR).digest()
    return {**said, "state": "ok", "size": len(EVIL_PILLAR), "sha256": digest, "data": EVIL_PILLAR}


LIES: dict[str, Callable[[Said, Said], Said]] = {
    one.__name__: one for one in (evil_bytes, evil_file, evil_mode, no_file, no_names, evil_pillar)
}


class TakenOver(link.LinkProcess):
    """The link process under orders."""

    def __init__(self, *args: Any, **more: Any) -> None:
        self._order = ""
        self._orders = 0
        self._first: dict[str, Said] = {}
        super().__init__(*args, **more)
        self._look_for_orders()

    def _look_for_orders(self) -> None:
        order = ORDERS.read_text()
        if order != self._order:
            self._order = order
            # With a number, or the log would only count the second of two lines that are the same.
            self._orders += 1
            log.warning("order %d: %s", self._orders, order or "be honest")
            if order.startswith("files "):
                attack_files(Path(order.removeprefix("files ")))
                log.warning("all was tried")
        self._reactor.call_later(LOOK_S, self._look_for_orders)

    def _for_minions(self, mworker: link.MWorkerChannel, message: IpcMessage) -> None:
        if message["t"] == "response":
            ask = mworker.requests.get((message["session"], message["message"]["n"]))
            if ask is not None:
                message = {**message, "message": self._altered(dict(ask.message), message["message"], ask.id)}
        super()._for_minions(mworker, message)

    def _altered(self, question: Said, said: Said, minion: str) -> Said:
        about = repr([(name, question[name]) for name in sorted(question) if name not in ("n", "nonce")])
        first = self._first.setdefault(about, said)
        if self._order == "replay":
            return {**first, "n": said["n"]}
        if self._order == "sign":
            changed = evil_pillar(question, evil_file(question, said))
            private = self._manager._handshakes._private.private_bytes_raw()
            return dict(signatures.signed(private, minion, question, changed))
        return LIES[self._order](question, said) if self._order in LIES else said

    def _to_mworker(self, items: list[Any]) -> None:
        stolen: list[Any] = []
        if self._order == "steal":
            for item in items:
                if isinstance(item, Decide) and item.hello["token"]:
                    # Its own key under the id of the minion, and the minion's proof for an id of its own.
                    stolen.append(Decide(NO_SESSION, EVIL_KEYS[0], item.address, item.hello))
                    thief = {**item.hello, "id": "thief"}
                    stolen.append(Decide(NO_SESSION + 1, EVIL_KEYS[1], item.address, thief))
        super()._to_mworker([*stolen, *items])


def attack_files(fleet: Path) -> None:
    """Everything that a process of this user could try with what lies below the folder of a fleet."""
    root = fleet / "master" / "root"
    sock_dir = next(path.parent for path in root.rglob("master.ipc"))
    siblings = [pid for pid in map(int, children(os.getppid())) if pid != os.getpid()]
    tries: dict[str, Callable[[], object]] = {
        "read a key": lambda: read_any(root / "etc/saltlite/pki/master"),
        "open the store": lambda: (root / "var/lib/saltlite/master/store.sqlite").open("r+b"),
        "look into data_dir": lambda: os.listdir(root / "var/lib/saltlite/master"),
        "look into cachedir": lambda: os.listdir(root / "var/cache/saltlite/master"),
        "put a file into cachedir": lambda: (root / "var/cache/saltlite/master/x").write_text("x"),
        "cut the log": lambda: os.truncate(root / "var/log/saltlite/master", 0),
        "read the log": (root / "var/log/saltlite/master").read_bytes,
        "hold a file": held_files,
        "put a socket in the place of its own": lambda: os.rename(sock_dir / "link.ipc", sock_dir / "x"),
        "put a file beside the sockets": lambda: (sock_dir / "x").write_text("x"),
        "pose as an MWorker": lambda: connected(sock_dir / "link.ipc"),
        "ask for keys at the client socket": lambda: ask(sock_dir / "master.ipc", "key_list"),
        "publish a job": lambda: ask(sock_dir / "master.ipc", "publish", target="*", fun="test.ping"),
        "write anywhere else": lambda: written(Path("/tmp") / f"saltlite-attack-{os.getpid()}"),
        "be root": lambda: os.setuid(0),
        "be the user of the MWorkers": lambda: os.setuid(os.stat(sock_dir).st_uid),
        "write to a file of the fleet": lambda: writable(fleet),
    }
    for pid in siblings:
        tries |= {
            f"kill {pid}": partial(os.kill, pid, signal.SIGKILL),
            f"read the memory of {pid}": partial(os.open, f"/proc/{pid}/mem", os.O_RDWR),
            f"trace {pid}": partial(trace, pid),
        }
    for name, work in tries.items():
        try:
            got = work()
        except OSError as error:
            log.warning("tried to %s: refused (%s)", name, error.strerror)
        else:
            log.warning("tried to %s: %s", name, f"SUCCEEDED: {got!r}" if got else "found nothing")


def children(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


def read_any(folder: Path) -> object:
    """The first key that can be read; the folder itself must not be listed."""
    for name in ("fleet.key", "job.key", "master.key", "master.cert"):
        (folder / name).read_bytes()
    return os.listdir(folder)


def held_files() -> list[str]:
    """Files and terminals that this process still has open, for writing or reading."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            kind = os.fstat(int(name))
        except OSError:
            continue
        if stat.S_ISREG(kind.st_mode) or stat.S_ISDIR(kind.st_mode) or os.isatty(int(name)):
            found.append(os.readlink(f"/proc/self/fd/{name}"))
    return [one for one in found if not one.startswith(("/proc/", "/dev/urandom"))]


def writable(fleet: Path) -> list[str]:
    """All below that folder that this user could write to, sockets but for the open one of clients included."""
    found = []
    for above, folders, files in os.walk(fleet):
        found += [path for name in [*folders, *files] if os.access(path := os.path.join(above, name), os.W_OK)]
    return [path for path in found if not os.path.islink(path) and not path.endswith("/master.ipc")]


def written(path: Path) -> object:
    """The kernel lets no byte of this process go to a file."""
    try:
        with path.open("w") as file:
            file.write("x")
    finally:
        path.unlink(missing_ok=True)
    return path


def connected(path: Path) -> object:
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(str(path))
    return path


def ask(path: Path, verb: str, **fields: Any) -> object:
    """What the master answers, unless it refuses."""
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(60.0)
        sock.connect(str(path))
        data = pack({"v": 1, "verb": verb, **fields})
        sock.sendall(len(data).to_bytes(4, "big") + data)
        answer = unpack(sock.recv(1 << 16)[4:])
    if answer["ok"]:
        return answer
    raise PermissionError(1, answer["error"])


def trace(pid: int) -> object:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.ptrace(PTRACE_ATTACH, pid, None, None) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return pid


def main() -> None:
    program = sys.argv[2]
    if not program.endswith("saltlite-master"):
        os.execv(program, sys.argv[2:])  # noqa: S606 - the arguments are those of the test
    link.LinkProcess = TakenOver  # type: ignore[misc]  # what the daemon imports a moment later
    sys.argv = sys.argv[2:]
    runpy.run_path(program, run_name="__main__")


if __name__ == "__main__":
    main()
