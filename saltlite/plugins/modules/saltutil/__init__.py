"""See and signal the jobs that run on this minion, and bring it the plug-ins of the master.

The minion keeps one JSON file a running job in ``<data_dir>/running``, named by its jid, with the keys
``jid``, ``fun``, ``user``, ``pid`` and ``started``; a job of several functions has them all in ``fun``, joined by
commas. A job's process leads a process group of its own; a signal goes to the whole group, and to the children that
have left it for a session of their own.

Plug-ins are the files in ``salt://_modules``, ``salt://_grains`` and so on. A sync compares them by digest and puts the
whole new set of a type in place of the old one in one step, or changes nothing and says why. The next job sees it.

:maintainer:    The saltlite authors
:maturity:      new
:platform:      Linux
"""

from __future__ import annotations

__parts__ = {
    "jobs": [
        "find_job",
        "is_running",
        "kept_return",
        "kill_all_jobs",
        "kill_job",
        "running",
        "signal_job",
        "term_all_jobs",
        "term_job",
    ],
    "syncing": [
        "clear_cache",
        "list_extmods",
        "pillar_refresh",
        "refresh_grains",
        "refresh_modules",
        "refresh_pillar",
        "refresh_resources",
        "sync_all",
        "sync_executors",
        "sync_grains",
        "sync_interfaces",
        "sync_modules",
        "sync_output",
        "sync_outputters",
        "sync_resources",
        "sync_utils",
    ],
}
