"""Grains: facts about the minion's machine, under Salt's names.

`core` and `network` hold functions that read files and system calls of Linux and return a dict of grains. `collect`
merges them with the grains of the configuration. Nothing here may block: no name lookups on the network, no
subprocesses.
"""
