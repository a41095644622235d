"""The functions of the minion's own module `publish`, for Salt's files."""

from saltlite_engine import minion_functions

globals().update(minion_functions("publish", __name__))
