"""`salt.utils.pycrypto`: random passwords, and their hashes for /etc/shadow."""

from __future__ import annotations

import secrets
import string
from importlib import import_module
from typing import Any

from saltlite.errors import CommandExecutionError

HAS_RANDOM = True
HAS_CRYPT = True
known_methods = ["sha512", "sha256", "blowfish", "md5", "crypt"]
methods = {name: name for name in known_methods}


def secure_password(
    length: Any = 20,
    use_random: bool = True,
    chars: str | None = None,
    lowercase: bool = True,
    uppercase: bool = True,
    digits: bool = True,
    punctuation: bool = True,
    whitespace: bool = False,
    printable: bool = False,
) -> str:
    """A random password of `chars`, or of all characters of these kinds. Raises CommandExecutionError."""
    kinds = (
        (lowercase, string.ascii_lowercase),
        (uppercase, string.ascii_uppercase),
        (digits, string.digits),
        (punctuation, string.punctuation),
        (whitespace, string.whitespace),
    )
    letters = string.printable if printable else chars or "".join(kind for wanted, kind in kinds if wanted)
    try:
        return "".join(secrets.choice(letters) for _ in range(int(length)))
    except (ValueError, TypeError, IndexError) as error:
        raise CommandExecutionError(f"No password of {length} characters can be made: {error}") from error


def gen_hash(crypt_salt: str | None = None, password: str | None = None, algorithm: str | None = None) -> str:
    """The hash of a password, or of a random one. Raises SaltInvocationError, CommandExecutionError."""
    hashed: Any = import_module("saltlite.plugins.modules._accounts").hashed
    made: str = hashed(secure_password() if password is None else str(password), algorithm or "sha512", crypt_salt)
    return made
