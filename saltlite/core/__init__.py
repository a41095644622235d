"""Decisions of master and minion, without any IO: what happens next, given what happened.

What belongs here: state machines, tables, planners, the ports (Protocols) that adapters implement. Everything
is fed with events and a time, and answers with values; the simulator runs exactly this code.
What does not: sockets, files, processes, clocks, randomness, logging, configuration files.
"""
