"""The wire protocol, version 2, as pure functions and small state machines over bytes.

What belongs here: the Noise handshake, frames, sessions, the msgpack codec, the fields of each message, the
master certificate, signed job bodies, audience proofs, and every limit of the protocol by name.

What does not: sockets, files, clocks, randomness, logging (time and entropy come in as arguments), what a
message does (the `protocol` packages), and who may connect how often (the link; its defaults are in `limits`).
"""
