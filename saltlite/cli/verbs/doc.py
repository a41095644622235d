"""`saltlite doc` and `saltlite explain`: what functions do and which minions have them; which file provides a module.

`doc` reads the files of this machine without importing them. `explain` says why other files do not provide the module,
and how the chosen one implements its interface. Both know executors and cloud drivers, too, as `executors.NAME` and
`clouds.NAME`; `doc executors` and `doc clouds` list them.
"""

from __future__ import annotations

import contextlib
import os
import textwrap
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from saltlite.cli import exitcodes
from saltlite.cli.commands import command_table, config_dir_of
from saltlite.cli.connect import open_client
from saltlite.cli.options import Option
from saltlite.cli.output import columns, print_answer, width_for
from saltlite.cli.targets import nodeset
from saltlite.client.follower import Progress, WaitPolicy
from saltlite.client.local import JobCall
from saltlite.config.load import is_configured, load_side
from saltlite.config.opts import opts_of
from saltlite.config.paths import DEFAULT_CONFIG_DIR
from saltlite.errors import ConfigError, NoTargetError, SaltliteError, UnreachableError, UsageError, nearest
from saltlite.interfaces import Platforms
from saltlite.interfaces.smi.report import show_parameters
from saltlite.loader.formats import ArchiveError
from saltlite.loader.index import build_index
from saltlite.loader.loader import read_documents
from saltlite.loader.search_path import MODULES, SHIPPED, Form, Layer, search_layers
from saltlite.model.plain import printable
from saltlite.model.signature import parse_signature, show_signature

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from saltlite.cli.console import Console
    from saltlite.cli.options import Parsed
    from saltlite.lint.source import Declaration, SourceInterface
    from saltlite.loader.index import Index, ModuleFile
    from saltlite.loader.loader import Description


_CLOUDS = "clouds"
_RESOURCES = "resources"
_KINDS = ("executors", _CLOUDS, _RESOURCES)
"""Plug-in types besides execution modules."""

_GONE = (SyntaxError, OSError, ArchiveError)
"""A file that can no longer be read."""


class Provided(NamedTuple):
    """A function as one file has it."""

    file: str
    """The file's name without its ending."""
    layer: str
    path: str
    signature: str
    """For people; only the name where the file's text does not show the parameters."""
    risk: str
    doc: str


class DocumentedDeclaration(NamedTuple):
    """A function as the interface of its module declares it."""

    interface: str
    """The interface's name and version."""
    path: str
    signature: str
    where: str
    """For people: the platforms that have it, or where it has nothing to do."""
    doc: str


def index_of(opts: Mapping[str, Any], kind: str = MODULES) -> Index:
    """The plug-ins of a configuration: those in `_<kind>` of its file_roots, and those of the loader."""
    layers = search_layers(opts, kind)
    roots = [folder for folders in (opts.get("file_roots") or {}).values() for folder in folders]
    synced = [Layer("file_roots", os.path.join(root, f"_{kind}"), kind, layers[0].forms) for root in roots]
    return build_index([*synced, *layers])


def providers_of(index: Index, fun: str) -> list[Provided]:
    """The function in each file that may provide it, in order of precedence."""
    module, _, function = fun.partition(".")
    found = []
    for file in index.all_claimants(module):
        texts = dict(zip(file.functions, file.texts, strict=True))
        if function not in texts:
            continue
        name, signature, risk = parse_signature(f"{module}.{texts[function]}")
        described = _descriptions(file).get(function)
        doc = described.doc if described is not None and described.doc is not None else ""
        shown = name if signature is None else show_signature(name, signature)
        found.append(Provided(file.stem, file.layer, file.path, shown, risk, doc))
    return found


def function_summaries(index: Index, module: str) -> dict[str, str]:
    """`module.function` -> the first line of its docstring, for every declared function; sorted."""
    found: dict[str, str] = {}
    for file in index.all_claimants(module):
        described = _descriptions(file)
        for function in file.functions:
            doc = described[function].doc if function in described else None
            found.setdefault(f"{module}.{function}", _first_line(doc))
    return dict(sorted(found.items()))


def module_summaries(index: Index) -> dict[str, str]:
    """Module -> the first line of its docstring."""
    return {name: _summary(next(index.all_claimants(name))) for name in index.all_names()}


def _summary(file: ModuleFile) -> str:
    if file.failure is not None:
        return file.failure.sentence(file.stem)
    return _first_line(_module_doc(file))


def _module_doc(file: ModuleFile) -> str:
    """The docstring of a file, "" without one."""
    if file.form in (Form.EXTENSION, Form.CYTHON):
        return ""
    try:
        return read_documents(file).doc or ""
    except _GONE:
        return ""


