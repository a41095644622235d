"""Another version of saltlite in a folder, and the command that starts its daemons in place of this one's."""

from __future__ import annotations

import io
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

from saltlite.master.store.postgres.schema import FORMAT

ROOT = Path(__file__).resolve().parents[2]
OLD = "0.0.9"
FETCH_S = 120.0

_LAUNCHER = """
import os, sys
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
del sys.argv[0]
module = os.path.basename(sys.argv[0]).replace("-", "_")
sys.exit(__import__(module).main())
"""


def older(folder: Path) -> Path:
    """A copy of this tree that says that it is of version OLD."""
    _copy(folder)
    replace(folder / "saltlite/__init__.py", r'__version__ = ".*"', f'__version__ = "{OLD}"')
    return folder


def newer(folder: Path) -> Path:
    """A copy of this tree whose PostgreSQL tables have a column more, which this version does not know."""
    _copy(folder)
    schema = folder / "saltlite/master/store/postgres/schema.py"
    step = f'    {FORMAT}: Step("ALTER TABLE minions ADD COLUMN colour text"),\n'
    replace(schema, r'\n\}\n"""What makes a store of format N', f'\n{step}}}\n"""What makes a store of format N')
    replace(schema, f"\nFORMAT = {FORMAT}\n", f"\nFORMAT = {FORMAT + 1}\n")
    return folder


def _copy(folder: Path) -> None:
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "saltlite", folder / "saltlite", ignore=ignore)
    shutil.copytree(ROOT / "daemons", folder, ignore=ignore, dirs_exist_ok=True)


def of_commit(folder: Path, commit: str, clone: Path = ROOT) -> Path | None:
    """The product as it was at a commit, by its whole hash; None where neither the clone nor its origin has it."""
    archive_it = ["git", "-C", str(clone), "archive", commit, "saltlite", "daemons"]
    done = subprocess.run(archive_it, capture_output=True, check=False)
    if done.returncode:
        # A shallow clone lacks it, and fetches this one commit.
        fetch = ["git", "-C", str(clone), "fetch", "-q", "--depth", "1", "origin", commit]
        subprocess.run(fetch, capture_output=True, check=False, timeout=FETCH_S, stdin=subprocess.DEVNULL)
        done = subprocess.run(archive_it, capture_output=True, check=False)
    if done.returncode:
        return None
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        archive.extractall(folder, filter="data")
    shutil.copytree(folder / "daemons", folder, dirs_exist_ok=True)
    return folder


def replace(path: Path, pattern: str, by: str) -> None:
    """Change what stands in a file of the other version."""
    text, count = re.subn(pattern, by, path.read_text(), count=1)
    assert count == 1, (path, pattern)
    path.write_text(text)


def launcher(folder: Path) -> list[str]:
    """What `Fleet.through` has to be for daemons of the version in that folder."""
    path = folder / "bin/saltlite-minion"
    path.parent.mkdir(exist_ok=True)
    path.write_text(_LAUNCHER)
    return [sys.executable, "-P", str(path)]
