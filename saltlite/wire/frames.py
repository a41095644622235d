"""Outer frames, and the sessions that seal DATA frames after a finished handshake.

A frame is `u8 version | u8 type | body`, all integers big endian:

    1 HELLO   minion to master   noise message 1 (32) | mac1 (16)
    2 REPLY   master to minion   noise message 2
    3 AUTH    minion to master   noise message 3
    4 DATA    both ways          u64 session | u64 counter | ciphertext and tag
    5 BUSY    master to minion   u32 retry_ms, before AUTH only
    6 QUERY   minion to master   nothing: asks for the fleet's public key, for a first contact
    7 FLEET   master to minion   the fleet's Ed25519 public key (32)

BUSY and FLEET are not authenticated: they may only delay a minion or give it a key to show to an operator. mac1 does
not authenticate either, because anyone who knows the fleet can compute it; it lets a master drop a scanner for the
price of two hashes.
"""

from __future__ import annotations

import functools
import struct
from enum import IntEnum
from typing import NamedTuple

from saltlite.errors import LocalProtocolError, RemoteProtocolError
from saltlite.model.dataclass import dataclass
from saltlite.model.keys import FINGERPRINT_BYTES
from saltlite.model.sha256 import compare_digest, hmac_sha256, sha256
from saltlite.wire.limits import FLEET_CHAIN_RECORDS, FRAME_MAX, FRAME_MAX_BEFORE_AUTH, REPLY_MAX, SESSION_MAX_FRAMES
from saltlite.wire.noise import KEY_BYTES, TAG_BYTES, Handshake, nonce_of
from saltlite.wire.primitives import InvalidTag

VERSION = 2
MAC1_BYTES = 16
DATA_HEADER_BYTES = 18
DATA_MIN = DATA_HEADER_BYTES + TAG_BYTES


class FrameType(IntEnum):
    """The second byte of every frame."""

    HELLO = 1
    REPLY = 2
    AUTH = 3
    DATA = 4
    BUSY = 5
    QUERY = 6
    FLEET = 7


# Whole frames, in bytes: (shortest, longest).
_BOUNDS: dict[FrameType, tuple[int, int]] = {
    FrameType.HELLO: (2 + KEY_BYTES + MAC1_BYTES, 2 + KEY_BYTES + MAC1_BYTES),
    FrameType.REPLY: (2 + KEY_BYTES + KEY_BYTES + 2 * TAG_BYTES, REPLY_MAX),
    FrameType.AUTH: (2 + KEY_BYTES + 2 * TAG_BYTES, FRAME_MAX_BEFORE_AUTH),
    FrameType.DATA: (DATA_MIN, FRAME_MAX),
    FrameType.BUSY: (2 + 4, 2 + 4),
    FrameType.QUERY: (2, 2),
    FrameType.FLEET: (2 + KEY_BYTES, 2 + KEY_BYTES),
}

_TYPES = {int(kind): kind for kind in FrameType}
_U32 = struct.Struct(">I")
_DATA_PREFIX = struct.Struct(">BBQ")
_DATA_NUMBERS = struct.Struct(">QQ")
_DATA_START = bytes((VERSION, FrameType.DATA))


@dataclass(frozen=True, slots=True)
class HelloFrame:
    """The first message of a handshake, after its filter."""

    message: bytes
    mac1: bytes


@dataclass(frozen=True, slots=True)
class ReplyFrame:
    """The second message of a handshake."""

    message: bytes


@dataclass(frozen=True, slots=True)
class AuthFrame:
    """The third message of a handshake."""

    message: bytes


class DataFrame(NamedTuple):
    """A sealed frame. `raw` is the whole frame, for Session.open."""

    session: int
    counter: int
    raw: bytes


@dataclass(frozen=True, slots=True)
class BusyFrame:
    """The master asks for another attempt in `retry_ms` milliseconds."""

    retry_ms: int


@dataclass(frozen=True, slots=True)
class QueryFrame:
    """A minion without a pinned fleet asks which one this is."""


@dataclass(frozen=True, slots=True)
class FleetFrame:
    """The fleet's Ed25519 public key, 32 bytes, not authenticated."""

    public: bytes


Frame = HelloFrame | ReplyFrame | AuthFrame | DataFrame | BusyFrame | QueryFrame | FleetFrame


