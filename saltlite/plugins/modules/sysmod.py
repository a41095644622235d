"""List this minion's modules, functions, executors and runners, with documentation and arguments.

Files without ``__virtual__`` and ``__init__`` are parsed and not imported, which is cheap.

:maintainer:    The saltlite authors
:maturity:      new
:platform:      all
"""

from __future__ import annotations

import fnmatch
import re
from typing import TYPE_CHECKING, Any

from saltlite.errors import CommandExecutionError

if TYPE_CHECKING:
    from saltlite.loader.hints import Functions, __salt__

__virtualname__ = "sys"

_FIELD = re.compile(r":(maintainer|maturity|depends|platform):(.*)")
_RESOURCES = "resources"
_TYPES = ("executors", _RESOURCES)
"""Types of plug-ins that are named before the plug-in, as `executors.splay`."""
_LISTS = frozenset({"depends", "maintainer", "platform"})


def __virtual__() -> str:  # noqa: N807 - the name that the loader asks for
    return __virtualname__


def doc(*args: str) -> dict[str, str | None]:
    """Return the documentation of functions: all, those of a module, one function, or those that match a glob.
    ``resources.NAME`` and ``resources.NAME.MODULE.FUNCTION`` select functions for resources of a type.

    CLI Example::

        saltlite '*' sys.doc
        saltlite '*' sys.doc pkg
        saltlite '*' sys.doc pkg.install
        saltlite '*' sys.doc 'grains.*'
        saltlite '*' sys.doc resources.ssh.cmd.run
    """
    return _docs(__salt__, args)


def runner_doc(*args: str) -> dict[str, str | None]:
    """Return the documentation of runners on this machine, selected as in ``sys.doc``.

    CLI Example: ``saltlite '*' sys.runner_doc manage``
    """
    return _docs(__salt__.of_type("runners"), args)


def list_functions(*args: str, stubs: bool = False) -> list[str]:
    """Return the functions of this minion: all, those of modules, or those that match a glob.

    ``resources.NAME`` selects those that can be called on resources of a type.

    ``stubs`` adds functions in the interfaces of the named modules that are missing here; calling one reports why.

    CLI Example::

        saltlite '*' sys.list_functions
        saltlite '*' sys.list_functions sys pkg
        saltlite '*' sys.list_functions 'sys.list_*'
        saltlite '*' sys.list_functions pkg stubs=True
        saltlite '*' sys.list_functions resources.ssh
    """
    found = _matching(__salt__, args)
    if not stubs:
        return found
    modules = _modules(__salt__, tuple(name.partition(".")[0] for name in args))
    wanted = [*args, *(f"{module}.*" for module in args if "." not in module)] or ["*"]
    more = (f"{module}.{fun}" for module in modules for fun in __salt__.stubs(module))
    return sorted({*found, *(name for name in more if any(fnmatch.fnmatchcase(name, glob) for glob in wanted))})


def list_runner_functions(*args: str) -> list[str]:
    """Return the functions of runners on this machine, selected as in ``sys.list_functions``.

    CLI Example::

        saltlite '*' sys.list_runner_functions
        saltlite '*' sys.list_runner_functions manage
    """
    return _matching(__salt__.of_type("runners"), args)


def list_modules(*args: str) -> list[str]:
    """Return the modules of this minion, or those that match a glob.

    CLI Example::

        saltlite '*' sys.list_modules
        saltlite '*' sys.list_modules 's*'
    """
    return _modules(__salt__, args)


def list_runners(*args: str) -> list[str]:
    """Return the runners on this machine, or those that match a glob.

    CLI Example::

        saltlite '*' sys.list_runners
        saltlite '*' sys.list_runners 'm*'
    """
    return _modules(__salt__.of_type("runners"), args)


def list_executors(*args: str) -> list[str]:
    """Return the executors of this minion, or those that match a glob. The option ``executors_allowed`` permits callers
    to request them.

    CLI Example: ``saltlite '*' sys.list_executors``
    """
    return _modules(__salt__.of_type("executors"), args)


def executor_doc(*args: str) -> dict[str, str | None]:
    """Return the documentation of executors, selected as in ``sys.doc``: that of the file and of its functions.

    CLI Example: ``saltlite '*' sys.executor_doc splay``
    """
    executors = __salt__.of_type("executors")
    docs: dict[str, str | None] = {name: executors.module_doc(name) for name in _modules(executors, args)}
    return {**docs, **_docs(executors, args)}


def argspec(module: str = "") -> dict[str, dict[str, Any]]:
    """Return the arguments of functions: all, those of a module, one function, or those that match a glob.

    ``varargs`` and ``kwargs`` are True if the function takes further arguments. A function that only the interface of
    its module has is included if it is named.

    CLI Example::

        saltlite '*' sys.argspec pkg.install
        saltlite '*' sys.argspec sys
        saltlite '*' sys.argspec 'pkg.list_*'
    """
    return _argspecs(__salt__, module)


def runner_argspec(module: str = "") -> dict[str, dict[str, Any]]:
    """Return the arguments of runners, like ``sys.argspec``.

    CLI Example: ``saltlite '*' sys.runner_argspec manage``
    """
    return _argspecs(__salt__.of_type("runners"), module)


def interface(module: str = "") -> dict[str, Any]:
    """Return the interface of a module: arguments, returns, platforms, and the state of each function on this minion.
    Without a name, return every module with an interface, and its version.

    CLI Example::

        saltlite '*' sys.interface
        saltlite '*' sys.interface pkg --out json
    """
    if not module:
        return dict(__salt__.interfaces())
    found = __salt__.interface(module)
    if found is None:
        raise CommandExecutionError(
            f"The module {module!r} has no interface here; sys.interface lists those that have."
        )
    return found


