"""Start a daemon whose master has work that never ends: `python hanging.py PROGRAM -c DIR`.

The product has no hooks for this; its functions are replaced before its `main` runs. The limits of the watchdog are
those of a test.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from saltlite.files.server import FileService
from saltlite.master.handlers.fields import (
    TextField,
)
from saltlite.master.handlers.operator_verbs import VERBS, OperatorVerb
from saltlite.master.handlers.results import Results
from saltlite.master.processes import supervisor
from saltlite.master.processes.context import Answer

POISON = "poison"


def spin() -> Any:
    """One call of C that no signal handler of Python interrupts, and that no test waits for."""
    return 9 ** (9**9)


def hang(*_args: Any) -> Answer:
    """A handler that does not end."""
    return Answer({"value": spin()})


def main() -> None:
    """Replace what is to hang, then be the daemon."""
    supervisor.LOOK_S, supervisor.TURN_MAX_S, supervisor.TURN_CPU_S = 0.2, 2.0, 0.5
    VERBS["hang"] = OperatorVerb(hang, {"request_id": TextField(100)}, authorizes=True)
    add, begin = Results.add, FileService.begin

    def poisoned_add(self: Results, minion: Any, fingerprint: Any, message: Any, body: bytes) -> None:
        if POISON.encode() in body:
            spin()
        add(self, minion, fingerprint, message, body)

    def poisoned_begin(self: FileService, ask: Any) -> Any:
        return spin() if ask["path"].startswith(POISON) else begin(self, ask)

    setattr(Results, "add", poisoned_add)  # noqa: B010 - as below
    setattr(FileService, "begin", poisoned_begin)  # noqa: B010 - mypy lets no method be replaced
    del sys.argv[0]
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
