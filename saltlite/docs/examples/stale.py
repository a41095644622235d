"""
stale: minions that have been away for long.

:maintainer:    The saltlite authors
:maturity:      new
:platform:      all

Put this file into `_runners` of a folder of `file_roots`, and install it with `saltlite runner saltutil.sync_runners`.
"""


def minions():
    """
    Return the accepted minions that are not connected, and the command that would forget them.

    CLI Example::

        saltlite runner stale.minions
    """
    away = sorted(__salt__["manage.down"]())
    return {"away": away, "forget": f"saltlite key delete {' '.join(away)}" if away else ""}
