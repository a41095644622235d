"""Runners: functions about the fleet that run on the master's machine, one file each, loaded by name.

What belongs here: what an operator would otherwise script around the command line. A runner runs in the process of
the command that asked for it, with the rights of that operator and nothing more: it reaches the master through
`__client__` alone, as the command line does, so that the master's own processes never run plug-in code, and what a
runner may do is decided where it is decided for everybody. What does not: anything that a minion does, and whatever
needs a session, a key or the store.

`__salt__` are the runners, `__execution__` the execution modules of this machine, and `__config__` the options of the
master for somebody to read: `__opts__` has them as well, with a cachedir of the operator's own. What is returned as
`{"outputter": name, "data": value}` is printed so.
"""
