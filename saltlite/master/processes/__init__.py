"""The master daemon: supervisor, link process, MWorkers, maintenance.

What belongs here: the processes, what they say to each other, and `app`, the only place that builds adapters for
them. What does not: decisions (`saltlite.master.protocol`), the wire format (`saltlite.wire`), SQL and sockets
(`saltlite.platform`).
"""
