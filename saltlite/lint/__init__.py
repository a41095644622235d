"""Looking at plug-in files and interfaces as text: nothing of them is imported or run.

What belongs here: reading functions, signatures and declarations from syntax trees, the rules of `saltlite lint` and
their codes, and what `saltlite interface` makes of sources: generating, comparing. What does not: how a function stands
on a machine (`saltlite.interfaces.smi`), printing (`saltlite.cli`).
"""
