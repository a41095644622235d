"""Conformance reports: how a module implements its interface on one machine, as plain data.

    {"interface": "pkg", "version": "1.0", "provider": "aptpkg",
     "functions": {"install": {"state": "implemented", "note": "", "differences": [{"kind": "extra", "level": "ok",
                                                                                    "text": "…"}]}, …},
     "counts": {"implemented": 20, …}, "errors": 0, "warnings": 2, "stray_calls": {"foo": 3}, "digest": "3f…"}

The digest covers everything except `stray_calls`. A receiver that has the report of a digest needs only the digest.
"""

from __future__ import annotations

import hashlib
import html
import inspect
import json
from collections import Counter
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from saltlite.interfaces import Interface
from saltlite.interfaces.smi.contract import (
    Binding,
    Contract,
    DeclaredFunction,
    Difference,
    DifferenceLevel,
    Mode,
    ReturnCheck,
    compare,
    contract_of,
)

DIGESTED = ("interface", "version", "provider", "functions", "counts", "errors", "warnings")
"""The fields that the digest covers."""

DIGEST_CHARACTERS = 16
"""Hexadecimal characters of SHA-256, enough to distinguish the reports of one minion."""


def conformance_of(
    binding: Binding,
    provided: Mapping[str, Callable[..., Any]],
    needs: Mapping[str, str],
    stray_calls: Mapping[str, int],
) -> dict[str, Any]:
    """The report. `provided` are the provider's functions, `needs` the unmet `depends` of others."""
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
        "errors": levels[DifferenceLevel.ERROR],
        "warnings": levels[DifferenceLevel.WARNING],
    }
    return report | {"stray_calls": dict(stray_calls), "digest": digest_of(report)}


def differences_of(declared: DeclaredFunction | None, function: Callable[..., Any] | None) -> tuple[Difference, ...]:
    """Differences between the parameters of interface and function; none if one of them is missing."""
    if declared is None or function is None:
        return ()
    try:
        return compare(declared.signature, inspect.signature(function))
    except ValueError:
        return ()  # some functions in machine code have no signature


