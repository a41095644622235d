"""Outputters: formats of returns, one file each, by the name that `--out` takes.

A file has `output(data, **kwargs)`, as in Salt, and returns the text for stdout; the text ends with a newline unless it
is empty. `data` is `{id: return}`, or a value without an id, such as a runner's. The keywords are `color`, `indent`
(spaces per level, or None) and `_retcode`. A file imports only the standard library, `saltlite.errors` and
`saltlite.model`, because its load time is part of every command. The command line chooses the outputter and writes the
text. Salt's own outputters work here too.
"""
