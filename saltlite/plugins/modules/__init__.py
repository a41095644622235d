"""The execution modules that ship with saltlite: one file a module, called as `module.function`.

What belongs here: plug-in files with Salt's function names, arguments and return shapes, every public
function documented with a CLI example. The loader reads this folder as a directory; nothing imports it as a
package. What does not: code shared between modules (a module calls another one through `__salt__`), the
wire, the daemons. A file imports the standard library, `saltlite.errors`, `saltlite.model` and
`saltlite.loader.hints`, no more; a file whose name starts with `_` is a private part of modules, and no
module of its own. A module that is too large for one file is a folder: its `__init__.py` lists in `__all__` what it
offers, and takes that from the files beside it.
"""
