"""Orchestrations.

:maintainer:    The saltlite authors
:maturity:      new
:platform:      all
"""

from __future__ import annotations

from typing import Any


def orchestrate_show_sls(*mods: Any, **kwargs: Any) -> dict[str, Any]:  # noqa: ARG001 - there are none to choose from
    """Return the orchestrations of this master: it runs no states, so there are none.

    Web pages such as SaltGUI list them with this function.

    CLI Example: ``saltlite-run state.orchestrate_show_sls``
    """
    return {}
