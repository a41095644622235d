"""The functions that templates of pillar find under the name `salt`, as in `salt['match.filter_by']`.

Pillar is made on the master, in a process that renders what users wrote. So `FUNCTIONS` lists what may be called: the
functions of shipped modules that only compute, from their arguments and from the minion's id, its grains and the pillar
so far. Anything else is refused with a sentence, and costs its file. Modules that an operator adds are never loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from saltlite.loader.loader import Loader

FUNCTIONS: Mapping[str, tuple[str, ...]] = {
    "config": ("get", "option"),
    "grains": ("equals", "filter_by", "get", "has_value", "item", "items", "ls"),
    "hashutil": (
        "base64_b64decode", "base64_b64encode", "base64_encodestring", "digest", "github_signature", "hmac_compute",
        "hmac_signature", "md5_digest", "sha256_digest", "sha512_digest",
    ),
    "match": (
        "compound", "filter_by", "glob", "grain", "grain_pcre", "ifelse", "ipcidr", "list", "pcre", "pillar",
        "pillar_pcre", "search_by",
    ),
    "network": ("calc_net", "convert_cidr", "ip_in_subnet", "iphexval", "is_loopback", "is_private", "reverse_ip"),
    "pillar": ("data", "fetch", "filter_by", "get", "item", "items", "keys", "ls", "raw"),
    "random": ("seed",),
    "test": ("echo",),
}  # fmt: skip
"""Virtual name of a module -> what templates may call of it."""

_FILES = {"random": "mod_random"}
"""Modules whose file has another name."""


class FunctionRefused(Exception):  # noqa: N818 - Jinja shows its text, which is the sentence for the user
    """A template used something that it may not call; the text says what it may."""


class TemplateFunctions:
    """The functions for all templates of this process. They see what `within` was given last, so they are called while
    one template is rendered, and not after."""

    def __init__(self) -> None:
        self._loader: Loader | None = None
        self._context: Mapping[str, Any] = {}

    def load(self) -> None:
        """Import all modules now: a process that drops its rights may be unable to read them later."""
        self._loader = _make_loader()
        for module, functions in FUNCTIONS.items():
            self._loader[f"{module}.{functions[0]}"]

    def within(self, context: Mapping[str, Any]) -> SaltNames:
        """The value of `salt` for a template with that context, of which `opts`, `grains` and `pillar` count."""
        self._context = context
        return SaltNames(self._function)

    def _function(self, name: str) -> Callable[..., Any]:
        if self._loader is None:
            self._loader = _make_loader()
        loader, context = self._loader, self._context
        loader.opts.refresh(context.get("opts", {}))
        # The pillar grows from file to file.
        loader.refresh(context.get("grains", {}), context.get("pillar", {}))
        return loader[name]


def _make_loader() -> Loader:
    from saltlite.loader.index import build_index  # noqa: PLC0415 - few templates call a function
    from saltlite.loader.loader import Loader  # noqa: PLC0415 - as above
    from saltlite.loader.search_path import MODULES, SHIPPED, Layer, shipped_folder  # noqa: PLC0415 - as above

    layer = Layer(SHIPPED, shipped_folder(MODULES), installed=True)
    return Loader(build_index((layer,), only={_FILES.get(module, module) for module in FUNCTIONS}), {}, {}, {})


def may_call(name: str) -> bool:
    """Whether templates may call `module.function`."""
    module, _, function = name.partition(".")
    return function in FUNCTIONS.get(module, ())


class SaltNames(Mapping[str, Callable[..., Any]]):
    """`salt` in a template: `salt['grains.get']('os')` and `salt.grains.get('os')`."""

    def __init__(self, function: Callable[[str], Callable[..., Any]]) -> None:
        self._function = function

    def __getitem__(self, name: str) -> Any:
        if name in FUNCTIONS:
            return _ModuleNames(self, name)
        if not may_call(str(name)):
            raise FunctionRefused(_refusal(str(name)))
        return self._function(name)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and may_call(name)

    def __iter__(self) -> Iterator[str]:
        return (f"{module}.{function}" for module, functions in FUNCTIONS.items() for function in functions)

    def __len__(self) -> int:
        return sum(map(len, FUNCTIONS.values()))

    def __getattr__(self, module: str) -> _ModuleNames:
        if module.startswith("_"):
            raise AttributeError(module)
        return _ModuleNames(self, module)


class _ModuleNames:
    """`salt.grains` and `salt['grains']` in a template."""

    def __init__(self, names: SaltNames, module: str) -> None:
        self._names = names
        self._module = module

    def __getattr__(self, function: str) -> Any:
        if function.startswith("_"):
            raise AttributeError(function)
        return self._names[f"{self._module}.{function}"]

    def __getitem__(self, function: str) -> Any:
        return self._names[f"{self._module}.{function}"]


def _refusal(name: str) -> str:
    module = name.partition(".")[0]
    allowed = ", ".join(FUNCTIONS.get(module, FUNCTIONS))
    which = f"these functions of {module}" if module in FUNCTIONS else "functions of these modules, which only compute"
    return (
        f"salt[{name[:80]!r}] cannot be called in pillar files, which are rendered on the master without its files, "
        f"programs and network. Use {which}: {allowed}"
    )
