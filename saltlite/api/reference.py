"""The reference of what ships with saltlite: commands, modules and other plug-ins, options, the HTTP API, events, wire.

`python -m saltlite.api.reference` prints it as JSON: a list of sections, each with its entries, each with its items.
Plug-in files are read, not imported. Only the files of the package are: what a site adds is for those who may ask its
minions (`sys.doc`). With the folder of the master's configuration it prints the functions of all runners instead, also
those that the site adds.
"""

from __future__ import annotations

import ast
import gc
import inspect
import json
import os
import sys
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from typing import Any

from saltlite.api.openapi import document
from saltlite.cli import commands
from saltlite.cli.console import Console
from saltlite.cli.job_options import JOB
from saltlite.cli.options import HelpAsked
from saltlite.config.api import ApiConfig
from saltlite.config.cloud import CloudConfig
from saltlite.config.load import load_master
from saltlite.config.master import MasterConfig
from saltlite.config.minion import MinionConfig
from saltlite.config.options import Option, options_of
from saltlite.config.opts import opts_of
from saltlite.loader.index import Index, ModuleFile, build_index
from saltlite.loader.loader import Documents, read_documents
from saltlite.loader.search_path import MODULES, SHIPPED, search_layers
from saltlite.model import events
from saltlite.model.signature import parse_signature, show_signature
from saltlite.wire import limits, messages

NICER = 5
"""How much the API itself goes before this process."""

Item = dict[str, Any]
"""`name`, `signatures`, `doc`, and `notes`, sentences such as the risk."""
Entry = dict[str, Any]
"""`name`, `summary`, `doc` and `items`."""

_PLUGINS = {
    MODULES: "Execution modules",
    "runners": "Runners",
    "executors": "Executors",
    "returners": "Returners",
    "output": "Outputters",
    "clouds": "Drivers of clouds",
}
_RESOURCES = "resources"
_CONFIGS: dict[str, type[Any]] = {
    "master": MasterConfig,
    "minion": MinionConfig,
    "api": ApiConfig,
    "cloud": CloudConfig,
}


def reference() -> list[dict[str, Any]]:
    """The sections: `name`, `title`, `entries`."""
    return [
        {"name": "commands", "title": "Commands", "entries": _commands()},
        *({"name": kind, "title": title, "entries": _plugins(kind)} for kind, title in _PLUGINS.items()),
        {"name": _RESOURCES, "title": "Resource types", "entries": _resource_types()},
        {"name": "options", "title": "Options", "entries": _options()},
        {"name": "api", "title": "HTTP API", "entries": _paths()},
        {"name": "events", "title": "Events", "entries": [_events()]},
        {"name": "wire", "title": "Wire protocol", "entries": [_verbs(), _limits()]},
    ]


# -- commands


def _commands() -> list[Entry]:
    """`saltlite` alone, which runs a job, and the others by their first word."""
    job = {"name": "saltlite", "signatures": [_help(lambda: JOB.parse(["--help"]))], "doc": "", "notes": []}
    entries = [_entry("saltlite", "Run a function on minions and resources.", [job])]
    for noun in commands.members(""):
        names = [name for name in commands.COMMANDS if name.partition(" ")[0] == noun]
        items = [{"name": name, "signatures": [_help(partial(_call, name))], "doc": "", "notes": []} for name in names]
        entries.append(_entry(noun, " ".join(commands.COMMANDS[name][1] for name in names), items))
    return entries


def _call(name: str) -> int:
    return commands.load(name)(["--help"], Console(None, None, None))


def _help(ask: Callable[[], object]) -> str:
    """The help text that `ask` raises."""
    try:
        ask()
    except HelpAsked as asked:
        return str(asked).strip()
    raise AssertionError("a command line with --help does nothing but help")


# -- plug-ins


SEVERAL = "Each machine has one of these:"
"""Before the summaries of a module that is another file on each platform."""


def _plugins(kind: str) -> list[Entry]:
    index = _shipped(kind)
    return [_module(index, name) for name in index.all_names()]


def _shipped(kind: str) -> Index:
    return build_index([layer for layer in search_layers({"salt_compat": "off"}, kind) if layer.name == SHIPPED])


def _module(index: Index, name: str) -> Entry:
    files = [(file, read_documents(file)) for file in index.all_claimants(name)]
    docs = list(dict.fromkeys(documents.doc for _file, documents in files if documents.doc))
    doc = docs[0] if len(docs) == 1 else " ".join([SEVERAL, *map(_summary, docs)]) if docs else ""
    items: dict[str, Item] = {}
    for file, documents in files:
        for item in _functions(name, file, documents):
            first = items.setdefault(item["name"], item)
            first["signatures"] += [text for text in item["signatures"] if text not in first["signatures"]]
            first["notes"] += [note for note in item["notes"] if note not in first["notes"]]
    return _entry(name, doc, [items[fun] for fun in sorted(items)])


def _functions(module: str, file: ModuleFile, documents: Documents) -> Iterator[Item]:
    for function, text in zip(file.functions, file.texts, strict=True):
        name, signature, risk = parse_signature(f"{module}.{text}")
        described = documents.functions.get(function)
        yield {
            "name": name,
            "signatures": [name if signature is None else show_signature(name, signature)],
            "doc": (described.doc if described is not None else "") or "",
            "notes": [f"It carries the risk {risk}, which has to be confirmed."] if risk else [],
        }


def _resource_types() -> list[Entry]:
    """Each type with the functions that can be called on its resources."""
    index, found = _shipped(_RESOURCES), []
    for name in index.all_names():
        doc = next((read_documents(file).doc for file in index.all_claimants(name)), "")
        slots = _shipped(f"{_RESOURCES}/{name}/modules")
        found.append(
            _entry(name, doc, [item for module in slots.all_names() for item in _module(slots, module)["items"]])
        )
    return found