def _first_line(doc: str | None) -> str:
    """The first paragraph on one line."""
    return " ".join((doc or "").strip().partition("\n\n")[0].split())


def _descriptions(file: ModuleFile) -> dict[str, Description]:
    try:
        return dict(read_documents(file).functions)
    except _GONE:
        return {}


def interfaces_of(opts: Mapping[str, Any], module: str) -> list[SourceInterface]:
    """The interface of a virtual module and its extensions, from the text of files; empty without one."""
    from saltlite.lint.run import SHIPPED as FOLDER  # a tenth of a second that most words do not need
    from saltlite.lint.run import by_module
    from saltlite.lint.source import read_interfaces, read_tree
    from saltlite.loader.contracts import SHIPPED_INTERFACES

    path = os.path.join(FOLDER, f"{module}.py")
    shipped = read_interfaces(path, read_tree(path), {}) if module in SHIPPED_INTERFACES else []
    return by_module([*shipped, *custom_interfaces(opts, shipped)]).get(module, [])


def custom_interfaces(opts: Mapping[str, Any], shipped: Sequence[SourceInterface]) -> Iterator[SourceInterface]:
    """The interfaces in the folders of plug-ins and in `_interfaces` of file_roots; a file that fails is for `lint`."""
    from saltlite.lint.source import read_interfaces, read_tree
    from saltlite.loader.contracts import INTERFACES

    known = {one.name: one for one in shipped}
    # A later interface replaces an earlier one, and the first folder takes precedence.
    for file in reversed(index_of(opts, INTERFACES).files):
        if file.layer != SHIPPED:
            with contextlib.suppress(SyntaxError, OSError, UsageError):
                yield from read_interfaces(file.path, read_tree(file.path), known)


def declared_functions(opts: Mapping[str, Any], module: str) -> dict[str, DocumentedDeclaration]:
    """`module.function` -> what the module's interface declares, for every function of it."""
    parts = interfaces_of(opts, module)
    found = {}
    for one in parts:
        for fun, declaration in one.functions.items():
            title = f"interface {module} {parts[0].version}"
            found[f"{module}.{fun}"] = _declared(f"{module}.{fun}", title, one.path, declaration)
    return found


def _declared(fun: str, title: str, path: str, declaration: Declaration) -> DocumentedDeclaration:
    function = declaration.function
    where = f"supported on {Platforms(declaration.supported).text()}" if declaration.supported else ""
    idle = f"not applicable on {Platforms(declaration.not_applicable).text()}" if declaration.not_applicable else ""
    return DocumentedDeclaration(
        title, path, f"{fun}{show_parameters(function.signature)}", "; ".join(filter(None, (where, idle))), function.doc
    )


def run(argv: Sequence[str], console: Console) -> int:
    """Show one function, one module, or all modules. Raises UsageError for an unknown name."""
    parsed = command_table("doc").parse(argv)
    console.quiet = parsed.on("quiet")
    if len(parsed.words) > 1:
        raise UsageError("say one module or one function: saltlite doc pkg.install")
    opts = configured_opts(config_dir_of(parsed))
    name = parsed.words[0] if parsed.words else ""
    kind, _, plugin = name.partition(".")
    if kind in _KINDS:
        _show_kind(kind, plugin, index_of({**opts, **_cloud_dirs(kind, parsed)}, kind), parsed, console)
        return exitcodes.OK
    index = index_of(opts)
    if "." in name:
        _show_function(name, index, declared_functions(opts, kind).get(name), parsed, console)
    elif name:
        _show_module(name, index, declared_functions(opts, name), parsed, console)
    else:
        _show_all(index, parsed, console)
    return exitcodes.OK


def configured_opts(config_dir: str) -> dict[str, Any]:
    """The options of the configured side, the master's if both are; empty without one."""
    for side in ("master", "minion"):
        if is_configured(config_dir, side):
            return opts_of(load_side(config_dir, side).config, "")
    if config_dir != DEFAULT_CONFIG_DIR:
        raise ConfigError(f"{config_dir} has neither a file 'master' nor a file 'minion'; name another folder with -c")
    return {}


def _cloud_dirs(kind: str, parsed: Parsed) -> dict[str, Any]:
    """The option of the file `cloud` that names folders of drivers. Raises ConfigError."""
    if kind != _CLOUDS:
        return {}
    from saltlite.cloud.program.files import load_cloud

    return {"cloud_dirs": load_cloud(config_dir_of(parsed)).config.cloud_dirs}


