"""`salt.utils.job`: how jobs ended, and how long they are kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def get_retcode(ret: Any) -> Any:
    """The return code in what a minion returned, 1 for False, else 0."""
    if isinstance(ret, dict) and ret.get("retcode", 0) != 0:
        return ret["retcode"]
    return 1 if ret is False else 0


def get_keep_jobs_seconds(opts: Mapping[str, Any]) -> Any:
    """Option `keep_jobs_seconds`, by default a day."""
    return opts.get("keep_jobs_seconds", 86400)
