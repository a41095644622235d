"""Names the work of an MWorker's turn: text for the log, and a digest that recognises the same work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from saltlite.auth.acl import Principal
from saltlite.errors import SaltliteError
from saltlite.master.handlers.operator_verbs import VERBS
from saltlite.master.handlers.results import Reported
from saltlite.model.ids import MinionId
from saltlite.platform.shared_memory import REFUSED_S, EndedTurn, TurnBoard, TurnLabel
from saltlite.wire.framing import IpcMessage, pack
from saltlite.wire.messages import Message

VALUE_BYTES = 1024
"""Bytes of a value that the digest covers, because digesting whole pieces of files, 256 KiB, would be slow."""
_OF_ONE_SESSION = frozenset({"n", "nonce"})
_ASKED_AGAIN = frozenset({"decide", "pull", "suspect"})
"""Messages that the link process sends again, to another MWorker, because the minion repeats its request."""


def turn_of_request(board: TurnBoard, principal: Principal, request: object) -> TurnLabel:
    """A client's request. The same request of the same user is the same work, whatever its login token."""
    if not isinstance(request, dict):
        return TurnLabel(f"a request of {principal}")
    asked = request.get("verb")
    verb = asked if isinstance(asked, str) and asked in VERBS else "of an unknown verb"
    fields = pack({name: value for name, value in request.items() if name != "token"})
    return TurnLabel(
        f"the request {verb} of {principal}", board.digest(b"request", str(principal.uid).encode(), fields)
    )


def turn_of_question(board: TurnBoard, minion: MinionId, message: Message) -> TurnLabel:
    """A minion's request. For a file it is the same work whichever minion asks."""
    about = "file" if message["t"] == "file_request" else minion
    subject = f"{message['t']} of {minion}"
    named = message.get("path") or message.get("kind") or message.get("tag") or message.get("what") or ""
    return TurnLabel(f"{subject}: {named}", board.digest(b"question", about.encode(), _fields(message)))


def turn_of_link(board: TurnBoard, message: IpcMessage) -> TurnLabel:
    """Any other message of the link process."""
    kind, minion = message["t"], message.get("id", "")
    text = f"the message {kind} of the link" + (f" about {minion}" if minion else "")
    if kind not in _ASKED_AGAIN:
        return TurnLabel(text)
    return TurnLabel(text, board.digest(b"link", kind.encode(), message.get("public", b""), str(minion).encode()))


def turn_of_report(board: TurnBoard, report: Reported) -> TurnLabel:
    """A report: identified by its job if it has one, else by its content."""
    message = report.message
    jid = message.get("jid", "")
    which = jid.encode() if jid else _fields(message)
    text = f"the report {message['t']} of {report.id}" + (f" for job {jid}" if jid else "")
    digest = board.digest(b"report", report.id.encode(), message["t"].encode(), which)
    return TurnLabel(text, digest, is_reports=True)


def turn_of_batch(reported: Sequence[Reported]) -> TurnLabel:
    """Reports that are stored together."""
    return TurnLabel(f"{len(reported)} reports, the first of {reported[0].id}", is_reports=True)


def refuse_ended(board: TurnBoard, turn: TurnLabel) -> None:
    """Raises SaltliteError if this work has blocked an MWorker before."""
    ended = board.ended(turn.digest)
    if ended is not None:
        raise SaltliteError(refusal(ended))


def refusal(ended: EndedTurn) -> str:
    """The error message for work that is not repeated."""
    return (
        f"this request held an MWorker for {ended.held_s:.0f} s and was ended; the same one is not run again for "
        f"{REFUSED_S / 60:g} minutes: the master's log names what held it"
    )


def _fields(message: Mapping[str, Any]) -> bytes:
    named = sorted((name, value) for name, value in message.items() if name not in _OF_ONE_SESSION)
    return pack({name: value[:VALUE_BYTES] if isinstance(value, bytes) else value for name, value in named})