def prologue(fleet: bytes) -> bytes:
    """The prologue that both sides mix into the handshake; `fleet` is the 25-byte fingerprint of the fleet key.

    Peers of different fleets or versions cannot finish a handshake.
    """
    return b"saltlite/2" + _checked_fleet(fleet)


def hello(message: bytes, fleet: bytes) -> bytes:
    """The HELLO frame for Noise message 1 to the fleet with this 25-byte fingerprint."""
    return _frame(FrameType.HELLO, message + _mac1(message, fleet))


def hello_is_for(received: HelloFrame, fleet: bytes) -> bool:
    """Whether the sender knows the fleet with this 25-byte fingerprint. Constant time."""
    return compare_digest(received.mac1, _mac1(received.message, fleet))


def reply(message: bytes) -> bytes:
    """The REPLY frame for Noise message 2."""
    return _frame(FrameType.REPLY, message)


def auth(message: bytes) -> bytes:
    """The AUTH frame for Noise message 3."""
    return _frame(FrameType.AUTH, message)


def busy(retry_ms: int) -> bytes:
    """The BUSY frame: try again in `retry_ms` milliseconds (0 to 2**32 - 1)."""
    if not 0 <= retry_ms < 2**32:
        raise LocalProtocolError(f"BUSY carries 0 to 2**32 - 1 milliseconds, not {retry_ms}")
    return _frame(FrameType.BUSY, _U32.pack(retry_ms))


def query() -> bytes:
    """The QUERY frame."""
    return _frame(FrameType.QUERY, b"")


def fleet(public: bytes) -> bytes:
    """The FLEET frame: the answer to QUERY."""
    return _frame(FrameType.FLEET, public)


def data_prefix(session: int) -> bytes:
    """The first ten bytes of every DATA frame of a session: version, type, session id."""
    return _DATA_PREFIX.pack(VERSION, FrameType.DATA, session)


def parse(frame: bytes) -> Frame:
    """The frame in these bytes, checked for version, type and length; its content is not verified yet.

    Raises RemoteProtocolError with the reason `version`, `unknown-frame`, `truncated` or `oversize`.
    """
    # DATA first: a master reads little else.
    if frame[:2] == _DATA_START and DATA_MIN <= len(frame) <= FRAME_MAX:
        session, counter = _DATA_NUMBERS.unpack_from(frame, 2)
        return DataFrame(session, counter, frame)
    kind = _kind_of(frame)
    body = frame[2:]
    match kind:
        case FrameType.HELLO:
            return HelloFrame(body[:KEY_BYTES], body[KEY_BYTES:])
        case FrameType.REPLY:
            return ReplyFrame(body)
        case FrameType.AUTH:
            return AuthFrame(body)
        case FrameType.BUSY:
            return BusyFrame(_U32.unpack(body)[0])
        case FrameType.FLEET:
            return FleetFrame(body)
    return QueryFrame()


def _kind_of(frame: bytes) -> FrameType:
    """The type of a frame with a valid length."""
    if len(frame) < 2:
        raise RemoteProtocolError("truncated", "a frame has at least two bytes")
    if frame[0] != VERSION:
        raise RemoteProtocolError("version", f"the peer speaks version {frame[0]}, this side {VERSION}")
    kind = _TYPES.get(frame[1])
    if kind is None:
        raise RemoteProtocolError("unknown-frame", f"there is no frame type {frame[1]}")
    shortest, longest = _BOUNDS[kind]
    if len(frame) < shortest:
        raise RemoteProtocolError("truncated", f"{kind.name} has {len(frame)} bytes of at least {shortest}")
    if len(frame) > longest:
        raise RemoteProtocolError("oversize", f"{kind.name} has {len(frame)} bytes of at most {longest}")
    return kind


def _frame(kind: FrameType, body: bytes) -> bytes:
    frame = bytes((VERSION, kind)) + body
    shortest, longest = _BOUNDS[kind]
    if not shortest <= len(frame) <= longest:
        raise LocalProtocolError(f"{kind.name} has {shortest} to {longest} bytes, not {len(frame)}")
    return frame


def _mac1(message: bytes, fleet: bytes) -> bytes:
    return hmac_sha256(_mac1_key(fleet), message)[:MAC1_BYTES]


