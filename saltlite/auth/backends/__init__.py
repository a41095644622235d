"""Backends of `external_auth`: a file each, with `auth(username, password)` and, if it knows any, `groups(username)`.

What belongs here: whether a name and a password belong together. What does not: what somebody may do, tokens, and how
often somebody may try; these are the master's. They are run by a process of the master that has its rights.
"""
