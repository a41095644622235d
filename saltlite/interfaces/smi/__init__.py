"""The Salt Module Interface: what follows from a declared interface, as plain values.

The status of each function on a machine, differences between two signatures, checks of a return, and reports. Files are
found and loaded by `saltlite.loader.contracts`.
"""
