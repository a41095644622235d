"""`salt.utils.odict`: the old place of ordered dicts."""

from collections import OrderedDict

from saltlite.salt.utils.datastructures import DefaultOrderedDict, HashableOrderedDict

__all__ = ["DefaultOrderedDict", "HashableOrderedDict", "OrderedDict"]
