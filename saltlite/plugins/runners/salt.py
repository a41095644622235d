"""Run execution modules on this machine, or on minions as a job.

:maintainer:    The saltlite authors
:maturity:      new
:platform:      all
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from saltlite.errors import SaltInvocationError

if TYPE_CHECKING:
    from saltlite.loader.hints import __client__, __context__, __execution__, __pillar_execution__


def cmd(fun: str, *args: Any, **kwargs: Any) -> Any:
    """Run an execution function on the master's machine, and return its result.

    The modules are those of saltlite and those that the master's configuration adds. The grains are those of this
    machine. ``with_pillar=True`` gives them the pillar that the files of the master have for its id, ``HOST_master``.

    CLI Example::

        saltlite-run salt.cmd test.ping
        saltlite-run salt.cmd pillar.items with_pillar=True
        saltlite-run salt.cmd test.arg 1 two three=3
    """
    given = {name: value for name, value in kwargs.items() if not name.startswith("__pub_")}
    function = (__pillar_execution__ if given.pop("with_pillar", False) else __execution__)[fun]
    try:
        inspect.signature(function).bind(*args, **given)
    except TypeError as error:
        raise SaltInvocationError(f"{fun}: {error}") from error
    return function(*args, **given)


def execute(
    tgt: str, fun: str, arg: list[Any] | None = None, timeout: float | None = None, tgt_type: str = "glob",
    kwarg: dict[str, Any] | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Run a function on minions, and return their returns. The return code is the largest of theirs.

    ``timeout`` is how many seconds to wait for silent minions; the default is that of the command line.

    CLI Example::

        saltlite-run salt.execute 'web*' test.ping
        saltlite-run salt.execute 'web*' test.arg arg='[1, two]' kwarg='{three: 3}'
    """
    results = __client__.run(tgt, fun, arg or [], kwarg, tgt_type, timeout)
    __context__["retcode"] = max((one["retcode"] or not one["success"] for one in results.values()), default=0)
    return {name: one["return"] for name, one in results.items()}
