"""What the job server and the network process say to each other: one small map a message, over a socket pair.

The job server does not believe the network process: what can make it run something is signed by a master, and
checked where it is run. The network process may die at any time and is started again.

    network -> job server    ready, trust, phase; and what the master said, as it came: job, cancel, return_ack, grant,
                             fetch, response
    job server -> network    state, result, body, status, functions, ask
"""

from __future__ import annotations

from collections.abc import Sequence

from saltlite.minion.protocol.effects import SpoolEntry
from saltlite.wire.framing import IpcMessage
from saltlite.wire.limits import RETURN_MAX
from saltlite.wire.messages import Message

MESSAGE_MAX = RETURN_MAX + 1024 * 1024
FORGED = "forged"
"""The state of an answer that stands for one which no master signed. It is in no table: nobody can send it."""
BUFFER_MAX = 64 * 1024 * 1024
"""Bytes that may wait between the two; results beyond it wait in the spool."""


# -- from the network process


def ready(session: int) -> IpcMessage:
    """The connection is READY: offer what the master has not acknowledged.

    `session` counts the sessions of this network process from 1. What the job server says carries it back as `session`,
    so that a result which was on its way to one master never reaches the next: that one would have it forgotten (G6).
    """
    return {"t": "ready", "session": session}


def trust(certificate: bytes, chain: bytes) -> IpcMessage:
    """A master proved itself with this certificate, and these successions; the job server verifies both again."""
    return {"t": "trust", "cert": certificate, "chain": chain}


def phase(name: str, reason: str) -> IpcMessage:
    """Where the connection is, for `systemctl status`."""
    return {"t": "phase", "phase": name, "reason": reason}


# -- from the job server


def state(jid: str, name: str, reason: str) -> IpcMessage:
    """How far a job has come."""
    return {"t": "state", "jid": jid, "state": name, "reason": reason}


def result(jid: str, entry: SpoolEntry, *, inline_max: int) -> IpcMessage:
    """A result; its body travels along when it is small, and is fetched otherwise."""
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
    """What heartbeats report."""
    return {"t": "status", "running": list(running), "spooled": spooled}


def functions(message: Message) -> IpcMessage:
    """The modules changed: `message` is what the master is told from now on."""
    return {"t": "functions", "message": dict(message)}


def ask(message: Message) -> IpcMessage:
    """A process of a job asks the master for a file, or sends a piece of one."""
    return {"t": "ask", "message": dict(message)}
