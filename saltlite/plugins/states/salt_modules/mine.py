"""The functions of the minion's own module `mine`, for Salt's files."""

from saltlite_engine import minion_functions

globals().update(minion_functions("mine", __name__))
