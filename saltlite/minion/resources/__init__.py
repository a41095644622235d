"""Resources on the minion that manages them: finding them, registering them, running functions on them.

What belongs here: one process a resource type that loads the type once and calls it for its resources, and what the
job server needs to know of these processes. What does not: the types themselves (`saltlite/resources/types/`), and
what the
master makes of a registration.
"""
