"""A run of tests that is killed leaves no daemons running."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.support.fleet import alive, wait_until
from tests.support.fleet_watcher import MARK

PROGRAM = f"""
import os, subprocess
from tests.support.fleet_watcher import mark, watch
watch()
for name in (mark("x"), "1-other"):
    environment = os.environ | {{"{MARK}": name}}
    print(subprocess.Popen(["sleep", "600"], start_new_session=True, stdout=2, env=environment).pid, flush=True)
input()
"""


def test_daemons_of_a_test_process_that_was_killed_end_and_others_stay() -> None:
    root = Path(__file__).parents[2]
    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM], cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert program.stdin is not None
    assert program.stdout is not None
    with program.stdin, program.stdout:
        own, other = int(program.stdout.readline()), int(program.stdout.readline())
        try:
            program.kill()
            program.wait()
            wait_until(lambda: not alive(own), "the daemon of the killed process ends")
            assert alive(other)
        finally:
            for pid in filter(alive, (own, other)):
                os.kill(pid, 9)
