"""Runners: functions about the fleet that run on the master's machine, one file each, loaded by name.

A runner runs in the process of the command that called it, with the operator's rights. It reaches the master only
through `__client__`, as the command line does. So the master's own processes never run plug-in code, and the master
authorises each request of a runner.

`__salt__` holds the runners, `__execution__` the execution modules of this machine (`__pillar_execution__` with its
pillar), and `__config__` the master's options with secrets hidden. `__opts__` holds the options with a cachedir that
belongs to the operator. A return of `{"outputter": name, "data": value}` is printed by that outputter.
"""