def module_info(*args: str) -> dict[str, dict[str, Any]]:
    """Return the descriptions of modules, all or those that match a glob: ``summary`` (the first paragraph of the
    docstring), its fields (``maturity``; lists: ``depends``, ``maintainer``, ``platform``), ``functions``, and the
    ``file``.

    CLI Example: ``saltlite '*' sys.module_info pkg``
    """
    found = {}
    for module in _modules(__salt__, args):
        summary, fields = _read_docstring(__salt__.module_doc(module) or "")
        file = next((one.path for one in __salt__.candidates(module) if one.chosen), None)
        found[module] = {"summary": summary, **fields, "functions": __salt__.functions(module), "file": file}
    return found


def reload_modules() -> bool:
    """Return True: every job loads the current files.

    CLI Example: ``saltlite '*' sys.reload_modules``
    """
    return True


def not_loaded() -> dict[str, str]:
    """Return the files that are not loaded, with the reasons from ``__virtual__`` or errors.

    CLI Example: ``saltlite '*' sys.not_loaded``
    """
    return __salt__.not_loaded()


def providers(*args: str) -> dict[str, list[dict[str, Any]]]:
    """Return the files that could provide a module, in search order, with the reasons against them. ``executors.NAME``
    selects an executor, ``resources.NAME`` a resource type.

    CLI Example::

        saltlite '*' sys.providers
        saltlite '*' sys.providers pkg
        saltlite '*' sys.providers executors.splay
    """
    return {
        module: [
            {
                "file": candidate.stem,
                "path": candidate.path,
                "layer": candidate.layer,
                "chosen": candidate.chosen,
                "reason": candidate.reason,
            }
            for candidate in _candidates(module)
        ]
        for module in args or __salt__.modules()
    }


def _candidates(module: str) -> Any:
    kind, _, plugin = module.partition(".")
    return __salt__.of_type(kind).candidates(plugin) if kind in _TYPES and plugin else __salt__.candidates(module)


def _docs(functions: Functions, wanted: tuple[str, ...]) -> dict[str, str | None]:
    found = {}
    for name in _matching(functions, wanted, stubs=True):
        kind, _, rest = name.partition(".")
        type_name, _, function = rest.partition(".")
        is_of_resource = kind == _RESOURCES and "." in function
        described = (_slots(type_name) if is_of_resource else functions).describe(function if is_of_resource else name)
        if described:
            found[name] = described.doc
    return found


def _slots(type_name: str) -> Functions:
    """The functions for resources of a type."""
    slots: Functions = __salt__.of_type(f"{_RESOURCES}/{type_name}/modules")
    return slots


def _argspecs(functions: Functions, module: str) -> dict[str, dict[str, Any]]:
    return {
        name: {
            "args": list(found.args) or None,
            "defaults": None if found.defaults is None else list(found.defaults),
            "varargs": True if found.varargs else None,
            "kwargs": True if found.kwargs else None,
        }
        for name in _matching(functions, (module,) if module else (), stubs="." in module)
        if (found := functions.describe(name))
    }


def _of_resources(wanted: str) -> list[str]:
    """The functions that TYPE, TYPE.MODULE or TYPE.MODULE.FUNCTION selects, with the name of the type before them."""
    type_name, _, rest = wanted.partition(".")
    slots = _slots(type_name)
    return [f"{_RESOURCES}.{type_name}.{name}" for name in _matching(slots, (rest,) if rest else ())]


def _modules(functions: Functions, wanted: tuple[str, ...]) -> list[str]:
    return [
        name
        for name in functions.modules()
        if not wanted or any(fnmatch.fnmatchcase(name, str(glob)) for glob in wanted)
    ]


def _matching(functions: Functions, wanted: tuple[str, ...], *, stubs: bool = False) -> list[str]:
    """Return the functions of names and globs, sorted; the name of a module means all its functions. ``stubs`` adds
    those in the interfaces of named modules that are missing here.
    """
    if not wanted:
        return [f"{module}.{function}" for module in functions.modules() for function in functions.functions(module)]
    found: set[str] = set()
    for name in wanted:
        module, _, function = str(name).partition(".")
        if module == _RESOURCES and function:
            found.update(_of_resources(function))
            continue
        modules = _modules(functions, (module,)) if any(sign in module for sign in "*?[") else [module]
        for each in modules:
            known = [*functions.functions(each), *(functions.stubs(each) if stubs else ())]
            found.update(f"{each}.{one}" for one in known if fnmatch.fnmatchcase(one, function or "*"))
    return sorted(found)


def _read_docstring(text: str) -> tuple[str, dict[str, Any]]:
    """Return the first paragraph, and the fields with their indented lines: `:depends: a, b` becomes a list."""
    summary = " ".join(text.partition("\n\n")[0].split())
    fields: dict[str, Any] = {}
    current = ""
    for line in text.splitlines():
        start = _FIELD.match(line)
        if start is not None:
            current = start[1]
            fields[current] = start[2].strip()
        elif current and line.startswith((" ", "\t")) and line.strip():
            fields[current] = f"{fields[current]} {line.strip()}".strip()
        else:
            current = ""
    for name in _LISTS.intersection(fields):
        fields[name] = [part.strip() for part in fields[name].split(",") if part.strip()]
    return summary, fields
