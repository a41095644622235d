"""`salt.utils.resources`: what the pillar declares about resources."""

from __future__ import annotations

import logging
from typing import Any

log = logging.getLogger(__name__)

DEFAULT_KEY = "resources"


def resource_pillar_key(opts: Any) -> str:
    """The key of the pillar under which resources are declared: the option of this name, or `resources`."""
    key = opts.get("resource_pillar_key", DEFAULT_KEY)
    if key:
        return str(key)
    log.warning("The option resource_pillar_key is empty, so the key is %s: set it to a name.", DEFAULT_KEY)
    return DEFAULT_KEY


def pillar_resources_tree(opts: Any) -> dict[str, Any]:
    """What the pillar in `opts` declares, by type of resources; empty if that is nothing, or no map."""
    found = opts.get("pillar", {}).get(resource_pillar_key(opts))
    return found if isinstance(found, dict) else {}


def bare_resource_ids_from_decl(decl: Any) -> list[Any]:
    """The ids of all types: of lists, as in the grain `salt_resources`, and of maps with `resource_ids`."""
    listed = [one.get("resource_ids") if isinstance(one, dict) else one for one in _values(decl)]
    return [one for ids in listed if isinstance(ids, list) for one in ids]


def _values(decl: Any) -> list[Any]:
    return list(decl.values()) if isinstance(decl, dict) else []
