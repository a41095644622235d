"""Documentation of runners and execution modules.

:maintainer:    The saltlite authors
:maturity:      new
:platform:      all
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from saltlite.loader.hints import __client__, __salt__


def runner() -> dict[str, str | None]:
    """Return the documentation of every runner.

    CLI Example: ``saltlite-run doc.runner``
    """
    names = [f"{module}.{function}" for module in __salt__.modules() for function in __salt__.functions(module)]
    return {name: found.doc for name in names if (found := __salt__.describe(name))}


def execution(tgt: str = "*") -> dict[str, str | None]:
    """Return the documentation of every function on the minions of ``tgt``, which are asked for it.

    `saltlite doc` shows the documentation of one function without asking minions.

    CLI Example::

        saltlite-run doc.execution
        saltlite-run doc.execution 'web*'
    """
    found: dict[str, str | None] = {}
    for returned in __client__.cmd(tgt, "sys.doc").values():
        if isinstance(returned, dict):
            found.update(returned)
    return dict(sorted(found.items()))
