"""The interfaces that ship, one file a virtual module, and the class to declare more with.

    from saltlite.interfaces import Interface

    class PkgInterface(Interface):
        __modulename__ = "pkg"
        __version__ = "1.0"

        def list_installed(self, *names: str) -> dict[str, str]:
            "List installed packages."
            return {}

        @Interface.supported(os_family=["Debian"])
        def hold(self, name: str | None = None) -> dict[str, dict[str, object]]:
            "Keep a package at its version."
            return {}

A method is a function of the module: `self` is not a parameter of it, its return annotation is the least that every
provider returns, and what its body returns is the default structure. Contract: the RFC "API interface" of Salt.

A file of the folder `interfaces` in `extension_modules`, or of a package's entry point, adds to these or replaces one
(`saltlite.interfaces.smi.contract`).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any, ClassVar, TypeVar

_ALIASES = {"osfamily": "os_family"}


class Platforms:
    """Grain -> values, sorted by grain."""

    __slots__ = ("_values", "wanted")

    def __init__(self, wanted: Mapping[str, object]) -> None:
        """`wanted` is grain -> value, or list of values. Raises TypeError when there is none."""
        if not wanted:
            raise TypeError("name at least one grain with its values, as in os=['Debian']")
        self.wanted: dict[str, list[str]] = {}
        for grain, values in sorted(wanted.items()):
            listed = values if isinstance(values, list | tuple | set | frozenset) else (values,)
            self.wanted.setdefault(_ALIASES.get(grain, grain), []).extend(sorted(_text(value) for value in listed))
        self._values = {grain: {value.casefold() for value in values} for grain, values in self.wanted.items()}

    def __or__(self, other: Platforms) -> Platforms:
        """The platforms of both."""
        grains = {*self.wanted, *other.wanted}
        return Platforms({grain: {*self.wanted.get(grain, ()), *other.wanted.get(grain, ())} for grain in grains})

    def match(self, grains: Mapping[str, object]) -> bool:
        """Whether a machine with these grains is one of the platforms."""
        return any(not values.isdisjoint(_values_of(grains, grain)) for grain, values in self._values.items())

    def text(self) -> str:
        """The platforms as text: `os=beos, frogbsd; os_family=linux`."""
        return "; ".join(f"{grain}={', '.join(values)}" for grain, values in self.wanted.items())


def _values_of(grains: Mapping[str, object], name: str) -> Iterator[str]:
    found = _find(grains, name)
    for value in found if isinstance(found, list | tuple) else (found,):
        if value is not None and not isinstance(value, Mapping):
            yield _text(value).casefold()


def _find(grains: Mapping[str, object], name: str) -> object:
    if name in grains:
        return grains[name]
    found: object = grains
    for part in name.split(":"):
        if not isinstance(found, Mapping) or part not in found:
            return None
        found = found[part]
    return found


def _text(value: object) -> str:
    """A value in its YAML form."""
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)


Method = TypeVar("Method", bound=Callable[..., Any])

SUPPORTED = "__smi_supported__"
NOT_APPLICABLE = "__smi_not_applicable__"
RETURNS = "__smi_returns__"


class Interface:
    """The base of interfaces: the functions that a virtual module offers on every machine; see the module's docstring.

    `__modulename__` is the virtual name. `__version__` is `major.minor`; a breaking change needs a new major.
    `__extends__` names the virtual module whose interface this class extends. `__reserved__` are names of removed
    functions, which must not return with another meaning. A subclass may have `__func_alias__`, as modules do.
    """

    __modulename__: ClassVar[str] = ""
    __version__: ClassVar[str] = "1.0"
    __extends__: ClassVar[str] = ""
    __reserved__: ClassVar[Sequence[str]] = ()

    def __init__(self, module: str = "") -> None:
        """`module` is the `__name__` of the file that implements this interface."""
        self.module = module

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for name, method in vars(cls).items():
            if is_declaration(name, method) and not inspect.signature(method).parameters:
                raise TypeError(f"{cls.__name__}.{name} must take self, as every method does")

    def __call__(self) -> InterfaceName:
        """The virtual name, which remembers the interface: for `__virtualname__ = PkgInterface(__name__)()`."""
        return InterfaceName(type(self))

    @classmethod
    def check(cls, module: ModuleType, grains: Mapping[str, Any]) -> dict[str, Any]:
        """The conformance report of an imported module with these grains (`saltlite.interfaces.smi.report`).

        For tests of a provider without a loader. Raises TypeError if the interface only extends another.
        """
        from saltlite.interfaces.smi.report import check_module  # noqa: PLC0415 - reports are made of declarations

        return check_module(cls, module, grains)

    @staticmethod
    def supported(**grains: object) -> Callable[[Method], Method]:
        """Require the function only where a grain matches; elsewhere it is "not supported" if it is missing."""
        return _marking(SUPPORTED, grains)

    @staticmethod
    def not_applicable(**grains: object) -> Callable[[Method], Method]:
        """Return the default structure where a grain matches, because there is nothing to do."""
        return _marking(NOT_APPLICABLE, grains)

    @staticmethod
    def returns(structure: object) -> Callable[[Method], Method]:
        """Declare the minimal return where an annotation would be clumsy: `{"name": str, "groups": [str]}`."""

        def mark(method: Method) -> Method:
            setattr(method, RETURNS, structure)
            return method

        return mark


class InterfaceName(str):
    """A virtual name that carries its interface; as text it is only the name."""

    __slots__ = ("interface",)
    interface: type[Interface]

    def __new__(cls, interface: type[Interface]) -> InterfaceName:
        """Raises TypeError if the interface has no module name."""
        name = virtual_name(interface)
        if not name:
            raise TypeError(f"{interface.__name__} has no __modulename__: say which virtual module it describes")
        made = super().__new__(cls, name)
        made.interface = interface
        return made


def interface_in(value: object) -> type[Interface] | None:
    """The interface in a module's `__virtualname__` or return of `__virtual__`; None if there is none."""
    if isinstance(value, InterfaceName):
        return value.interface
    if isinstance(value, Interface):
        return type(value)
    return value if isinstance(value, type) and issubclass(value, Interface) else None


def virtual_name(interface: type[Interface]) -> str:
    """The virtual module that the interface describes, or extends."""
    return str(interface.__modulename__ or interface.__extends__)


def is_declaration(name: str, value: object) -> bool:
    """Whether an attribute of an interface's class declares a function."""
    return not name.startswith("_") and inspect.isfunction(value)


def _marking(mark: str, grains: Mapping[str, object]) -> Callable[[Method], Method]:
    platforms = Platforms(grains)

    def decorate(method: Method) -> Method:
        before: Platforms | None = getattr(method, mark, None)
        setattr(method, mark, platforms if before is None else before | platforms)
        return method

    return decorate


__all__ = ["Interface"]
