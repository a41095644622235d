"""The default driver of the cache banks: one file a value, in `<cachedir>/banks/<bank>`, shared by all processes.

What belongs here: how keys become file names, what is in a file, the feed that says what changed, and `LocalBanks`,
which puts them together. Nothing is synced: what a crash of the machine takes is sent again by the minions, and a value
is never half of one.
What does not: what the values mean, and who may put what.
"""

from __future__ import annotations

from saltlite.master.store.banks.bank import LocalBanks

__all__ = ["LocalBanks"]
