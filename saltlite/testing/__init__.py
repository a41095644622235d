"""Test doubles for the ports of saltlite, for its own tests and for those of plug-in authors.

    memory_store   the master's store
    banks          the cache banks of grains, pillar and resource grains
    disk           folders and files, with crashes, full disks and lost writes
    link           the connections between master and minions

All state is held in memory, so tests are fast. `saltlite.platform.daemon.ManualClock` makes them repeatable.
A module is tested with `saltlite.loader.loader.Loader` over a folder of plug-ins; `saltlite.cli.verbs.demo` starts a
real fleet.
"""
