"""How a module keeps to its interface on one machine, as plain data that can be sent, compared and printed.

    {"interface": "pkg", "version": "1.0", "provider": "aptpkg",
     "functions": {"install": {"state": "implemented", "note": "", "differences": [{"kind": "extra", "level": "ok",
                                                                                    "text": "…"}]}, …},
     "counts": {"implemented": 20, …}, "errors": 0, "warnings": 2, "stray_calls": {"foo": 3}, "digest": "3f…"}

The digest is that of everything but `stray_calls`: as long as it is the same, nothing of the rest has changed, and who
has the report needs only that.
"""

from __future__ import annotations

import hashlib
import inspect
import json
from collections import Counter
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from saltlite.interfaces.smi.binding import Binding, Mode, Returns
from saltlite.interfaces.smi.contract import Contract, Declared, contract_of
from saltlite.interfaces.smi.declare import Interface
from saltlite.interfaces.smi.differences import Difference, Level, compare

DIGESTED = ("interface", "version", "provider", "functions", "counts", "errors", "warnings")
"""What the digest speaks for."""

DIGEST_CHARACTERS = 16
"""Of SHA-256 in hexadecimal: enough to tell two reports of one minion apart."""


def conformance_of(
    binding: Binding,
    provided: Mapping[str, Callable[..., Any]],
    needs: Mapping[str, str],
    stray_calls: Mapping[str, int],
) -> dict[str, Any]:
    """The report. `provided` are the provider's functions, `needs` what `depends` misses for others."""
    contract = binding.contract
    functions: dict[str, dict[str, Any]] = {}
    for fun in sorted({*contract.functions, *provided}):
        standing = binding.standing(fun, present=fun in provided)
        if standing is None:
            continue
        note = standing.note or (f"it needs {needs[fun]}" if fun in needs else "")
        differences = differences_of(contract.functions.get(fun), provided.get(fun))
        rows = [{"kind": one.kind, "level": str(one.level), "text": one.text()} for one in differences]
        functions[fun] = {"state": str(standing.state), "note": note, "differences": rows}
    levels = Counter(row["level"] for one in functions.values() for row in one["differences"])
    report = {
        "interface": contract.name,
        "version": contract.version,
        "provider": binding.provider,
        "functions": functions,
        "counts": dict(Counter(one["state"] for one in functions.values())),
        "errors": levels[Level.ERROR],
        "warnings": levels[Level.WARNING],
    }
    return report | {"stray_calls": dict(stray_calls), "digest": digest_of(report)}


def differences_of(declared: Declared | None, function: Callable[..., Any] | None) -> tuple[Difference, ...]:
    """Between what the interface and the function take; none where there is only one of them."""
    if declared is None or function is None:
        return ()
    try:
        return compare(declared.signature, inspect.signature(function))
    except ValueError:
        return ()  # machine code that does not say what it takes


def check_module(interface: type[Interface], module: ModuleType, grains: Mapping[str, Any]) -> dict[str, Any]:
    """The report of a module that was imported as any other, for tests of a provider; there is no loader then.

    Raises TypeError for an interface that only extends.
    """
    contract = contract_of(interface)
    binding = Binding(
        contract,
        module.__name__.rpartition(".")[2],
        grains,
        mode=Mode.OBSERVE,
        returns=Returns.OFF,
        counted=lambda _fun: False,
    )
    alias = getattr(module, "__func_alias__", {})
    provided = {
        str(alias.get(name, name)): value
        for name, value in vars(module).items()
        if not name.startswith("_") and inspect.isfunction(value) and value.__module__ == module.__name__
    }
    return conformance_of(binding, provided, {}, {})


def describe_contract(contract: Contract, states: Mapping[str, str]) -> dict[str, Any]:
    """An interface as data: what its functions take and return, where they are to be had; `states` are those here."""
    return {
        "interface": contract.name,
        "version": contract.version,
        "functions": {fun: _row(one, states.get(fun, "")) for fun, one in sorted(contract.functions.items())},
    }


def _row(declared: Declared, state: str) -> dict[str, Any]:
    row: dict[str, Any] = {
        "signature": f"{declared.name}{_shown(declared.signature)}",
        "returns": declared.schema.text(),
        "doc": declared.doc,
        "default": declared.default(),
        "supported": declared.supported.wanted if declared.supported else {},
        "not_applicable": declared.not_applicable.wanted if declared.not_applicable else {},
    }
    return row | {"state": state} if state else row


def _shown(signature: inspect.Signature) -> str:
    """The parameters as Python writes them, annotations that are texts without their quotation marks."""
    parts = [
        parameter.replace(annotation=_Bare(parameter.annotation))
        if isinstance(parameter.annotation, str)
        else parameter
        for parameter in signature.parameters.values()
    ]
    return str(signature.replace(parameters=parts, return_annotation=inspect.Signature.empty))


class _Bare(str):
    """A text whose notation is itself."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def digest_of(report: Mapping[str, Any]) -> str:
    """The digest of a report, whatever else stands beside it."""
    text = json.dumps({name: report[name] for name in DIGESTED if name in report}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:DIGEST_CHARACTERS]
