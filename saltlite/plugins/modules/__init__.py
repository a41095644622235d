"""Execution modules that ship with saltlite: one file per module, called as `module.function`.

A module has Salt's function names, arguments and return shapes, and every public function has a CLI example. The loader
reads this folder; nothing imports it as a package. A module calls others through `__salt__`. It imports the standard
library, `saltlite.errors`, `saltlite.model`, `saltlite.loader.hints`, and files that begin with `_`, which several
modules share. A large module is a folder whose `__init__.py` lists its functions in `__all__` and imports them from the
files beside it.
"""
