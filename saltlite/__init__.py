"""saltlite: run Python functions on thousands of machines, and know who did not answer and why.

What belongs here: the version, and nothing else. Importing `saltlite` must stay free.
"""

__version__ = "0.1.0"
