"""One file a request kind: what an MWorker does with what operators ask and minions say.

What belongs here: functions from (master, request) to an answer, over the ports in `saltlite.master.processes.context`;
the simulator runs them on in-memory twins. What does not: sockets, the reactor, who is connected to what.

`operator_verbs` is the table of what comes through the Unix socket; `decide`, `reports`, `pull` and `presence` are
what the link process passes on.
"""
