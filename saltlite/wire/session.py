"""Sessions: sealed DATA frames both ways after a finished handshake."""

from __future__ import annotations

import hashlib
import struct

from cryptography.exceptions import InvalidTag

from saltlite.errors import LocalProtocolError, RemoteProtocolError
from saltlite.wire.frames import DATA_HEADER_BYTES, DATA_MIN, data_prefix
from saltlite.wire.limits import FRAME_MAX, SESSION_MAX_FRAMES
from saltlite.wire.noise import Handshake, nonce_of

PLAINTEXT_MAX = FRAME_MAX - DATA_MIN
"""Bytes that one DATA frame can carry."""

_PREFIX_BYTES = DATA_HEADER_BYTES - 8
_COUNTER = struct.Struct(">Q")


class Session:
    """One side of one session; it takes the keys out of a finished handshake.

    `id` is the number in every DATA frame, the same on both sides; `peer` is the static public key (32 bytes)
    that the other side has proved. It belongs to one thread: two seals at once would use a counter twice.
    """

    __slots__ = ("_decrypt", "_encrypt", "_prefix", "_seen", "_sent", "id", "missed", "peer")

    def __init__(self, handshake: Handshake) -> None:
        sending, receiving = handshake.split()
        self._encrypt = sending.aead.encrypt
        self._decrypt = receiving.aead.decrypt
        self.id = int.from_bytes(hashlib.sha256(b"session" + handshake.hash).digest()[:8], "big")
        self.peer = handshake.remote_static
        self._prefix = data_prefix(self.id)
        self._sent = 0
        self._seen = -1
        self.missed = 0
        """Frames of the peer that were left out: it had no room for them, or somebody on the way took them."""

    @property
    def exhausted(self) -> bool:
        """One direction has used up SESSION_MAX_FRAMES: only a new handshake helps."""
        return self._sent >= SESSION_MAX_FRAMES or self._seen >= SESSION_MAX_FRAMES - 1

    def seal(self, plaintext: bytes) -> bytes:
        """The whole DATA frame for `plaintext` (at most PLAINTEXT_MAX bytes).

        Raises LocalProtocolError when it is longer, or when the session is exhausted.
        """
        counter = self._sent
        if counter >= SESSION_MAX_FRAMES:
            raise LocalProtocolError(f"this session has sent its {SESSION_MAX_FRAMES} frames; make a new handshake")
        if len(plaintext) > PLAINTEXT_MAX:
            raise LocalProtocolError(f"a frame carries {PLAINTEXT_MAX} bytes, not {len(plaintext)}; cut it")
        # Counted before it is used: whatever happens next, this nonce is spent.
        self._sent = counter + 1
        header = self._prefix + _COUNTER.pack(counter)
        return header + self._encrypt(nonce_of(counter), plaintext, header)

    def open(self, frame: bytes) -> bytes:
        """The plaintext of a whole DATA frame of the peer.

        Counters must rise. Gaps are counted in `missed`: a side that seals again what its link had no room for
        makes them itself, so whether they are allowed is for the owner to say.
        Raises RemoteProtocolError with the reason `truncated`, `oversize`, `wrong-session`, `replay`,
        `exhausted` or `bad-mac`; a refused frame leaves the session exactly as it was.
        """
        if len(frame) < DATA_MIN:
            raise RemoteProtocolError("truncated", f"DATA has {len(frame)} bytes of at least {DATA_MIN}")
        if len(frame) > FRAME_MAX:
            raise RemoteProtocolError("oversize", f"DATA has {len(frame)} bytes of at most {FRAME_MAX}")
        if frame[:_PREFIX_BYTES] != self._prefix:
            raise RemoteProtocolError("wrong-session", "the frame belongs to another session")
        (counter,) = _COUNTER.unpack_from(frame, _PREFIX_BYTES)
        if counter <= self._seen:
            raise RemoteProtocolError("replay", f"frame {counter} came after frame {self._seen}")
        if counter >= SESSION_MAX_FRAMES:
            raise RemoteProtocolError("exhausted", "the peer counts past the end of the session")
        header, sealed = frame[:DATA_HEADER_BYTES], frame[DATA_HEADER_BYTES:]
        try:
            plaintext = self._decrypt(nonce_of(counter), sealed, header)
        except InvalidTag:
            raise RemoteProtocolError("bad-mac", f"the tag of frame {counter} does not match") from None
        self.missed += counter - self._seen - 1
        self._seen = counter
        return plaintext
