"""Keys, a certificate, and signed jobs of one fleet that exists for the tests only."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from saltlite.master.protocol.handshakes import Handshakes
from saltlite.master.protocol.session_manager import SessionManager
from saltlite.master.protocol.sharing import sharing
from saltlite.minion.jobs.rpc_server import AnswerCheck
from saltlite.minion.protocol.connection import MinionIdentity
from saltlite.model.ids import Jid, MinionId
from saltlite.model.keys import Fingerprint, JoinToken, fingerprint, fingerprint_bytes
from saltlite.platform.daemon import ManualClock
from saltlite.wire import job_body, merkle
from saltlite.wire.certificates import CertificateContent, MasterCertificate, issue
from saltlite.wire.messages import Message, functions_message
from saltlite.wire.noise import public_of
from saltlite.wire.signatures import prove
from saltlite.wire.signatures import signed as signed_by

DAY = 86_400
NOW = 1_800_000_000.0
"""Where the wall clock stands: after the build date that certificates are judged by."""
FUNCTIONS = functions_message(["test.ping()", "test.sleep(length:float)"], whole=True)


def seed(name: str) -> bytes:
    """A private key that follows from a name."""
    return name.encode().ljust(32, b".")


def ed25519_public(private: bytes) -> bytes:
    """The public half of an Ed25519 seed."""
    return Ed25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()


FLEET_PRIVATE = seed("fleet")
FLEET_PUBLIC = ed25519_public(FLEET_PRIVATE)
FLEET = fingerprint_bytes(FLEET_PUBLIC)
MASTER_PRIVATE = seed("master")
JOB_PRIVATE = seed("jobs")
JOB_PUBLIC = ed25519_public(JOB_PRIVATE)
TOKEN = JoinToken(fingerprint(FLEET_PUBLIC), "tok00001", "a" * 32)
"""A join token that the master of the scripted fleets knows."""


def certificate(
    now: float, *, days: int = 30, static: bytes = MASTER_PRIVATE, fleet: bytes = FLEET_PRIVATE, name: str = "m1"
) -> MasterCertificate:
    """A certificate of the master of that name by the fleet with that private key, valid from an hour ago."""
    content = CertificateContent(
        static_public=public_of(static),
        job_public=JOB_PUBLIC,
        name=name,
        serial=1,
        epoch=1,
        not_before=int(now) - 3600,
        not_after=int(now) - 3600 + days * DAY,
    )
    return issue(fleet, content)


def make_manager(
    clock: ManualClock, *, per_address: float = 1000.0, cert: bytes | None = None, leased: bool = False
) -> SessionManager:
    """A manager of this fleet."""
    return SessionManager(
        Handshakes(
            fleet_public=FLEET_PUBLIC,
            certificate=certificate(clock.wall()).encode() if cert is None else cert,
            private=MASTER_PRIVATE,
            handshakes_per_address=per_address,
            clock=clock,
        ),
        clock,
        sharing(clock, certificate(clock.wall()).encode()) if leased else None,
    )


def good_token(name: str) -> bytes:
    """The proof of the minion of that name that it has TOKEN."""
    return prove(TOKEN, MinionId(name), public_of(seed(f"key of {name}")))


def identity(name: str, token: bytes = b"") -> MinionIdentity:
    """What the minion of that name says of itself."""
    return MinionIdentity(
        id=name,
        private=seed(f"key of {name}"),
        boot="b" * 32,
        incarnation="i" * 32,
        version="1.0",
        run=1,
        functions=FUNCTIONS["digest"],
        token=token,
    )


def answer_check(minion: str = "web1", alarm: Callable[[int], None] = lambda _refused: None) -> AnswerCheck:
    """What the job server of that minion believes of answers: those that this fleet's master signed."""
    return AnswerCheck(minion, lambda: [JOB_PUBLIC], os.urandom, alarm)


def signed_answer(question: Message, answer: Message, minion: str = "web1") -> Message:
    """That answer to that question as this fleet's master sends it."""
    return signed_by(JOB_PRIVATE, minion, question, answer)


def key_of(name: str) -> Fingerprint:
    """The fingerprint of that minion's key."""
    return fingerprint(public_of(seed(f"key of {name}")))


def signed(
    jid: str, minions: Iterable[str], fun: str = "test.ping", *, deliver_ms: int = 60_000, run_ms: int = 0
) -> tuple[bytes, bytes]:
    """A job body and its signature by this fleet's master."""
    body = job_body.encode_body(
        job_body.JobBody(
            jid=Jid(jid),
            calls=(job_body.FunctionCall(fun),),
            user="root",
            audience=merkle.root(list(minions)),
            run_ms=run_ms,
            deliver_ms=deliver_ms,
        )
    )
    return body, job_body.sign(JOB_PRIVATE, body)
