"""Where saltlite touches the machine: sockets, ZeroMQ, files, processes, clocks, logs, the init system.

What belongs here: one thin file for each thing of the outside world, behind a port, with an in-memory twin
where the core or the simulator needs one. Foreign exceptions (OSError, ZMQError, sqlite3.Error) become errors
of `saltlite.errors` here and nowhere else.
What does not: decisions. An adapter does what it is told, and tells what happened; it knows no job, no key
state and no policy. Only the composition roots build adapters.
"""
