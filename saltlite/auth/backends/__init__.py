"""Backends of `external_auth`: a file each, with `auth(username, password)` and, if it knows any, `groups(username)`.

They only check passwords: rights, tokens and rate limits are the master's. They run in a privileged process of the
master.
"""