def runners(config_dir: str) -> dict[str, Item]:
    """The functions of runners: name -> `signatures`, `risk` and `doc`. Raises ConfigError."""
    config = load_master(config_dir).config
    # No file of the cache is a runner.
    opts = {**opts_of(config, ""), "cachedir": ""}
    index = build_index(search_layers(opts, "runners"))
    found: dict[str, Item] = {}
    for module in index.all_names():
        for file in index.all_claimants(module):
            documents = read_documents(file)
            for function, text in zip(file.functions, file.texts, strict=True):
                described = documents.functions.get(function)
                name, _, risk = parse_signature(f"{module}.{text}")
                # The first file has the function that is called.
                found.setdefault(
                    name,
                    {
                        "signatures": [f"{module}.{text}"],
                        "risk": risk,
                        "doc": (described.doc if described is not None else "") or "",
                    },
                )
    return found


# -- options and paths


def _options() -> list[Entry]:
    return [
        _entry(name, f"Options of the file `{name}`.", [_option(one) for one in options_of(config).values()])
        for name, config in _CONFIGS.items()
    ]


def _option(one: Option) -> Item:
    unit = f" ({one.unit})" if one.unit else ""
    return {
        "name": one.name,
        "signatures": [f"{one.name}: {one.takes.spell(one.default)}"],
        "doc": one.doc,
        "notes": [
            f"Takes {one.takes.wants()}{unit}.",
            *(["It is a secret."] if one.secret else []),
            f"Since {one.since}.",
        ],
    }


def _paths() -> list[Entry]:
    """The operations of the OpenAPI document by the first part of their path."""
    parts: dict[str, list[Item]] = {}
    for path, operations in document()["paths"].items():
        first = path.split("/")[1].split(".")[0] or "root"
        for method, operation in operations.items():
            parts.setdefault(first, []).append(_operation(path, method, operation))
    return [
        _entry(first, f"Requests to {items[0]['signatures'][0].split()[1]}", items) for first, items in parts.items()
    ]


def _operation(path: str, method: str, operation: dict[str, Any]) -> Item:
    given = [f"{one['name']} ({one['in']})" for one in operation.get("parameters", ())]
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    statuses = [code for code in operation["responses"] if code.startswith("2")]
    return {
        "name": operation["operationId"],
        "signatures": [f"{method.upper()} {path}"],
        "doc": operation["summary"],
        "notes": [
            *([f"Parameters: {', '.join(given)}."] if given else []),
            *([f"Body: {_schema(body)}."] if body else []),
            *([f"Answers {', '.join(statuses)}."] if statuses else []),
            *(["It takes no login."] if operation.get("security") == [] else []),
        ],
    }


def _schema(schema: dict[str, Any]) -> str:
    """A schema in a few words; the OpenAPI document has all of it."""
    if "$ref" in schema:
        named: dict[str, Any] = document()["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
        return _schema(named)
    if "anyOf" in schema:
        return ", or ".join(_schema(one) for one in schema["anyOf"])
    if schema.get("type") == "array":
        return f"a list of {_schema(schema['items'])}" if "$ref" not in schema.get("items", {}) else "a list of these"
    required = schema.get("required", ())
    fields = [f"{name}{'' if name in required else '?'}" for name in schema.get("properties", {})]
    return f"a map of {', '.join(fields)}" if fields else "any value"


# -- events, and what master and minions send to each other


def _events() -> Entry:
    """The tags that the core uses, with the names of their parts in capitals."""
    tags = [function for name, function in vars(events).items() if name.startswith("tag_") and name != "tag_of_minion"]
    items = []
    for function in tags:
        parts = {name: name.upper() for name in inspect.signature(function).parameters}
        items.append({"name": function(**parts), "signatures": [], "doc": inspect.getdoc(function) or "", "notes": []})
    return _entry("tags", "Tags of the events that master and minions write.", items)


def _verbs() -> Entry:
    items = [
        {
            "name": name,
            "signatures": [f"{name}: {', '.join([*verb.fields, *(f'{one}?' for one in verb.optional or ())])}"],
            "doc": "",
            "notes": [
                f"Sent by the {verb.sender}.",
                *(["Also in the session of a minion whose key waits."] if verb.before_accept else []),
            ],
        }
        for name, verb in messages.VERBS.items()
    ]
    return _entry("messages", inspect.getdoc(messages), items)


def _limits() -> Entry:
    """The constants of `saltlite.wire.limits` with their docstrings."""
    items = []
    for one, following in pairwise(ast.parse(inspect.getsource(limits)).body):
        match one, following:
            case ast.Assign(targets=[ast.Name(id=name)]), ast.Expr(value=ast.Constant(value=str(doc))):
                signature = f"{name} = {getattr(limits, name)!r}"
                items.append({"name": name, "signatures": [signature], "doc": inspect.cleandoc(doc), "notes": []})
    return _entry("limits", inspect.getdoc(limits), items)


def _summary(doc: str | None) -> str:
    """The first paragraph."""
    return " ".join((doc or "").strip().partition("\n\n")[0].split())


def _entry(name: str, doc: str | None, items: list[Item]) -> Entry:
    return {"name": name, "summary": _summary(doc), "doc": doc or "", "items": items}


if __name__ == "__main__":
    gc.disable()  # syntax trees are a million objects of which none is garbage: a third of the time
    os.nice(NICER)
    json.dump(runners(sys.argv[1]) if sys.argv[1:] else reference(), sys.stdout)
