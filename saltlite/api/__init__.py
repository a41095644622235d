"""The HTTP API: what `saltlite-api` serves, in the requests and answers of Salt's own API.

What belongs here: HTTP, its formats, limits and errors, and how a request becomes verbs of the operator protocol.
What does not: any decision about rights. The process has none of its own; every request to the master carries the
caller's token, and the master decides (`saltlite.auth.acl`). The process opens no store and loads no plug-in.
"""
