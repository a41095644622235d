"""The interfaces that ship: one file a virtual module, and the class to declare more with.

What belongs here: declarations, as a user would write them. What does not: what follows from them (`saltlite.smi`).
A file of the folder `interfaces` in `extension_modules`, or of a package's entry point, adds to these or takes the
place of one; see `saltlite.smi.contract`.
"""

from saltlite.smi.declare import Interface

__all__ = ["Interface"]
