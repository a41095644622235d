"""Outputters: `{minion id: return}` as text, one file each.

What belongs here: in a file with the outputter's name `render(returns, paint)`, and `alone(value, paint)` for a value
that is no minion's. What does not: printing, waiting, exit codes, and what goes to stderr.
"""