def check_module(interface: type[Interface], module: ModuleType, grains: Mapping[str, Any]) -> dict[str, Any]:
    """The report of a module that was imported without the loader, for tests of a provider.

    Raises TypeError for an interface that only extends another.
    """
    contract = contract_of(interface)
    binding = Binding(
        contract,
        module.__name__.rpartition(".")[2],
        grains,
        mode=Mode.OBSERVE,
        returns=ReturnCheck.OFF,
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
    """An interface as data: signatures, returns and platforms of its functions; `states` are those on this machine."""
    return {
        "interface": contract.name,
        "version": contract.version,
        "functions": {fun: _row(one, states.get(fun, "")) for fun, one in sorted(contract.functions.items())},
    }


def _row(declared: DeclaredFunction, state: str) -> dict[str, Any]:
    row: dict[str, Any] = {
        "signature": f"{declared.name}{show_parameters(declared.signature)}",
        "returns": declared.schema.text(),
        "doc": declared.doc,
        "default": declared.default(),
        "supported": declared.supported.wanted if declared.supported else {},
        "not_applicable": declared.not_applicable.wanted if declared.not_applicable else {},
    }
    return row | {"state": state} if state else row


def show_parameters(signature: inspect.Signature) -> str:
    """The parameters in Python's notation; string annotations have no quotation marks."""
    parts = [
        parameter.replace(annotation=_Bare(parameter.annotation))
        if isinstance(parameter.annotation, str)
        else parameter
        for parameter in signature.parameters.values()
    ]
    return str(signature.replace(parameters=parts, return_annotation=inspect.Signature.empty))


class _Bare(str):
    """A string whose repr is the string."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def digest_of(report: Mapping[str, Any]) -> str:
    """The digest of a report; other fields are ignored."""
    text = json.dumps({name: report[name] for name in DIGESTED if name in report}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:DIGEST_CHARACTERS]


_COLOURS = {
    "implemented": "#d8f0d8",
    "not_implemented": "#f5d0d0",
    "not_supported": "#eeeeee",
    "not_applicable": "#e0e8f5",
    "deprecated": "#f8ecc8",
}


class FleetTable:
    """Collects the answers to `smi.conformance`. `known` maps digests to reports that minions need not send."""

    def __init__(self, known: Mapping[str, Mapping[str, Any]]) -> None:
        self.reports: dict[str, Mapping[str, Any]] = dict(known)
        """Digest -> report, including received ones."""
        self._minions = 0
        self._silent: dict[str, str] = {}
        self._modules: dict[str, dict[tuple[str, str, str], list[Mapping[str, Any]]]] = {}
        self._strays: dict[str, Counter[str]] = {}

    def add(self, minion: str, answer: object) -> None:
        """Take the answer of one minion."""
        if not isinstance(answer, Mapping):
            self._silent[minion] = str(answer)[:200]
            return
        self._minions += 1
        for module, sent in answer.items():
            report = self._report(sent)
            if report is None:
                self._silent[minion] = f"its report about {module} cannot be read"
                continue
            key = (str(report["provider"]), str(sent.get("os", "")), str(report["version"]))
            self._modules.setdefault(str(module), {}).setdefault(key, []).append(report)
            strays = sent.get("stray_calls")
            counts = {fun: n for fun, n in strays.items() if isinstance(n, int)} if isinstance(strays, Mapping) else {}
            self._strays.setdefault(str(module), Counter()).update(counts)

    def table(self) -> dict[str, Any]:
        """The table; `as_html` shows its form."""
        modules = {name: self._module(name) for name in sorted(self._modules)}
        return {"minions": self._minions, "modules": modules, "silent": dict(sorted(self._silent.items()))}

    def _report(self, sent: object) -> Mapping[str, Any] | None:
        if not isinstance(sent, Mapping):
            return None
        digest = sent.get("digest")
        if "functions" in sent:
            if not _is_report(sent) or digest_of(sent) != digest:
                return None
            self.reports[str(digest)] = sent
        return self.reports.get(str(digest))

    def _module(self, name: str) -> dict[str, Any]:
        groups = self._modules[name]
        keys = sorted(groups)
        functions = sorted({fun for key in keys for report in groups[key] for fun in report["functions"]})
        problems: dict[str, dict[str, None]] = {}
        for provider, _os, _version in keys:
            for report in groups[provider, _os, _version]:
                for fun, row in report["functions"].items():
                    for one in row["differences"]:
                        if one["level"] == "error":
                            problems.setdefault(fun, {})[f"{provider}: {one['text']}"] = None
        return {
            "providers": [
                {
                    "provider": provider,
                    "os": system,
                    "version": version,
                    "minions": len(groups[provider, system, version]),
                }
                for provider, system, version in keys
            ],
            "functions": {fun: [_cell(fun, groups[key]) for key in keys] for fun in functions},
            "problems": {fun: list(found) for fun, found in sorted(problems.items())},
            "stray_calls": dict(sorted(self._strays[name].items())),
        }


def _cell(fun: str, reports: list[Mapping[str, Any]]) -> dict[str, int]:
    return dict(Counter(str(report["functions"][fun]["state"]) for report in reports if fun in report["functions"]))


def _is_report(sent: Mapping[str, Any]) -> bool:
    functions = sent.get("functions")
    return (
        isinstance(sent.get("provider"), str)
        and isinstance(sent.get("version"), str)
        and isinstance(functions, Mapping)
        and all(map(_is_row, functions.values()))
    )


def _is_row(row: object) -> bool:
    if not isinstance(row, Mapping) or not isinstance(row.get("state"), str):
        return False
    differences = row.get("differences")
    return isinstance(differences, list | tuple) and all(
        isinstance(one, Mapping) and isinstance(one.get("level"), str) and isinstance(one.get("text"), str)
        for one in differences
    )


def as_html(table: Mapping[str, Any]) -> str:
    """The table as one HTML page without external resources."""
    parts = [
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>Module interfaces</title><style>',
        "body{font:14px sans-serif;margin:2em}table{border-collapse:collapse;margin:1em 0}",
        "td,th{border:1px solid #ccc;padding:2px 8px;text-align:left}",
        *(f".{state}{{background:{colour}}}" for state, colour in _COLOURS.items()),
        f"</style></head><body><h1>Module interfaces</h1><p>{table['minions']} minions answered.</p>",
    ]
    for name, module in table["modules"].items():
        parts.append(f"<h2>{_text(name)}</h2><table><tr><th>function</th>")
        for one in module["providers"]:
            title = f"{one['provider']} {one['os']} ({one['minions']}, interface {one['version']})"
            parts.append(f"<th>{_text(title)}</th>")
        parts.append("</tr>")
        for fun, cells in module["functions"].items():
            problems = "; ".join(module["problems"].get(fun, ()))
            title = f' title="{_text(problems)}"' if problems else ""
            parts.append(f"<tr><td{title}>{_text(fun)}{' &#9888;' if problems else ''}</td>")
            parts += [_html_cell(cell) for cell in cells]
            parts.append("</tr>")
        parts.append("</table>")
        strays = ", ".join(f"{fun} {count}" for fun, count in module["stray_calls"].items())
        parts.append(f"<p>Calls of functions that the interface does not have: {_text(strays)}</p>" if strays else "")
    if table["silent"]:
        rows = "".join(f"<li>{_text(minion)}: {_text(why)}</li>" for minion, why in table["silent"].items())
        parts.append(f"<h2>No report</h2><ul>{rows}</ul>")
    return "".join([*parts, "</body></html>\n"])


def _html_cell(cell: Mapping[str, int]) -> str:
    if not cell:
        return "<td></td>"
    state = max(cell, key=lambda one: cell[one])
    known = f' class="{state}"' if state in _COLOURS else ""
    return f"<td{known}>{_text(', '.join(f'{one} {count}' for one, count in sorted(cell.items())))}</td>"


def _text(value: object) -> str:
    return html.escape(str(value), quote=True)