def _show_kind(kind: str, plugin: str, index: Index, parsed: Parsed, console: Console) -> None:
    """All plug-ins of a type, or one of them with its functions."""
    if not plugin:
        found = module_summaries(index)
        print_answer({kind: found}, _table(found, console), parsed, console)
        return
    file = next(index.all_claimants(plugin), None)
    if file is None:
        raise _unknown(f"{kind}.{plugin}", [f"{kind}.{name}" for name in index.names()])
    functions = _slots(plugin, parsed) if kind == _RESOURCES else function_summaries(index, plugin)
    doc = ("" if file.failure is None else file.failure.sentence(file.stem)) or _module_doc(file)
    origin = _origin(file.stem, file.layer, file.path)
    text = textwrap.indent("\n".join(printable(line) for line in doc.splitlines()), "    ")
    answer = {"file": file.stem, "layer": file.layer, "path": file.path, "doc": doc, "functions": functions}
    shown = f"{kind}.{plugin}\n    {origin}\n\n{text or '    It has no docstring.'}\n\n{_table(functions, console)}"
    print_answer({f"{kind}.{plugin}": answer}, shown, parsed, console)


def _slots(type_name: str, parsed: Parsed) -> dict[str, str]:
    """The functions that can be called on resources of a type, with the first lines of their docstrings."""
    index = index_of(configured_opts(config_dir_of(parsed)), f"{_RESOURCES}/{type_name}/modules")
    found = (function_summaries(index, module) for module in index.names())
    return {name: line for one in found for name, line in one.items()}


def _show_all(index: Index, parsed: Parsed, console: Console) -> None:
    found = module_summaries(index)
    print_answer({"modules": found}, _table(found, console), parsed, console)


def _show_module(
    module: str, index: Index, declared: Mapping[str, DocumentedDeclaration], parsed: Parsed, console: Console
) -> None:
    found = function_summaries(index, module) or _functions_on_minions(module, parsed)
    for fun, one in declared.items():
        first = _first_line(one.doc)
        lacking = f"no module here has it{f'; {one.where}' if one.where else ''}"
        found[fun] = (found[fun] or first) if fun in found else f"{first} ({lacking})".strip()
    found = dict(sorted(found.items()))
    if not found:
        raise _without_functions(module, index, parsed)
    print_answer({"module": module, "functions": found}, _table(found, console), parsed, console)


def _functions_on_minions(module: str, parsed: Parsed) -> dict[str, str]:
    """The functions of a module that only minions have, each with where to read on; empty when the master cannot be
    asked.
    """
    try:
        with open_client(parsed) as client:
            names = client.call("complete", kind="function", prefix=f"{module}.")["words"]
    except SaltliteError:
        return {}
    return {name: f"only on minions: saltlite MINION sys.doc {name}" for name in names}


def _table(rows: Mapping[str, str], console: Console) -> str:
    shown = [(name, printable(text)) for name, text in rows.items()]
    return columns(shown, cut=(1,), width=width_for(console))


def _show_function(
    fun: str, index: Index, declared: DocumentedDeclaration | None, parsed: Parsed, console: Console
) -> None:
    providers = providers_of(index, fun)
    fleet = _ask(fun, parsed, console)
    if not providers and declared is None and not (fleet and fleet["signatures"]):
        raise _unknown(fun, index.function_names())
    answer = {
        "function": fun,
        "interface": None if declared is None else declared._asdict(),
        "providers": [one._asdict() for one in providers],
        "minions": fleet,
    }
    first = [_provider_text(one) for one in providers[:1]]
    others = [f"{one.signature}\n    {_origin(one.file, one.layer, one.path)}\n" for one in providers[1:]]
    above = [] if declared is None else [_declared_text(declared, providers)]
    signatures = () if providers or fleet is None else fleet["signatures"]
    rows = [_only_on_minions(fun, signatures)] if signatures else []
    text = "\n".join([*above, *first, *others, *rows, *([_fleet_text(fun, fleet)] if fleet else [])])
    print_answer(answer, text, parsed, console)


def _ask(fun: str, parsed: Parsed, console: Console) -> dict[str, Any] | None:
    """What the master knows about the function on its minions; None when it cannot be asked."""
    try:
        with open_client(parsed) as client:
            missing = client.call("missing_functions", fun=fun)
            described = client.call("describe", tgt="*", tgt_type="glob", funs=[fun])["functions"][fun]
    except SaltliteError as error:
        console.note(f"saltlite: it is unknown which minions have it: {error}")
        return None
    return {
        **{name: missing[name] for name in ("count", "missing", "names", "unknown", "unknown_names")},
        "signatures": described["signatures"],
    }


