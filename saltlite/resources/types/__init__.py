"""The resource types that ship with saltlite: one folder a type, `<type>/__init__.py` and `<type>/modules/<slot>.py`.

What belongs here: plug-in files. The `__init__` of a type is its connection module: which resources there are, how
they are reached, their grains. A file in `modules` is a slot: `cmd.py` serves `cmd.*` on the resources of that type,
under Salt's names; nothing else can be called on them. A slot reaches its resource through `__resource_funcs__`.
Files whose names start with `_` are private parts of one type. What does not: code that two types share, pools, time
limits and queues (the minion has them), and anything above `saltlite.loader.hints`.
"""
