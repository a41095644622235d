"""The functions of the minion's own module `event`, for Salt's files."""

from saltlite_engine import minion_functions

globals().update(minion_functions("event", __name__))
