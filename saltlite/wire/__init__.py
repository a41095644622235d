"""The wire protocol, version 2, as pure functions and small state machines over bytes.

It has the Noise handshake, frames and sessions, the msgpack codec, the table of messages, certificates and signatures,
signed job bodies with their audience proofs, and every limit by name. Time and entropy are arguments. The meaning of
the messages is in the `protocol` packages of master and minion.
"""
