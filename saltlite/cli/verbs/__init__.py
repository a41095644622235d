"""The verbs of `saltlite`, one file each: `saltlite key accept` is `key_accept.py`.

What belongs here: a function `run(argv, console)` a verb. What does not: jobs (`saltlite.cli.job`), and what
several verbs share (`saltlite.cli.keys`). A verb is imported when it is called.
"""
