"""Outputters: `{minion id: return}` as text, one file each.

What belongs here: a function `render(returns, paint)` in a file with the outputter's name. What does not:
printing, waiting, exit codes, and what goes to stderr.
"""
