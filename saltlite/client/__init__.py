"""The client side of the operator protocol, for programs on the master's machine.

`connection` frames and decodes messages on the Unix socket, `follower` decides how to follow a job, `local` is the
blocking client. Nothing here prints, parses a command line or reads configuration. Nothing imports asyncio, tornado,
cryptography, zmq, yaml, dataclasses or typing at run time, because every `saltlite` command pays for it.
"""
