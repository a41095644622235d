"""`salt.utils.event`: tags of events. The bus itself is reached through `__salt__["event.fire"]` and its like."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

TAGEND = "\n\n"
TAGPARTER = "/"
SALT = "salt"
TAGS = {
    name: name for name in ("auth", "job", "key", "minion", "syndic", "run", "wheel", "cloud", "fileserver", "queue")
}
SUB_EVENT = ("state.highstate", "state.sls")


def tagify(suffix: Any = "", prefix: str = "", base: str = SALT) -> str:
    """`base/prefix/suffix`, where the suffix may be several parts; empty parts are omitted."""
    ends = suffix if isinstance(suffix, Iterable) and not isinstance(suffix, str) else [suffix]
    return TAGPARTER.join(str(part) for part in (base, TAGS.get(prefix, prefix), *ends) if str(part))
