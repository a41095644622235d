"""Random numbers, texts and choices, and hashes of passwords.

Values come from the kernel. With a ``seed`` they are reproducible, as in Salt, and not secret.

:maintainer:    The saltlite authors
:maturity:      new
:depends:       libcrypt, for shadow_hash
:platform:      all
"""

from __future__ import annotations

import random
import string
from typing import TYPE_CHECKING, Any

from saltlite.errors import SaltInvocationError
from saltlite.plugins.modules import _accounts

if TYPE_CHECKING:
    from saltlite.loader.hints import __grains__, __opts__

__virtualname__ = "random"

LENGTH_MAX = 1_000_000
"""Maximum length of a random text, because the master stores the return."""


def __virtual__() -> str:  # noqa: N807 - the name that the loader asks for
    return __virtualname__


def hash(value: str, algorithm: str = "sha512") -> str:
    """Return the digest of a text in hexadecimal, by any algorithm of Python's hashlib.

    CLI Example: ``saltlite '*' random.hash 'I am a string' md5``
    """
    import hashlib

    try:
        return hashlib.new(str(algorithm), _bytes(value), usedforsecurity=False).hexdigest()
    except (ValueError, TypeError) as error:
        raise SaltInvocationError(f"You must specify a valid algorithm, not {algorithm!r}.") from error


def str_encode(value: str, encoder: str = "base64") -> str | bytes:
    """Encode a text in base64, or to bytes in another encoding.

    CLI Example: ``saltlite '*' random.str_encode 'I am a new string' base64``
    """
    if value is None:
        raise SaltInvocationError("There is no text to encode.")
    if encoder == "base64":
        import base64

        return base64.b64encode(_bytes(value)).decode()
    try:
        return str(value).encode(encoder)
    except LookupError as error:
        raise SaltInvocationError("You must specify a valid encoder") from error
    except UnicodeError as error:
        raise SaltInvocationError(f"The text cannot be written as {encoder}.") from error


def get_str(  # noqa: PLR0913, PLR0917 - Salt's arguments
    length: int = 20, chars: str | None = None, lowercase: bool = True, uppercase: bool = True, digits: bool = True,
    punctuation: bool = True, whitespace: bool = False, printable: bool = False,
) -> str:  # fmt: skip
    """Return a random text of ``chars``, or of all kinds of characters that are not switched off.

    ``printable`` includes all kinds and white space.

    CLI Example::

        saltlite '*' random.get_str 128
        saltlite '*' random.get_str 128 chars='abc123.!()'
        saltlite '*' random.get_str 128 lowercase=False whitespace=True
    """
    kinds = (
        (lowercase, string.ascii_lowercase),
        (uppercase, string.ascii_uppercase),
        (digits, string.digits),
        (punctuation, string.punctuation),
        (whitespace, string.whitespace),
    )
    alphabet = string.printable if printable else chars or "".join(letters for wanted, letters in kinds if wanted)
    if not alphabet:
        raise SaltInvocationError("There is no character left to choose from.")
    try:
        size = int(length)
    except (TypeError, ValueError) as error:
        raise SaltInvocationError(f"length is a number, not {length!r}.") from error
    if not 0 <= size <= LENGTH_MAX:
        raise SaltInvocationError(f"length is between 0 and {LENGTH_MAX}, not {size}.")
    return "".join(random.SystemRandom().choices(alphabet, k=size))


def shadow_hash(crypt_salt: str | None = None, password: str | None = None, algorithm: str = "sha512") -> str:
    """Return the hash of a password for /etc/shadow: ``sha512``, ``sha256``, ``blowfish``, ``md5`` or ``crypt``.

    The defaults are a random salt and a random password that is not returned.

    CLI Example: ``saltlite '*' random.shadow_hash 'My5alT' 'MyP@asswd' md5``
    """
    secret = get_str() if password is None else str(password)
    return _accounts.hashed(secret, algorithm, None if crypt_salt is None else str(crypt_salt))


def rand_int(start: int = 1, end: int = 10, seed: Any = None) -> int:
    """Return a random integer from ``start`` to ``end``, inclusive.

    CLI Example: ``saltlite '*' random.rand_int 1 10``
    """
    try:
        return _generator(seed).randint(start, end)
    except (ValueError, TypeError) as error:
        raise SaltInvocationError(f"There is no whole number from {start!r} to {end!r}.") from error


def seed(range: int = 10, hash: Any = None) -> int:
    """Return an integer below ``range`` that is constant for the same ``hash``, by default for this minion.

    CLI Example: ``saltlite '*' random.seed 10 hash=None``
    """
    own = __grains__.get("id") or __opts__.get("id", "")
    try:
        return _generator(own if hash is None else hash).randrange(range)
    except (ValueError, TypeError) as error:
        raise SaltInvocationError(f"range is a whole number above zero, not {range!r}.") from error


def sample(value: list[Any], size: int, seed: Any = None) -> list[Any]:
    """Return this many different items of a list, in random order.

    CLI Example: ``saltlite '*' random.sample '[one, two]' 1 seed=something``
    """
    if not isinstance(value, list | tuple):
        raise SaltInvocationError(f"value is a list, not {value!r}.")
    try:
        return _generator(seed).sample(list(value), size)
    except (ValueError, TypeError) as error:
        raise SaltInvocationError(f"A sample of {size!r} items cannot be taken of {len(value)}.") from error


def shuffle(value: list[Any], seed: Any = None) -> list[Any]:
    """Return a list in random order.

    CLI Example: ``saltlite '*' random.shuffle '[one, two]' seed=something``
    """
    return sample(value, len(value), seed)


def _bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode(errors="surrogateescape")


def _generator(seed: Any) -> random.Random:
    if seed is None:
        return random.SystemRandom()
    try:
        return random.Random(seed)  # noqa: S311 - the same seed gives the same choice: this is no secret
    except TypeError:
        return random.Random(repr(seed))  # noqa: S311 - as above
