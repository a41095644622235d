"""The verbs of `saltlite`, one file for each noun: `saltlite key accept` is `run_accept` in key.py.

Each function `run_<verb>(argv, console)` runs a command line and returns the exit code. `saltlite.cli.commands` lists
the verbs and imports one when it is called. Jobs are in `saltlite.cli.job`.
"""