def _declared_text(one: DocumentedDeclaration, providers: Sequence[Provided]) -> str:
    """What the interface says, without what the first provider repeats."""
    origin = f"    from the {one.interface}{f', {one.where}' if one.where else ''}\n"
    repeats = bool(providers) and providers[0].doc.startswith(one.doc.rstrip("."))
    doc = "" if repeats else textwrap.indent("\n".join(printable(line) for line in one.doc.splitlines()), "    ")
    none = "" if providers else "\n    No module here has it.\n"
    return f"{one.signature}\n{origin}{none}" + (f"\n{doc}\n" if doc else "")


def _provider_text(one: Provided) -> str:
    doc = textwrap.indent("\n".join(printable(line) for line in one.doc.splitlines()), "    ")
    risk = f"    Risk: {one.risk}. To run it, type the number of minions, or pass --accept-risk.\n"
    origin = f"    {_origin(one.file, one.layer, one.path)}\n"
    return f"{one.signature}\n{origin}{risk if one.risk else ''}\n{doc or '    It has no docstring.'}\n"


def _origin(file: str, layer: str, path: str) -> str:
    return f"from {file}, {'which comes with saltlite' if layer == 'shipped' else path}"


def _only_on_minions(fun: str, signatures: Sequence[str]) -> str:
    shown = [
        fun if signature is None else show_signature(fun, signature)
        for _fun, signature, _risk in map(parse_signature, signatures)
    ]
    lines = "".join(f"{line}\n" for line in shown)
    return f"{lines}    from a module that only minions have: saltlite MINION sys.doc {fun}\n"


def _fleet_text(fun: str, fleet: Mapping[str, Any]) -> str:
    if not fleet["count"]:
        return "There is no accepted minion.\n"
    count, module = fleet["count"], fun.partition(".")[0]
    have = count - fleet["missing"] - fleet["unknown"]
    minions = f"{count} minion{'' if count == 1 else 's'}"
    lines = [f"{have} of {minions} have it; which file a minion uses: saltlite MINION sys.providers {module}"]
    if fleet["missing"]:
        ask = f"saltlite -L {fleet['names'][0]}"
        lines.append(f"missing: {nodeset(fleet['names'])} - why: {ask} sys.providers {module}; {ask} sys.not_loaded")
    if fleet["unknown"]:
        names = nodeset(fleet["unknown_names"])
        lines.append(f"not known: {names} - to find out: saltlite MINION sys.list_functions {fun}")
    return "\n".join(lines) + "\n"


def _unknown(name: str, known: Sequence[str]) -> UsageError:
    near = nearest(name, known)
    return UsageError(
        f"there is no {name!r} in the modules here; "
        + (f"did you mean {near}?" if near else "`saltlite doc` lists them")
    )


def _without_functions(module: str, index: Index, parsed: Parsed) -> UsageError:
    file = next(index.all_claimants(module), None)
    if file is not None:
        refusal = "" if file.failure is None else file.failure.sentence(file.stem)
        return UsageError(refusal or f"{file.path} has no functions")
    opts = configured_opts(config_dir_of(parsed))
    kinds = [kind for kind in _KINDS if next(index_of(opts, kind).all_claimants(module), None)]
    if kinds:
        return UsageError(f"there is no module {module!r}; did you mean {kinds[0]}.{module}?")
    return _unknown(module, index.names())


CALLS = ("sys.providers", "smi.conformance")
"""Called in one job."""

Answer = dict[str, Any]


def run_explain(argv: Sequence[str], console: Console) -> int:
    """Ask one minion, or look at this machine. NOTHING_MATCHED when no file there could provide the module."""
    parsed = command_table(
        "explain",
        Option("--local", help="look at this machine, as its minion would"),
    ).parse(argv)
    console.quiet = parsed.on("quiet")
    wanted = 1 if parsed.on("local") else 2
    if len(parsed.words) != wanted or _is_function(parsed.words[0]):
        raise UsageError("say a module and a minion, or --local: saltlite explain pkg web1")
    module = parsed.words[0]
    kind = module.partition(".")[0]
    if kind == _CLOUDS and not parsed.on("local"):
        raise UsageError("drivers of clouds run on this machine: saltlite explain clouds.NAME --local")
    calls = CALLS[:1] if kind in _KINDS else CALLS
    answer = _look_here(module, calls, parsed) if parsed.on("local") else _ask_minion(module, calls, parsed)
    candidates = answer["sys.providers"][module]
    report = answer.get("smi.conformance", {}).get(module)
    where = "this machine" if parsed.on("local") else parsed.words[1]
    print_answer(
        {"candidates": candidates, "interface": report},
        _explanation(module, where, candidates, report),
        parsed,
        console,
    )
    return exitcodes.OK if candidates else exitcodes.NOTHING_MATCHED


