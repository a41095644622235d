"""`salt._compat`: modules of Python that were not always there."""

import importlib.metadata as importlib_metadata
import ipaddress

__all__ = ["importlib_metadata", "ipaddress"]
