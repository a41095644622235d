"""Returners of the master: a file each, with `returner(ret)`, `event_return(events)`, or both.

What belongs here: where returns and events go beside the master's own store. What does not: which of them, how often it
is tried, and what becomes of those that cannot be delivered; that is for the process that runs one, which has no other
work (`saltlite.master.processes.returner`). A returner raises SaltInvocationError for what will never be taken, and is
offered everything else again. It may have `return_many(rets)`, which then is called in the place of `returner`.

What it is told stands in `__opts__["returner_config"]` under its name.
"""