@functools.lru_cache(maxsize=FLEET_CHAIN_RECORDS + 1)
def _mac1_key(fleet: bytes) -> bytes:
    """Cached: a master with former fleet keys tries one for each of them on every HELLO."""
    return sha256(b"mac1" + _checked_fleet(fleet))


def _checked_fleet(fleet: bytes) -> bytes:
    if len(fleet) != FINGERPRINT_BYTES:
        raise LocalProtocolError(f"a fleet fingerprint has {FINGERPRINT_BYTES} bytes, not {len(fleet)}")
    return fleet


# -- Sessions


PLAINTEXT_MAX = FRAME_MAX - DATA_MIN
"""Bytes that one DATA frame can carry."""

_PREFIX_BYTES = DATA_HEADER_BYTES - 8
_COUNTER = struct.Struct(">Q")


class SecureSession:
    """One side of one session, with the keys of a finished handshake.

    `id` is the number in every DATA frame, the same on both sides; `peer` is the authenticated static public key (32
    bytes) of the other side. It belongs to one thread: two seals at once would use a counter twice.
    """

    __slots__ = ("_decrypt", "_encrypt", "_prefix", "_seen", "_sent", "id", "missed", "peer")

    def __init__(self, handshake: Handshake) -> None:
        sending, receiving = handshake.split()
        self._encrypt = sending.aead.encrypt
        self._decrypt = receiving.aead.decrypt
        self.id = int.from_bytes(sha256(b"session" + handshake.hash)[:8], "big")
        self.peer = handshake.remote_static
        self._prefix = data_prefix(self.id)
        self._sent = 0
        self._seen = -1
        self.missed = 0
        """Skipped frames of the peer: it had no room for them, or an attacker removed them."""

    def seal(self, plaintext: bytes) -> bytes:
        """The whole DATA frame for `plaintext` (at most PLAINTEXT_MAX bytes).

        Raises LocalProtocolError when it is longer, or when the session is exhausted.
        """
        counter = self._sent
        if counter >= SESSION_MAX_FRAMES:
            raise LocalProtocolError(f"this session has sent its {SESSION_MAX_FRAMES} frames; make a new handshake")
        if len(plaintext) > PLAINTEXT_MAX:
            raise LocalProtocolError(f"a frame carries {PLAINTEXT_MAX} bytes, not {len(plaintext)}; cut it")
        # Counted before it is used: this nonce is spent whatever happens next.
        self._sent = counter + 1
        header = self._prefix + _COUNTER.pack(counter)
        return header + self._encrypt(nonce_of(counter), plaintext, header)

    def open(self, frame: bytes) -> bytes:
        """The plaintext of a DATA frame of the peer.

        Counters must rise. Gaps are counted in `missed`: a side that seals again after its link was full causes them
        itself, so the owner decides whether they are allowed. Raises RemoteProtocolError with the reason `truncated`,
        `oversize`, `wrong-session`, `replay`, `exhausted` or `bad-mac`; a refused frame leaves the session unchanged.
        """
        size = len(frame)
        if size < DATA_MIN:
            raise RemoteProtocolError("truncated", f"DATA has {size} bytes of at least {DATA_MIN}")
        if size > FRAME_MAX:
            raise RemoteProtocolError("oversize", f"DATA has {size} bytes of at most {FRAME_MAX}")
        if not frame.startswith(self._prefix):
            raise RemoteProtocolError("wrong-session", "the frame belongs to another session")
        (counter,) = _COUNTER.unpack_from(frame, _PREFIX_BYTES)
        seen = self._seen
        if counter <= seen:
            raise RemoteProtocolError("replay", f"frame {counter} came after frame {seen}")
        if counter >= SESSION_MAX_FRAMES:
            raise RemoteProtocolError("exhausted", "the peer counts past the end of the session")
        try:
            plaintext = self._decrypt(nonce_of(counter), frame[DATA_HEADER_BYTES:], frame[:DATA_HEADER_BYTES])
        except InvalidTag:
            raise RemoteProtocolError("bad-mac", f"the tag of frame {counter} does not match") from None
        self.missed += counter - seen - 1
        self._seen = counter
        return plaintext
