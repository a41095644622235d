"""Returners of the master: plug-ins that copy returns and events to other systems, one file each.

A file has `returner(ret)`, `event_return(events)`, or both, and may have `return_many(rets)`, which replaces
`returner`. Its settings are in `__opts__["returner_config"]` under its name. SaltInvocationError rejects a return for
good; after any other error it is offered again. `saltlite.master.processes.returner` runs returners and retries.
"""
