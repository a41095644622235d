"""External pillar: the YAML that a command prints, merged into the pillar.

Configuration of the master::

    ext_pillar:
      - cmd_yaml: /usr/local/bin/facts --minion %s

The command runs in a shell, as the master's user; ``%s`` becomes the id of the minion. What it prints is a map. A
command that fails is an error, so that the pillar says what is missing.

:maintainer:    The saltlite authors
:maturity:      new
:platform:      all
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from saltlite.errors import CommandExecutionError
from saltlite.pillar.files import read_yaml

if TYPE_CHECKING:
    from saltlite.loader.hints import __salt__


def ext_pillar(minion_id: str, pillar: dict[str, Any], command: str) -> Any:  # noqa: ARG001 - Salt's interface
    """The data that ``command`` prints."""
    done = __salt__["cmd.run_all"](command.replace("%s", minion_id), python_shell=True, ignore_retcode=True)
    if done["retcode"]:
        raise CommandExecutionError(f"its command failed (return code {done['retcode']})")
    return read_yaml(done["stdout"], "the output of its command")
