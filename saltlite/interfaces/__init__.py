"""The interfaces that ship: one file a virtual module, and the class to declare more with.

What belongs here: declarations, as a user would write them. What does not: what follows from them
(`saltlite.interfaces.smi`).
A file of the folder `interfaces` in `extension_modules`, or of a package's entry point, adds to these or takes the
place of one; see `saltlite.interfaces.smi.contract`.
"""

from saltlite.interfaces.smi.declare import Interface

__all__ = ["Interface"]
