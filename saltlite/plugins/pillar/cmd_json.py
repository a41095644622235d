"""External pillar: the JSON that a command prints, merged into the pillar.

Configuration of the master::

    ext_pillar:
      - cmd_json: /usr/local/bin/facts --minion %s

The command runs in a shell, as the master's user; ``%s`` becomes the id of the minion. What it prints is a map. A
command that fails is an error, so that the pillar says what is missing.

:maintainer:    The saltlite authors
:maturity:      new
:platform:      all
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from saltlite.errors import CommandExecutionError

if TYPE_CHECKING:
    from saltlite.loader.hints import __salt__


def ext_pillar(minion_id: str, pillar: dict[str, Any], command: str) -> Any:  # noqa: ARG001 - Salt's interface
    """The data that ``command`` prints."""
    done = __salt__["cmd.run_all"](command.replace("%s", minion_id), python_shell=True, ignore_retcode=True)
    if done["retcode"]:
        raise CommandExecutionError(f"its command failed (return code {done['retcode']})")
    try:
        return json.loads(done["stdout"])
    except ValueError as error:
        raise CommandExecutionError(f"the output of its command is no JSON: {error}") from error
