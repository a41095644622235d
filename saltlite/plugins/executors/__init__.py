"""Executors: what may stand between a caller and a function on a minion, one file each, loaded by name.

What belongs here: files with `execute(opts, data, func, args, kwargs)`, by Salt's contract. None passes the call on to
the next one, anything else is its result. `opts` is the configuration of the minion, `data` tells about the job (fun,
arg, jid, user, id, tgt, resource_type and resource_id of a resource) and has the caller's options in `executor_opts`.
An executor that calls the function itself returns `saltlite.model.execution.RETURNED_NONE` where that returned None.
`func` is a text, the name, where the function is not there and some `allow_missing_func(name)` of the chain says that
this is no hindrance; `args` is then the raw list, and `kwargs` is `data`.

More of what a file may say:

    SAFE_OPTS = {"splaytime": float}   the options that callers may give, and their types; others are refused. They are
                                       laid over `opts`. Without it, every option reaches the executor
    STAYS = True                       where the configuration has it, no caller leaves it out
    FOR_RESOURCES = False              it is not for calls of resources, which share one process
    delay(opts, data), limit(…)        seconds that a call is to wait, or may take: asked in the place of `execute`
                                       where many calls share a process, which then looks after that itself
    finish(opts, data)                 called when a chain is over in which it was entered

What does not: whether a caller may ask for an executor, and what `sudo_user` makes of a chain; that is the loader's.
"""
