"""`salt.utils.mine`: functions of the mine, and who may read what they return."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from saltlite.salt.utils.data import filter_falsey

log = logging.getLogger(__name__)

MINE_ITEM_ACL_ID = "__saltmine_acl__"
MINE_ITEM_ACL_VERSION = 1
MINE_ITEM_ACL_DATA = "__data__"


def minion_side_acl_denied(
    minion_acl_cache: Mapping[str, Any], mine_minion: str, mine_function: str, req_minion: str
) -> bool:
    """Whether a minion may not read what a function of another one returned."""
    allowed = minion_acl_cache.get(mine_minion, {}).get(mine_function, [])
    denied = bool(allowed) and req_minion not in allowed
    if denied:
        log.debug("%s may not read %s of %s in the mine.", req_minion, mine_function, mine_minion)
    return denied


def wrap_acl_structure(function_data: Any, allow_tgt: Any = None, allow_tgt_type: str | None = None) -> dict[str, Any]:
    """What a function returned, with the target of the minions that may read it."""
    wrapped = {MINE_ITEM_ACL_DATA: function_data, MINE_ITEM_ACL_ID: MINE_ITEM_ACL_VERSION}
    target = {"allow_tgt": allow_tgt, "allow_tgt_type": allow_tgt_type} if allow_tgt else {}
    return {**wrapped, **filter_falsey(target)}


def parse_function_definition(function_definition: Any) -> tuple[str | None, list[Any], dict[str, Any], dict[str, Any]]:
    """(function, arguments, keywords, target of who may read it) of an entry of `mine_functions`."""
    args: list[Any] = []
    keywords: dict[str, Any] = {}
    if isinstance(function_definition, dict):
        keywords.update(function_definition)
    elif isinstance(function_definition, list):
        args = [item for item in function_definition if not isinstance(item, dict)]
        for item in function_definition:
            if isinstance(item, dict):
                keywords.update(item)
    name = keywords.pop("mine_function", None)
    target = {key: keywords.pop(key, None) for key in ("allow_tgt", "allow_tgt_type")}
    return name, args, keywords, filter_falsey(target)
