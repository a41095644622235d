"""Decisions about machines of clouds: what a profile means, what comes next in a create, what must not be said.

What belongs here: providers, profiles and maps as values, who wins over whom, the order of machines, redaction, the
six fields of a listing, the states of a create and a destroy. What does not: reading files, asking providers, events
that are fired, processes, clocks.
"""
