"""These tests need a real Salt, which is never installed with saltlite: they are collected where there is one.

    SALTLITE_COMPAT_PYTHON=/opt/salt/bin/python pytest tests/compat

names a Python that has both. What holds without it is tested with a stand-in: tests/unit/test_loader_salt.py.
`test_alone.py` needs no Salt: it imports the files that `.ci/foreign` downloads.
"""

from __future__ import annotations

import importlib.util
import os
import sys

_found = importlib.util.find_spec("salt")
PYTHON = os.environ.get("SALTLITE_COMPAT_PYTHON") or (sys.executable if _found and _found.origin else "")

collect_ignore = [] if PYTHON else ["test_real_salt.py", "test_states.py"]
