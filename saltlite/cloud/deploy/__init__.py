"""From a machine that can be logged in to, to a minion on it: one SSH session, one upload, one script.

What belongs here: the session, the upload, the script and what it is given, waiting for ports. What does not: how the
machine was made, join tokens and events of the core (`saltlite.cloud.program.lifecycle`).
"""
