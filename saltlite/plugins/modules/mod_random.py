"""Random numbers, texts and choices, and hashes of passwords.

What is random comes from the kernel; what has a ``seed`` is the same for the same seed, as in Salt, and no secret.

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
"""Characters of one random text; the return is kept on the master."""


def __virtual__() -> str:  # noqa: N807 - the name that the loader asks for
    return __virtualname__


def hash(value: str, algorithm: str = "sha512") -> str:
    """The digest of a text, in hexadecimal digits, by any algorithm of Python's hashlib.

    CLI Example::

        saltlite '*' random.hash 'I am a string' md5
    """
    import hashlib

    try:
        return hashlib.new(str(algorithm), _bytes(value), usedforsecurity=False).hexdigest()
    except (ValueError, TypeError) as error:
        raise SaltInvocationError(f"You must specify a valid algorithm: {algorithm!r} is none.") from error


def str_encode(value: str, encoder: str = "base64") -> str | bytes:
    """A text in base64, or the bytes that another encoding makes of it.

    CLI Example::

        saltlite '*' random.str_encode 'I am a new string' base64
    """
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
    length: int = 20,
    chars: str | None = None,
    lowercase: bool = True,
    uppercase: bool = True,
    digits: bool = True,
    punctuation: bool = True,
    whitespace: bool = False,
    printable: bool = False,
) -> str:
    """A random text of ``chars``, or of the kinds of characters that are not switched off.

    ``printable`` takes all kinds, white space included.

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
    """The hash of a password, as /etc/shadow has it: ``sha512``, ``sha256``, ``blowfish``, ``md5`` or ``crypt``.

    Without a salt there is a random one, and without a password a random password, which nobody knows.

    CLI Example::

        saltlite '*' random.shadow_hash 'My5alT' 'MyP@asswd' md5
    """
    secret = get_str() if password is None else str(password)
    return _accounts.hashed(secret, algorithm, None if crypt_salt is None else str(crypt_salt))


def rand_int(start: int = 1, end: int = 10, seed: Any = None) -> int:
    """A random number from ``start`` to ``end``, both included.

    CLI Example::

        saltlite '*' random.rand_int 1 10
    """
    try:
        return _generator(seed).randint(start, end)
    except (ValueError, TypeError) as error:
        raise SaltInvocationError(f"There is no whole number from {start!r} to {end!r}.") from error


def seed(range: int = 10, hash: Any = None) -> int:
    """A number below ``range`` that is always the same for the same ``hash``, or for this minion when none is given.

    CLI Example::

        saltlite '*' random.seed 10 hash=None
    """
    own = __grains__.get("id") or __opts__.get("id", "")
    try:
        return _generator(own if hash is None else hash).randrange(range)
    except (ValueError, TypeError) as error:
        raise SaltInvocationError(f"range is a whole number above zero, not {range!r}.") from error


def sample(value: list[Any], size: int, seed: Any = None) -> list[Any]:
    """So many different items of a list, in random order.

    CLI Example::

        saltlite '*' random.sample '[one, two]' 1 seed=something
    """
    if not isinstance(value, list | tuple):
        raise SaltInvocationError(f"value is a list, not {value!r}.")
    try:
        return _generator(seed).sample(list(value), size)
    except (ValueError, TypeError) as error:
        raise SaltInvocationError(f"A sample of {size!r} items cannot be taken of {len(value)}.") from error


def shuffle(value: list[Any], seed: Any = None) -> list[Any]:
    """A list in random order.

    CLI Example::

        saltlite '*' random.shuffle '[one, two]' seed=something
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
