"""`salt.utils.crypt`: fingerprints of keys, and decryption by a renderer."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Collection, Mapping
from typing import Any

from saltlite.errors import SaltInvocationError
from saltlite.salt.utils.files import fopen
from saltlite.salt.utils.stringutils import to_bytes


def decrypt(
    data: Any,
    rend: str,
    translate_newlines: bool = False,
    renderers: Mapping[str, Callable[..., Any]] | None = None,
    opts: Mapping[str, Any] | None = None,
    valid_rend: Collection[str] | None = None,
) -> Any:
    """The data through the renderer `rend` of `renderers`. Raises SaltInvocationError for one that is not there."""
    if valid_rend and rend not in valid_rend:
        raise SaltInvocationError(
            f"'{rend}' is not a valid decryption renderer. Valid choices are: {', '.join(valid_rend)}"
        )
    render = (renderers or {}).get(rend)
    if render is None:
        raise SaltInvocationError(f"Decryption renderer '{rend}' is not available")
    return render(data, translate_newlines=translate_newlines)


def pem_finger(path: str | None = None, key: Any = None, sum_type: str = "sha256") -> str:
    """The fingerprint of a key, or of the file of one without its first and last line; "" without a file."""
    if not key:
        if path is None or not os.path.isfile(path):
            return ""
        with fopen(path, "rb") as file:
            lines = [line for line in file if line.strip()]
        key = b"".join(lines[1:-1]).replace(b"\r\n", b"\n")
    digest = hashlib.new(sum_type, to_bytes(key)).hexdigest()
    return ":".join(digest[place : place + 2] for place in range(0, len(digest), 2))
