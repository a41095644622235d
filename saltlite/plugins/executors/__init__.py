"""Executors: plug-ins that run between a caller and a function on a minion, one file each, loaded by name.

An executor has `execute(opts, data, func, args, kwargs)`, as in Salt. None passes the call on to the next executor; any
other value is the result. `opts` is the configuration of the minion. `data` describes the job: fun, arg, jid, user, id,
tgt, resource_type and resource_id of a resource, and the caller's options in `executor_opts`. An executor that calls
the function itself returns `saltlite.model.execution.RETURNED_NONE` when the function returned None. When the function
is missing and an `allow_missing_func(name)` of the chain permits that, `func` is its name, `args` is the raw list, and
`kwargs` is `data`.

A file may also define:

    SAFE_OPTS = {"splaytime": float}   options that callers may set, with their types. They are laid over `opts`, and
                                       others are refused. Without it every option reaches the executor
    STAYS = True                       callers cannot remove it from a chain that is configured
    FOR_RESOURCES = False              not for calls of resources, which share one process
    delay(opts, data), limit(…)        seconds to wait, or that a call may take: asked instead of `execute` where
                                       calls share a process, which then does the timing
    finish(opts, data)                 called at the end of a chain that entered the executor

The loader decides which executors a caller may ask for, and how `sudo_user` changes a chain.
"""

from collections.abc import Callable, Mapping
from typing import Any

Function = Callable[..., Any] | str
Values = Mapping[str, Any]
