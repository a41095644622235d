"""Keys of minions, with the names and answers of Salt's wheel functions.

They need the wheel rights of ``saltlite key`` and the right to the runner. Minions generate their own keys, so no
function here generates one.

:maintainer:    The saltlite authors
:maturity:      new
:platform:      all
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from saltlite.errors import SaltInvocationError, UsageError
from saltlite.model import keys

if TYPE_CHECKING:
    from collections.abc import Sequence

    from saltlite.loader.hints import __client__

__func_alias__ = {"list_": "list"}
__outputter__ = dict.fromkeys(
    (
        "list", "list_all", "glob_match", "name_match", "accept", "accept_dict", "reject", "reject_dict", "revoke",
        "finger", "finger_master",
    ),
    "key",
)  # fmt: skip


def list_(match: str) -> dict[str, list[str]]:
    """Return the keys of one state: ``accepted``, ``unaccepted``, ``rejected``, ``denied``, ``revoked`` or ``all``; or
    those whose ids match a glob, by state.

    CLI Example::

        saltlite-run key.list unaccepted
        saltlite-run key.list 'web*'
    """
    return keys.some_lists(_rows(), match)


def list_all() -> dict[str, list[str]]:
    """Return the ids of all keys, by state.

    CLI Example: ``saltlite-run key.list_all``
    """
    return keys.all_lists(_rows())


def glob_match(match: str) -> dict[str, list[str]]:
    """Return the ids that match a glob, by state.

    CLI Example::

        saltlite-run key.glob_match 'web*'
        saltlite-run key.name_match 'web*'
    """
    return keys.matching(keys.all_lists(_rows()), match)


name_match = glob_match


def finger(match: str, hash_type: str = "sha256") -> dict[str, dict[str, str]]:
    """Return the sha256 fingerprints of the keys whose ids match a glob; ``*`` includes the master's.

    CLI Example: ``saltlite-run key.finger 'web*'``
    """
    _refuse_hash(hash_type)
    own = _own() if match in ("*", keys.LOCAL_KEY) else ""
    return keys.fingerprints(_rows(), match, own)


def finger_master(hash_type: str = "sha256") -> dict[str, dict[str, str]]:
    """Return the fingerprint of the master's key.

    CLI Example: ``saltlite-run key.finger_master``
    """
    _refuse_hash(hash_type)
    return keys.fingerprints((), "", _own())


def accept(match: str, include_rejected: bool = False, include_denied: bool = False) -> dict[str, list[str]]:
    """Accept the pending keys whose ids match a glob, optionally also rejected and denied ones; return the accepted
    ids.

    CLI Example::

        saltlite-run key.accept 'web*'
        saltlite-run key.accept web1 include_rejected=True
    """
    states = ["pending", *(["rejected"] if include_rejected else []), *(["conflict"] if include_denied else [])]
    return _change("accept", match, states, "minions")


def accept_dict(match: dict[str, Any]) -> dict[str, list[str]]:
    """Accept exactly these keys, given as a map from states to ids.

    CLI Example: ``saltlite-run key.accept_dict '{minions_pre: [web1, web2]}'``
    """
    return _change_named("accept", match, "minions")


def reject(match: str, include_accepted: bool = False, include_denied: bool = False) -> dict[str, list[str]]:
    """Reject the pending keys whose ids match a glob, optionally also accepted and denied ones; return the rejected
    ids.

    CLI Example: ``saltlite-run key.reject 'web*'``
    """
    states = ["pending", *(["accepted"] if include_accepted else []), *(["conflict"] if include_denied else [])]
    return _change("reject", match, states, "minions_rejected")


def reject_dict(match: dict[str, Any]) -> dict[str, list[str]]:
    """Reject exactly these keys, given as a map from states to ids.

    CLI Example: ``saltlite-run key.reject_dict '{minions_pre: [web1]}'``
    """
    return _change_named("reject", match, "minions_rejected")


def revoke(match: str) -> dict[str, list[str]]:
    """Revoke the accepted keys whose ids match a glob: their minions are disconnected and get no jobs. Salt has no such
    function.

    CLI Example: ``saltlite-run key.revoke web1``
    """
    return _change("revoke", match, ["accepted"], "minions_revoked")


def delete(match: str) -> dict[str, list[str]]:
    """Delete the keys whose ids match a glob, in any state. As in Salt, the return is empty.

    CLI Example: ``saltlite-run key.delete web1``
    """
    return _change("delete", match, list(keys.LISTS.values()), "")


def delete_dict(match: dict[str, Any]) -> dict[str, list[str]]:
    """Delete exactly these keys, given as a map from states to ids.

    CLI Example: ``saltlite-run key.delete_dict '{minions_rejected: [web1]}'``
    """
    return _change_named("delete", match, "")


def _rows() -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = __client__.call("key_list")["keys"]
    return rows


def _own() -> str:
    return str(__client__.call("key_finger")["master"]["fingerprint"])


def _refuse_hash(hash_type: str) -> None:
    if hash_type != "sha256":
        raise SaltInvocationError("fingerprints are made with sha256 only")


def _change(action: str, match: str, states: Sequence[str], list_name: str) -> dict[str, list[str]]:
    try:
        return _change_rows(action, keys.chosen(_rows(), match, states), list_name)
    except UsageError as error:
        raise SaltInvocationError(str(error)) from error


def _change_named(action: str, match: dict[str, Any], list_name: str) -> dict[str, list[str]]:
    try:
        return _change_rows(action, keys.chosen_by_name(_rows(), match), list_name)
    except UsageError as error:
        raise SaltInvocationError(str(error)) from error


def _change_rows(action: str, rows: Sequence[keys.Row], list_name: str) -> dict[str, list[str]]:
    if not rows:
        return {}
    fingerprints = [row["fingerprint"] for row in rows]
    return keys.changed(__client__.call("key_change", action=action, fingerprints=fingerprints), list_name)
