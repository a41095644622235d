"""The minion daemon: the job server, the network process, and the processes of jobs.

    saltlite-minion     the job server: journal, spool, loader index; keeps its rights, has no network socket
      minion link       the one connection to the master; started as root it runs as `user`, and writes nothing
      saltlite-job      one a job, its own process group; enters the function, leaves its result in the spool

What belongs here: these processes, what they say to each other, and `app`, the only place that builds adapters
for them. What does not: decisions (`saltlite.minion.protocol`), the wire format (`saltlite.wire`), execution modules.
"""
