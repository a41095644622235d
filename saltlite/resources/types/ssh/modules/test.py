"""Whether a host can be reached.

:maintainer:    The saltlite authors
:maturity:      new
:platform:      all
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from saltlite.loader.hints import __resource_funcs__


def ping() -> bool:
    """
    Whether the host can be logged in to, and runs a command.

    CLI Example: ``saltlite -C 'T@ssh' test.ping``
    """
    answer: bool = __resource_funcs__["ssh.ping"]()
    return answer
