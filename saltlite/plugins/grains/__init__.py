"""Grains: what a minion knows of its machine, under the names that Salt gives them.

What belongs here: functions without arguments that read files and system calls of Linux and return a dict of
grains, and `collect`, which merges them with the grains of the configuration.
What does not: anything that may block (no name lookups on the network), subprocesses, caches.
"""
