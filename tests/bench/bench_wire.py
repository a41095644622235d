"""What the wire costs, as one JSON object on stdout: `python tests/bench/bench_wire.py`.

Run by hand; pytest does not collect it. Figures are microseconds of one core, the best of five rounds.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import timeit
from collections.abc import Callable
from importlib.metadata import version

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from saltlite.model.ids import Jid
from saltlite.wire import codec, frames, merkle
from saltlite.wire.frames import SecureSession
from saltlite.wire.job_body import FunctionCall, JobBody, decode_body, encode_body, sign, verify
from saltlite.wire.limits import CHUNK
from saltlite.wire.noise import Handshake, Role, private_key

ROUNDS = 5
FLEET = hashlib.sha256(b"fleet").digest()[:25]
PROLOGUE = frames.prologue(FLEET)
MINION, MASTER, JOB_SEED = os.urandom(32), os.urandom(32), os.urandom(32)
JOB_PUBLIC = Ed25519PrivateKey.from_private_bytes(JOB_SEED).public_key().public_bytes_raw()


def cost_us(call: Callable[[], object], number: int) -> float:
    """Microseconds of one call."""
    return round(min(timeit.repeat(call, number=number, repeat=ROUNDS)) / number * 1e6, 2)


def shake() -> tuple[Handshake, Handshake]:
    """One whole handshake, both sides, with payloads of the usual size."""
    minion = Handshake(Role.INITIATOR, private_key(MINION), PROLOGUE, os.urandom(32))
    master = Handshake(Role.RESPONDER, private_key(MASTER), PROLOGUE, os.urandom(32))
    master.read(minion.write(b""))
    minion.read(master.write(b"c" * 270))
    master.read(minion.write(b"i" * 150))
    return minion, master


def seal_and_open(size: int, number: int) -> tuple[float, float]:
    """Microseconds to seal and to open a plaintext of `size` bytes."""
    minion, master = map(SecureSession, shake())
    plaintext = os.urandom(size)
    sealing = cost_us(lambda: minion.seal(plaintext), number)
    ready = iter([minion.seal(plaintext) for _ in range(number * ROUNDS)])
    return sealing, cost_us(lambda: master.open(next(ready)), number)


def main() -> None:
    """Print the figures."""
    job = {"t": "return_ack", "jids": ["20260131235959123456"] * 3, "n": 5}
    small, large = codec.encode(job), codec.encode({"t": "return_chunk", "jid": "2" * 20, "data": os.urandom(CHUNK)})
    rows = codec.encode([{"name": f"package-{n}", "version": "1.2.3-4"} for n in range(20_000)], codec.RETURN)
    ids = [f"web{n}.example.com" for n in range(10_000)]
    body = encode_body(
        JobBody(
            jid=Jid("20260131235959123456"),
            calls=(FunctionCall("test.ping"),),
            user="root",
            audience=merkle.root(ids[:10]),
            run_ms=0,
            deliver_ms=60_000,
        )
    )
    signature = sign(JOB_SEED, body)
    hello = frames.parse(frames.hello(bytes(32), FLEET))
    assert isinstance(hello, frames.HelloFrame)
    data = next(map(SecureSession, shake())).seal(b"x" * 200)
    seal_200, open_200 = seal_and_open(200, 5000)
    seal_chunk, open_chunk = seal_and_open(CHUNK, 200)
    figures = {
        "handshake_both_sides_us": cost_us(shake, 200),
        "hello_check_us": cost_us(lambda: frames.hello_is_for(hello, FLEET), 5000),
        "parse_data_us": cost_us(lambda: frames.parse(data), 20_000),
        "seal_200_us": seal_200,
        "open_200_us": open_200,
        "seal_64KiB_us": seal_chunk,
        "open_64KiB_us": open_chunk,
        f"encode_{len(small)}_us": cost_us(lambda: codec.encode(job), 10_000),
        f"decode_{len(small)}_us": cost_us(lambda: codec.decode(small), 10_000),
        "decode_64KiB_chunk_us": cost_us(lambda: codec.decode(large), 1000),
        f"decode_return_20000_maps_{len(rows)}_us": cost_us(lambda: codec.decode(rows, codec.RETURN), 3),
        "body_decode_us": cost_us(lambda: decode_body(body), 5000),
        "job_sign_us": cost_us(lambda: sign(JOB_SEED, body), 500),
        "job_verify_us": cost_us(lambda: verify(JOB_PUBLIC, body, signature), 500),
        "merkle_root_10000_us": cost_us(lambda: merkle.root(ids), 2),
        "merkle_proofs_10000_us": cost_us(lambda: merkle.proofs(ids), 2),
    }
    machine = {
        "cpus": os.cpu_count(),
        "machine": platform.machine(),
        "python": platform.python_version(),
        "system": platform.system(),
        "cryptography": version("cryptography"),
        "msgpack": version("msgpack"),
    }
    print(json.dumps({"figures": figures, "machine": machine}, indent=2))


if __name__ == "__main__":
    main()
