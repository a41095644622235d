"""`salt.utils.verify`: paths, ids and users that are checked before they are used."""

from __future__ import annotations

import logging
import os
import pwd
from collections.abc import Mapping
from typing import Any

from saltlite.salt.exceptions import SaltClientError, SaltValidationError
from saltlite.salt.utils.user import get_user

log = logging.getLogger(__name__)

_SUSPICIOUS = ("import", ";", "subprocess", "eval", "open", "file", "exec", "input")


def clean_path(root: str, path: str, subdir: bool = False, realpath: bool = True) -> str:
    """The path if it is directly in the folder or, with `subdir`, anywhere below it; "" if it is not."""
    folder = os.path.normpath(os.path.abspath(root))
    full = os.path.normpath(os.path.join(folder, path))
    if realpath:
        folder, full = os.path.realpath(folder), os.path.realpath(full)
    inside = os.path.commonpath([full, folder]) == folder if subdir else os.path.dirname(full) == folder
    return full if inside else ""


def clean_join(root: str, *paths: str, subdir: bool = False, realpath: bool = True) -> str:
    """The path of the parts below the folder. Raises SaltValidationError for one that leads out of it."""
    place = root
    for path in paths:
        if not clean_path(place, os.path.join(place, path), subdir, realpath):
            raise SaltValidationError(f"Invalid path: {path!r}")
        place = os.path.join(place, path)
    return place


def valid_id(opts: Mapping[str, Any], id_: Any) -> bool:
    """Whether it can be the id of a minion: a file name in `pki_dir`."""
    if not isinstance(id_, str) or any(one in id_ for one in "/\\\0"):
        return False
    return "pki_dir" in opts and bool(clean_path(opts["pki_dir"], id_))


def safe_py_code(code: str) -> bool:
    """Whether a text has none of the words with which Python reaches further."""
    return not any(word in code for word in _SUSPICIOUS)


def check_user(user: str) -> bool:
    """Whether this process is of that user, or has become his. Raises KeyError for an unknown user."""
    if user == get_user():
        return True
    account = pwd.getpwnam(user)
    try:
        os.initgroups(user, account.pw_gid)
        os.setgid(account.pw_gid)
        os.setuid(account.pw_uid)
    except OSError:
        log.critical('Salt configured to run as user "%s" but unable to switch.', user)
        return False
    now = {"HOME": account.pw_dir, "SHELL": account.pw_shell, "USER": account.pw_name, "LOGNAME": account.pw_name}
    os.environ.update({name: value for name, value in now.items() if name in os.environ})
    return True


def list_path_traversal(path: str) -> list[str]:
    """The path after all folders above it, the outermost first."""
    found = [path.rstrip(os.sep) or path]
    while os.path.dirname(found[0]) not in ("", found[0]):
        found.insert(0, os.path.dirname(found[0]))
    return found


def check_path_traversal(path: str, user: str = "root", skip_perm_errors: bool = False) -> None:
    """Raises SaltClientError if this process cannot read the path or a folder above it."""
    for place in list_path_traversal(path):
        if not os.access(place, os.R_OK) and not skip_perm_errors:
            advice = f"Try running as user {user}." if user != get_user() else f"Please give {user} read permissions."
            raise SaltClientError(
                f"Could not access {place}. {advice if os.path.exists(place) else 'Path does not exist.'}"
            )
