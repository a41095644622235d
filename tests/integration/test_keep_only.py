"""A forked process gives up what its parent has open."""

from __future__ import annotations

import os
from pathlib import Path

from saltlite.platform.process import keep_only


def test_only_the_named_descriptors_go_on_leading_anywhere_and_no_number_becomes_free(tmp_path: Path) -> None:
    kept = os.open(tmp_path / "kept", os.O_RDWR | os.O_CREAT)
    secret = os.open(tmp_path / "secret", os.O_RDWR | os.O_CREAT)
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            keep_only([kept])
            os.write(secret, b"stolen")
            os.write(kept, b"given")
            # The number stays taken, so that whoever inherited it cannot close what is opened next.
            status = int(os.open(os.devnull, os.O_RDONLY) == secret)
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert (tmp_path / "kept").read_bytes() == b"given"
    assert (tmp_path / "secret").read_bytes() == b""
    os.close(kept)
    os.close(secret)
