"""saltlite: run Python functions on thousands of machines, and know who did not answer and why.

What belongs here: versions, and nothing else. Importing `saltlite` must stay free.
"""

__version__ = "0.1.0"
SALT_VERSION = "3008.3"
"""The release of Salt whose library plug-in files find, which they compare with."""
