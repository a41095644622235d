"""What the job server and the network process say to each other: one small map a message, over a socket pair.

The job server does not believe the network process: what can make it run something is signed by a master, and
checked where it is run. The network process may die at any time and is started again.

    network -> job server    ready, trust, phase; and what the master said, as it came: job, cancel, return_ack, grant,
                             fetch, response, directory
    job server -> network    start, once and first; state, result, body, status, functions, ask
"""

from __future__ import annotations

from collections.abc import Sequence

from saltlite.minion.protocol.effects import SpoolEntry
from saltlite.wire.directory import Directory
from saltlite.wire.framing import IpcMessage
from saltlite.wire.limits import RETURN_MAX
from saltlite.wire.messages import Message

MESSAGE_MAX = RETURN_MAX + 1024 * 1024
FORGED = "forged"
"""The state of an answer without a valid signature. It is not in the protocol, so no peer can send it."""
BUFFER_MAX = 64 * 1024 * 1024
"""Bytes that may be queued between the two; further results wait in the spool."""


# -- from the network process


def ready(session: int) -> IpcMessage:
    """The connection is READY: offer results without an acknowledgement.

    `session` numbers the sessions of this network process from 1. Messages of the job server carry it, so that a result
    for one master never reaches the next one, which would have it deleted (G6).
    """
    return {"t": "ready", "session": session}


def trust(certificate: bytes, chain: bytes) -> IpcMessage:
    """A master authenticated with this certificate and these successions; the job server verifies both again."""
    return {"t": "trust", "cert": certificate, "chain": chain}


def phase(name: str, reason: str, master: str) -> IpcMessage:
    """The phase of the connection, for `systemctl status`; `master` is the `host:port` of the master."""
    return {"t": "phase", "phase": name, "reason": reason, "master": master}


# -- from the job server


def start(
    minion: str,
    *,
    boot: str,
    incarnation: str,
    run: int,
    proof: bytes,
    fleet: tuple[bytes | None, Directory],
    functions: Message,
) -> IpcMessage:
    """Who this minion is, and what it has (`MinionIdentity`, without the key); `fleet` is the pinned fingerprint, with
    the directory of masters that was kept."""
    pinned, masters = fleet
    return {
        "t": "start",
        "id": minion,
        "boot": boot,
        "incarnation": incarnation,
        "run": run,
        "proof": proof,
        "fleet": pinned,
        "masters": masters.rows(),
        "functions": dict(functions),
    }


def state(jid: str, name: str, reason: str) -> IpcMessage:
    """The state of a job."""
    return {"t": "state", "jid": jid, "state": name, "reason": reason}


def result(jid: str, entry: SpoolEntry, *, inline_max: int) -> IpcMessage:
    """A result; a small body is included, a large one is requested later."""
    size = len(entry.body)
    return {
        "t": "result",
        "jid": jid,
        "state": str(entry.state),
        "code": entry.code,
        "body": entry.body if size <= inline_max else b"",
        "size": size,
        "start_ms": entry.start_ms,
        "dur_ms": entry.dur_ms,
        "reason": entry.reason,
    }


def body(jid: str, content: bytes) -> IpcMessage:
    """The body of a large result."""
    return {"t": "body", "jid": jid, "body": content}


def status(running: Sequence[str], spooled: int) -> IpcMessage:
    """The content of heartbeats."""
    return {"t": "status", "running": list(running), "spooled": spooled}


def functions(message: Message) -> IpcMessage:
    """Changed functions; `message` is sent to masters from now on."""
    return {"t": "functions", "message": dict(message)}


def ask(message: Message) -> IpcMessage:
    """A request of a process for the master."""
    return {"t": "ask", "message": dict(message)}
