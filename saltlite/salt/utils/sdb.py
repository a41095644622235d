"""`salt.utils.sdb`: values behind `sdb://profile/key`. There are no plug-ins of that type here.

What is no such address is passed on as it is, as the callers expect.
"""

from __future__ import annotations

from typing import Any

from saltlite.errors import CommandExecutionError, SaltInvocationError

_SCHEME = "sdb://"


def _checked(uri: Any, strict: bool) -> bool:
    """Whether it is the address of a value. Raises SaltInvocationError if `strict`."""
    if not isinstance(uri, str) or not uri.startswith(_SCHEME):
        problem = 'SDB uri must start with "sdb://"'
    elif not uri.removeprefix(_SCHEME).partition("/")[2]:
        problem = "SDB uri must have a profile name as a first part of the uri before the /"
    else:
        return True
    if strict:
        raise SaltInvocationError(problem)
    return False


def _refused(uri: str) -> CommandExecutionError:
    return CommandExecutionError(f"{uri} cannot be used: saltlite has no sdb plug-ins.")


def sdb_get(uri: Any, opts: Any, utils: Any = None, strict: bool = False) -> Any:
    """The value itself if it is no address. Raises CommandExecutionError for an address."""
    if _checked(uri, strict):
        raise _refused(uri)
    return uri


def sdb_set(uri: Any, value: Any, opts: Any, utils: Any = None) -> bool:
    """False for what is no address. Raises CommandExecutionError for an address."""
    if _checked(uri, strict=False):
        raise _refused(uri)
    return False


def sdb_delete(uri: Any, opts: Any, utils: Any = None) -> bool:
    """As `sdb_set`."""
    return sdb_set(uri, None, opts, utils)


def sdb_get_or_set_hash(uri: Any, opts: Any, length: int = 8, chars: str = "", utils: Any = None) -> bool:
    """As `sdb_set`."""
    return sdb_set(uri, None, opts, utils)
