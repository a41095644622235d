"""How a program on the master's machine talks to the master: the Unix socket, and what is known of a job.

What belongs here: the operator protocol's client side (framing, verbs, resuming a stream that broke) and the
rule that says how long to wait. What does not: anything that prints, parses a command line or reads a
configuration file, and everything heavy: no asyncio, tornado, cryptography, zmq, yaml, dataclasses or typing
at run time, because every `saltlite` command pays for it.
"""
