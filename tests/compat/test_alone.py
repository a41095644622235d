"""Salt's own modules, imported where no Salt is installed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.support.foreign import folder_of

LEAST = 220
"""Of the 266 files of Salt 3008.3. The others are for Windows, or talk to Salt's daemons."""


def test_most_modules_import_without_salt() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.compat.alone", str(folder_of("modules"))],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[0]) >= LEAST, done.stdout
