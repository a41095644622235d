"""`salt.utils.decorators.path`: functions that need a program."""

from saltlite.decorators import which, which_bin

__all__ = ["which", "which_bin"]
