"""Check and compare the text of plug-in files and interfaces; nothing of them is imported or run.

`source` reads functions, signatures and declarations from syntax trees, `run` has the rules of `saltlite lint` and
applies them, `interface` generates and compares interfaces. How a function performs on a machine is in
`saltlite.interfaces.smi`.
"""
