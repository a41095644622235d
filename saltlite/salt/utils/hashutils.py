"""`salt.utils.hashutils`: digests, signatures and base64."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import secrets
from typing import Any

from saltlite.salt.utils.decorators.jinja import jinja_filter
from saltlite.salt.utils.files import fopen
from saltlite.salt.utils.stringutils import to_bytes


@jinja_filter("base64_encode")
def base64_b64encode(instr: Any) -> str:
    """A text or bytes in base64, on one line."""
    return base64.b64encode(to_bytes(instr)).decode()


@jinja_filter("base64_decode")
def base64_b64decode(instr: Any) -> Any:
    """What base64 means, as text or, if it is none, as bytes."""
    return _text(base64.b64decode(to_bytes(instr)))


def base64_encodestring(instr: Any) -> str:
    """A text or bytes in base64, in lines of 76 characters."""
    return base64.encodebytes(to_bytes(instr)).decode()


def base64_decodestring(instr: Any) -> Any:
    """As `base64_b64decode`, for lines."""
    return _text(base64.decodebytes(to_bytes(instr)))


def _text(data: bytes) -> Any:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data


@jinja_filter("md5")
def md5_digest(instr: Any) -> str:
    return hashlib.md5(to_bytes(instr)).hexdigest()  # noqa: S324 - what the caller asks for


@jinja_filter("sha1")
def sha1_digest(instr: Any) -> str:
    return hashlib.sha1(to_bytes(instr)).hexdigest()  # noqa: S324 - as above


@jinja_filter("sha256")
def sha256_digest(instr: Any) -> str:
    return hashlib.sha256(to_bytes(instr)).hexdigest()


@jinja_filter("sha512")
def sha512_digest(instr: Any) -> str:
    return hashlib.sha512(to_bytes(instr)).hexdigest()


@jinja_filter("hmac")
def hmac_signature(string: Any, shared_secret: Any, challenge_hmac: Any) -> bool:
    """Whether `challenge_hmac` is the HMAC-SHA256 of the text, in base64."""
    digest = hmac.new(to_bytes(shared_secret), to_bytes(string), hashlib.sha256).digest()
    return hmac.compare_digest(base64.b64encode(digest), to_bytes(challenge_hmac))


@jinja_filter("hmac_compute")
def hmac_compute(string: Any, shared_secret: Any) -> str:
    """The HMAC-SHA256 of the text, in hexadecimal digits."""
    return hmac.new(to_bytes(shared_secret), to_bytes(string), hashlib.sha256).hexdigest()


@jinja_filter("rand_str")
@jinja_filter("random_hash")
def random_hash(size: int = 9999999999, hash_type: str | None = None) -> str:
    """The digest of a random number up to `size`, by default of MD5."""
    return hashlib.new(hash_type or "md5", str(secrets.randbelow(size + 1)).encode()).hexdigest()


@jinja_filter("file_hashsum")
def get_hash(path: str, form: str = "sha256", chunk_size: int = 65536) -> str:
    """The digest of a file. Raises ValueError for an unknown one, and OSError."""
    digest = _digest(form)
    with fopen(path, "rb") as file:
        while block := file.read(chunk_size):
            digest.update(block)
    found: str = digest.hexdigest()
    return found


def _digest(form: str) -> Any:
    if form not in hashlib.algorithms_available:
        raise ValueError(f"Invalid hash type: {form}")
    return hashlib.new(form)


class DigestCollector:
    """The digest of several files and data. Raises ValueError for an unknown one."""

    def __init__(self, form: str = "sha256", buff: int = 65536) -> None:
        self._digest = _digest(form)
        self._block_size = buff

    def add(self, path: str) -> None:
        with fopen(path, "rb") as file:
            while block := file.read(self._block_size):
                self._digest.update(block)

    def add_data(self, data: Any) -> None:
        self._digest.update(to_bytes(data))

    def digest(self) -> str:
        """The digest, with the end of a line."""
        return f"{self._digest.hexdigest()}{os.linesep}"
