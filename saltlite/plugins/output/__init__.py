"""Outputters: how returns are printed, one file a format, by the name that `--out` takes.

What belongs here: plug-in files with a function `output(data, **kwargs)` that returns the text for stdout, which
ends with a newline unless it is empty. `data` is `{id: return}`, or a value that is nobody's, such as a runner's. Its
keywords are `color` (whether colours are wanted), `indent` (spaces a level, or None) and `_retcode`.
What does not: deciding which outputter is wanted, options, writing. A file imports the standard library,
`saltlite.errors` and `saltlite.model`; loading one is part of how long a command takes.

Contract: Salt's outputters, whose own files work here too.
"""
