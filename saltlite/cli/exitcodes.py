"""The exit codes of every saltlite command; `saltlite help command-line` has the same table."""

from __future__ import annotations

OK = 0
"""Every target returned, and nothing failed."""

INTERNAL = 1
"""A defect in saltlite."""

USAGE = 2
"""The command line or the configuration is wrong."""

NOTHING_MATCHED = 3
"""No target, key or job matched, so nothing was done."""

FAILED = 4
"""A function failed on a target: it raised, its retcode is not 0, or it was killed. Or `doctor` found a problem."""

MISSING = 5
"""A target did not return."""

REFUSED = 6
"""The caller may not do this, or a minion refused the job."""

UNREACHABLE = 7
"""The master cannot be reached."""

INTERRUPTED = 130
"""The user stopped waiting; a published job goes on."""

READER_GONE = 141
"""The reader of the output went away before its end, as `head` does; a published job goes on."""

WORST_FIRST = (REFUSED, FAILED, MISSING)
"""Which code a job gets when several apply."""