def _is_function(name: str) -> bool:
    """Whether this names a function, and not a module or a plug-in of another type."""
    kind, dot, _plugin = name.partition(".")
    return bool(dot) and kind not in _KINDS


def _ask_minion(module: str, calls: Sequence[str], parsed: Parsed) -> Answer:
    minion = parsed.words[1]
    more: list[tuple[str, Sequence[Any], Mapping[str, Any]]] = [(fun, [module], {}) for fun in calls[1:]]
    job = JobCall([minion], calls[0], arg=[module], tgt_type="list", more=more)
    with open_client(parsed) as client:
        published = client.publish(job, follow=True)
        if minion in published.away:
            raise UnreachableError(f"{minion} is not connected: try again when it is back")
        progress = Progress(published, now=time.monotonic())
        for reply in client.watch(progress, WaitPolicy(published.timeout_s)):
            # The return of a single function is not below its name.
            value = {calls[0]: reply.value} if len(calls) == 1 and reply.retcode == 0 else reply.value
            return _checked(minion, calls, value)
    raise UnreachableError(f"{minion} did not answer: look with `saltlite job show {published.jid}`")


def _checked(minion: str, calls: Sequence[str], value: object) -> Answer:
    """The minion's answer. Raises NoTargetError when it is malformed."""
    if isinstance(value, dict) and all(isinstance(value.get(fun), dict) for fun in calls):
        return value
    problems = [value] if isinstance(value, str) else list(value.values()) if isinstance(value, dict) else []
    changed = (
        "its answer is not that of `sys.providers`; an executor of the minion may have changed it: "
        "`saltlite explain MODULE --local` on the minion runs no executor"
    )
    reason = next((one for one in problems if isinstance(one, str)), changed)
    raise NoTargetError(f"{minion} could not answer: {reason}")


def _look_here(module: str, calls: Sequence[str], parsed: Parsed) -> Answer:
    kind, _, plugin = module.partition(".")
    if kind == _CLOUDS:
        return {"sys.providers": {module: _drivers(plugin, parsed)}}
    from saltlite.cli.in_process import find_grains
    from saltlite.config.load import load_minion
    from saltlite.config.opts import opts_of
    from saltlite.loader.call import call
    from saltlite.loader.index import build_index
    from saltlite.loader.loader import Loader
    from saltlite.loader.search_path import search_layers
    from saltlite.plugins.grains.network import names

    config = load_minion(config_dir_of(parsed)).config
    opts = opts_of(config, config.id or names()["fqdn"].lower())
    loader = Loader(build_index(search_layers(opts)), opts, find_grains(opts), {})
    found = {}
    for fun in calls:
        outcome = call(loader, fun, [module], {})
        if outcome.retcode:
            raise SaltliteError(str(outcome.value))
        found[fun] = outcome.value
    return found


def _drivers(name: str, parsed: Parsed) -> list[dict[str, Any]]:
    """The files that could provide a driver, as `sys.providers` returns those of a module."""
    from saltlite.cloud.program import app

    with open_client(parsed) as client:
        program = app.open_program(config_dir_of(parsed), client, lambda _machine, _text: None)
        return [
            {"file": one.stem, "path": one.path, "layer": one.layer, "chosen": one.chosen, "reason": one.reason}
            for one in program.drivers.candidates(name)
        ]


def _explanation(
    module: str, where: str, candidates: Sequence[Mapping[str, Any]], report: Mapping[str, Any] | None
) -> str:
    if not candidates:
        return f"{module}: no file of {where} could provide it\n"
    lines = []
    for one in candidates:
        mark = "provides it" if one["chosen"] else f"does not: {one['reason']}"
        lines.append(f"{one['file']} ({one['layer']}) {mark}\n  {one['path']}")
    if report is not None:
        counts = ", ".join(f"{count} {state.replace('_', ' ')}" for state, count in sorted(report["counts"].items()))
        lines.append(f"interface {report['interface']} {report['version']}: {counts}")
        not_implemented = [fun for fun, row in report["functions"].items() if row["state"] == "not_implemented"]
        lines += [f"  not implemented: {', '.join(not_implemented)}"] if not_implemented else []
        for fun, row in report["functions"].items():
            bad = [one["text"] for one in row["differences"] if one["level"] != "ok"]
            noted = [row["note"]] if row["note"] else []
            if bad or noted:
                lines.append(f"  {fun}: {'; '.join([*noted, *bad])}")
    return "".join(f"{line}\n" for line in lines)
