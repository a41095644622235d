"""The Salt Module Interface: what every provider of a virtual module promises, and how one keeps it.

What belongs here: the class that interfaces are declared with, and what follows from a declaration, as plain values:
the standing of each function on a machine, differences between two signatures, checks of a return, reports. Grains,
signatures and returned values come in, verdicts and functions go out. What does not: the interfaces that ship
(`saltlite.interfaces`), finding and loading files, logs (`saltlite.loader.contracts`), command lines.
"""
