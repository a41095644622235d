"""
stale: minions that have been away for long.

:maintainer:    The saltlite authors
:maturity:      new
:platform:      all

Put this file into `_runners` of a folder of `file_roots`, and install it with `saltlite runner saltutil.sync_runners`.
"""

import time


def minions(days=30):
    """
    Return the accepted minions that were last connected more than ``days`` days ago, and the command that deletes their
    keys. Minions that have never connected are not among them, because they may have been accepted just now.

    CLI Example::

        saltlite runner stale.minions
        saltlite runner stale.minions days=90
    """
    before = time.time() - days * 24 * 3600
    rows = __client__.call("minions", state="away")["minions"]
    away = sorted(row["id"] for row in rows if row["last_seen"] < before)
    return {"away": away, "forget": f"saltlite key delete {' '.join(away)}" if away else ""}
