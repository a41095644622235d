"""The operating system: sockets, ZeroMQ, files, processes, clocks, logs, systemd.

Each module is a thin adapter. Foreign exceptions (OSError, ZMQError) become errors of `saltlite.errors` here. Adapters
make no decisions: they know no jobs, key states or policies. Only the composition roots create them.
"""
