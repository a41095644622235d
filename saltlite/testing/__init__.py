"""Test doubles for the ports of saltlite, for its own tests and for those of plug-in authors.

    memory_store   the master's store, whose tables are in memory_tables
    banks          the cache banks of grains, pillar and resource grains
    disk           folders and files, with crashes, full disks and lost writes
    link           the connections between master and minions
    plugins        loads and calls plug-in files, for the tests of their authors

All state is held in memory, so tests are fast. `saltlite.platform.daemon.ManualClock` makes them repeatable.
`saltlite new` writes a plug-in with its test; `saltlite.cli.verbs.demo` starts a real fleet.
"""
