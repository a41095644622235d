"""The names of an MWorker's turns, and what makes two of them the same work: what was ended is refused by that."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from saltlite.auth.acl import Principal
from saltlite.errors import SaltliteError
from saltlite.master.handlers.operator_verbs import VERBS
from saltlite.master.handlers.results import Reported
from saltlite.model.ids import MinionId
from saltlite.platform.turn_board import REFUSED_S, Ended, Turn, TurnBoard
from saltlite.wire.ipc import Inside, pack
from saltlite.wire.messages import Message

VALUE_BYTES = 1024
"""So much of a value of bytes counts: pieces of files have 256 KiB, and a digest of all would slow them down."""
_OF_ONE_SESSION = frozenset({"n", "nonce"})
_ASKED_AGAIN = frozenset({"decide", "pull", "suspect"})
"""Messages of the link process that it sends again to another MWorker, because a minion asks again."""


def turn_of_request(board: TurnBoard, principal: Principal, request: object) -> Turn:
    """A client's. The same user's same request, with the same request id, is the same work, whatever its login."""
    if not isinstance(request, dict):
        return Turn(f"a request of {principal}")
    asked = request.get("verb")
    verb = asked if isinstance(asked, str) and asked in VERBS else "of an unknown verb"
    fields = pack({name: value for name, value in request.items() if name != "token"})
    return Turn(f"the request {verb} of {principal}", board.digest(b"request", str(principal.uid).encode(), fields))


def turn_of_question(board: TurnBoard, minion: MinionId, message: Message) -> Turn:
    """A minion's, for a file or a document. Whoever asks for a file, it is the same work, for the file is the same."""
    about = "file" if message["t"] == "file_request" else minion
    said = f"{message['t']} of {minion}"
    named = message.get("path") or message.get("kind") or message.get("tag") or ""
    return Turn(f"{said}: {named}", board.digest(b"question", about.encode(), _fields(message)))


def turn_of_link(board: TurnBoard, message: Inside) -> Turn:
    """A message of the link process that is neither reports nor a question."""
    kind, minion = message["t"], message.get("id", "")
    text = f"the message {kind} of the link" + (f" about {minion}" if minion else "")
    if kind not in _ASKED_AGAIN:
        return Turn(text)
    return Turn(text, board.digest(b"link", kind.encode(), message.get("public", b""), str(minion).encode()))


def turn_of_report(board: TurnBoard, report: Reported) -> Turn:
    """One report: a job's is known by its job, any other by what it says."""
    message = report.message
    jid = message.get("jid", "")
    which = jid.encode() if jid else _fields(message)
    text = f"the report {message['t']} of {report.id}" + (f" for job {jid}" if jid else "")
    digest = board.digest(b"report", report.id.encode(), message["t"].encode(), which)
    return Turn(text, digest, is_reports=True)


def refuse_ended(board: TurnBoard, turn: Turn) -> None:
    """Raises SaltliteError for work that held an MWorker until it was ended."""
    ended = board.ended(turn.digest)
    if ended is not None:
        raise SaltliteError(refusal(ended))


def refusal(ended: Ended) -> str:
    """Why that work is not begun again."""
    return (
        f"this request held an MWorker for {ended.held_s:.0f} s and was ended; the same one is not run again for "
        f"{REFUSED_S / 60:g} minutes: the master's log names what held it"
    )


def _fields(message: Mapping[str, Any]) -> bytes:
    named = sorted((name, value) for name, value in message.items() if name not in _OF_ONE_SESSION)
    return pack({name: value[:VALUE_BYTES] if isinstance(value, bytes) else value for name, value in named})
