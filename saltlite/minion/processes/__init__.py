"""The minion daemon: the job server, the network process, and the processes of jobs.

    saltlite-minion     the job server: journal, spool, loader index; keeps its rights, has no network socket
      minion link       the one connection to the master; started as root it runs as `user`, and writes nothing
      saltlite-job      one for each job, in a process group; runs the function, leaves its result in the spool

`app` builds their adapters, and `ipc_messages` has the messages between them. Decisions are in
`saltlite.minion.protocol`, the wire format in `saltlite.wire`.
"""
