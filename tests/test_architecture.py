"""The rules of this code base that a machine can check. `saltlite/docs/architecture.md` says why they are there."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
PRODUCT = sorted((ROOT / "saltlite").rglob("*.py"))
DAEMONS = sorted((ROOT / "daemons").glob("*.py"))

FILE_LINES_MAX = 800
FUNCTION_LINES_MAX = 80
CLASS_LINES_MAX = 600
ENTRY_POINT_LINES_MAX = 30

PLUGIN_FOLDERS = (
    "docs/examples/",
    "plugins/",
    "resources/slots/",
    "resources/types/",
    "auth/backends/",
    "interfaces/",
    "cloud/drivers/",
    "cloud/api/",
    "salt/",
)
KINDS_APART = ("plugins/modules/", "cloud/drivers/")
"""Folders with so many plug-ins that each is to be understood alone."""
DUNDERS = {
    "__active_provider_name__", "__client__", "__cloud__", "__config__", "__context__", "__events__", "__execution__",
    "__executors__", "__func_alias__", "__grains__", "__master__", "__matches__", "__minion__", "__minion_key__",
    "__opts__", "__pillar__", "__proxy__", "__resource__", "__resource_funcs__", "__salt__",
    "__salt_system_encoding__", "__timers__", "__utils__", "__virtual__", "__virtualname__",
}  # fmt: skip

SYNONYMS = {
    "agent": "minion",
    "fact": "grain",
    "node": "minion",
    "slave": "minion",
    "task": "job",
    "worker": "MWorker",
}
"""Words that readers who know Salt would have to translate, and the word to use."""
SYNONYMS_WITH_A_REASON = {
    ("cloud/api/cloud.py", "node"): "the argument's name in Salt",
    ("cloud/api/cloud.py", "nodes"): "the argument's name in Salt",
    ("config/master.py", "worker_threads"): "the option's name in Salt",
    ("config/minion.py", "resource_workers"): "an option, named as worker_threads is",
    ("interfaces/service.py", "create_win_salt_restart_task"): "the function's name in Salt",
    ("interfaces/service.py", "execute_salt_restart_task"): "the function's name in Salt",
    ("plugins/modules/http.py", "agent"): "the argument's name in Salt: HTTP's User-Agent",
    ("wire/merkle.py", "node"): "of a tree; no machine is meant",
}
RENAMED = {
    "bell": "wake-up",
    "clones": "duplicate_keys",
    "desk": "file service",
    "door": "ConnectionLimiter",
    "doorway": "handshakes",
    "errand": "rpc",
    "filelane": "request_queue",
    "fitting": "function_support",
    "fold": "nodeset",
    "guest": "local_clients, or salt_compat in the loader",
    "handing": "result_queue",
    "heard": "received, or last_seen",
    "hub": "session manager",
    "lanes": "slots",
    "lowest": "salt_files",
    "namesake": "id_collision",
    "nobody": "the noun that is meant",
    "office": "AppContext",
    "owntargets": "local_matcher",
    "pace": "RateLimiter",
    "parcel": "delivery",
    "passing": "transient",
    "remembering": "journal_recovery",
    "saltguests": "salt_compat",
    "spare": "prefork pool",
    "somebody": "the noun that is meant",
    "stranger": "unauthenticated",
    "stray": "undeclared",
    "straycalls": "undeclared_calls",
    "upkeep": "registry_maintenance",
}
"""Words that modules, classes and functions once had in their names, and the field's term for each."""
METAPHORS = {"desk", "door", "guest", "hand", "liar", "office", "storm", "traitor"}
"""Words that helper classes of the tests once had in their names."""
SHARED_CLASS_NAMES = {
    "Change", "Finding", "Follower", "Hook", "Kind", "Login", "Machine", "Master", "Option", "Severity", "Step",
    "Wheel",
}  # fmt: skip
"""Class names of several packages, which the package of each makes plain. No new one: a class name stands once."""
NAMES_OF_DRIVERS = {
    "cache_node", "cache_node_list", "get_node", "list_nodes", "list_nodes_full", "list_nodes_min", "list_nodes_select",
}  # fmt: skip
"""What Salt's contract for drivers of clouds calls them: they are no words of ours."""
NAMES_THAT_SAY_NOTHING = {"common", "helper", "helpers", "misc", "shared", "util", "utils"}
CLASSES_THAT_SAY_NOTHING = re.compile(r"^_?(Base|Abstract)[A-Z]|(Helper|Impl|(?<!Session)Manager)$")

SOMEBODYS_MACHINE = re.compile(r"(?<![\w.\-*}])/(?:home|Users|root|work|workspace|mnt|media)/\w")
"""Absolute paths of the machine that something was written on."""


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(parsed(path)))


def name_of(path: Path) -> str:
    return path.relative_to(ROOT / "saltlite").as_posix()


def for_each(paths: Sequence[Path]) -> Callable[[Callable[[Path], None]], Callable[[], None]]:
    """A test that looks at every one of these files, and names all that break its rule.

    One test a rule: thousands of tests that take a millisecond each take a minute of pytest's own time.
    """

    def made(rule: Callable[[Path], None]) -> Callable[[], None]:
        def test() -> None:
            broken = []
            for path in paths:
                try:
                    rule(path)
                except AssertionError as error:
                    broken.append(f"{path.relative_to(ROOT)}: {error}")
            assert paths
            assert not broken, "\n".join(broken)

        test.__doc__ = rule.__doc__
        return test

    return made


def committed_files() -> list[Path]:
    """What is in git or would be added; without git, everything that is no product of a tool."""
    asked = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    if asked.returncode == 0:
        paths = [ROOT / os.fsdecode(name) for name in asked.stdout.split(b"\0") if name]
    else:
        paths = [
            path
            for folder in ("saltlite", "daemons", "conf", "tests", "systemd")
            for path in (ROOT / folder).rglob("*")
        ]
    return [path for path in paths if path.is_file() and path.suffix != ".pyc"]


def defined_names(tree: ast.Module) -> Iterator[str]:
    """Every name that a file gives to something: functions, classes, arguments, variables, attributes."""
    for item in ast.walk(tree):
        match item:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield name


def words_of(name: str) -> set[str]:
    """`JobServer_ports` -> {"job", "server", "ports", "port"}; plurals count as their singular."""
    words = [word.lower() for word in re.findall(r"MWorker|[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)]
    return set(words) | {word.removesuffix("s") for word in words}


def test_the_import_contracts_of_pyproject_are_kept() -> None:
    # In a process of its own: import-linter configures logging, and so disables every logger of this one.
    program = (
        "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True, no_logo=True))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def imported_siblings(path: Path, kind: str) -> Iterator[str]:
    """What a plug-in file imports of the folder of its kind (`plugins/modules/`), without it: `_programs`,
    `file._text`.
    """
    package = list(path.relative_to(ROOT).parent.parts)
    for item in nodes(path):
        match item:
            case ast.Import(names=names):
                found = [alias.name for alias in names]
            case ast.ImportFrom(module=module, names=names, level=level):
                above = package[: len(package) - level + 1] if level else []
                found = [".".join([*above, *([module] if module else []), alias.name]) for alias in names]
            case _:
                continue
        folder = "saltlite." + kind.replace("/", ".")
        yield from (name.removeprefix(folder) for name in found if name.startswith(folder))


@for_each([path for path in PRODUCT if name_of(path).startswith(KINDS_APART)])
def test_a_plugin_imports_no_other_but_private_files_of_the_same_folder(path: Path) -> None:
    """Other modules are reached through `__salt__`; `_x.py` is an idea that several of them share."""
    kind = next(kind for kind in KINDS_APART if name_of(path).startswith(kind))
    own = name_of(path).removeprefix(kind).removesuffix(".py").split("/")[0]
    for name in imported_siblings(path, kind):
        first = name.split(".")[0]
        private = first.startswith("_") and not (ROOT / "saltlite" / kind / first).is_dir()
        assert private or first == own, f"it imports {name}: use __salt__, or share a private file"


def test_the_layers_that_are_described_are_those_of_the_contract() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    layers = next(contract["layers"] for contract in contracts if contract["id"] == "layers")
    described = (
        (ROOT / "saltlite" / "docs" / "architecture.md")
        .read_text(encoding="utf-8")
        .split("## Layers")[1]
        .split("```")[1]
    )
    names = [re.split(r"  +", line)[0] for line in described.splitlines()[1:]]
    assert names == ["daemons/", *layers]


def test_what_architecture_says_to_edit_is_there() -> None:
    table = (ROOT / "saltlite" / "docs" / "architecture.md").read_text(encoding="utf-8").split("## To change")[1]
    paths = re.findall(r"`([a-z_/]+(?:/|\.py))`", table)
    assert len(paths) > 10
    assert [path for path in paths if not (ROOT / "saltlite" / path).exists()] == []


def test_every_module_that_is_imported_by_its_name_in_a_text_exists() -> None:
    """Such as MWORKER_MODULES of the master: no import contract and no type checker sees them."""
    modules = {"saltlite", *("saltlite." + name_of(path).removesuffix(".py").replace("/", ".") for path in PRODUCT)}
    modules |= {name.removesuffix(".__init__") for name in modules}
    named = re.compile(r"saltlite(\.[a-z_0-9]*[a-z0-9]){2,}")
    for path in PRODUCT:
        if not re.search(r"[\"']saltlite\.", path.read_text(encoding="utf-8")):
            continue
        for item in nodes(path):
            if isinstance(item, ast.Constant) and isinstance(item.value, str) and named.fullmatch(item.value):
                assert item.value in modules, f"{name_of(path)}: {item.value} is gone"


@for_each([*PRODUCT, *DAEMONS])
def test_a_file_and_its_parts_are_short_enough_to_be_read_at_once(path: Path) -> None:
    limit = ENTRY_POINT_LINES_MAX if path in DAEMONS else FILE_LINES_MAX
    assert len(path.read_text(encoding="utf-8").splitlines()) <= limit
    for item in nodes(path):
        if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            assert item.end_lineno is not None
            lines = item.end_lineno - item.lineno + 1
            longest = CLASS_LINES_MAX if isinstance(item, ast.ClassDef) else FUNCTION_LINES_MAX
            assert lines <= longest, f"{item.name} has {lines} lines, of at most {longest}"


@for_each([path for path in PRODUCT if not name_of(path).startswith("salt/")])
def test_names_are_salts_words_and_say_what_they_name(path: Path) -> None:
    names = {path.stem, *defined_names(parsed(path))}
    for name in names:
        if (name_of(path), name) not in SYNONYMS_WITH_A_REASON and name not in NAMES_OF_DRIVERS:
            synonyms = words_of(name) & SYNONYMS.keys()
            assert not synonyms, f"{name}: say " + ", ".join(SYNONYMS[word] for word in synonyms)
        assert not CLASSES_THAT_SAY_NOTHING.search(name), name
    assert path.stem not in NAMES_THAT_SAY_NOTHING
    assert path.parent.name not in NAMES_THAT_SAY_NOTHING


def named_objects(path: Path) -> Iterator[str]:
    """The names of the module, its classes and its functions."""
    yield path.stem
    for item in nodes(path):
        if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield item.name


@for_each(PRODUCT)
def test_no_name_has_a_word_that_the_field_does_not_know(path: Path) -> None:
    for name in named_objects(path):
        renamed = words_of(name) & RENAMED.keys()
        assert not renamed, f"{name}: say " + ", ".join(RENAMED[word] for word in renamed)


@for_each(sorted((ROOT / "tests").rglob("*.py")))
def test_no_helper_class_of_the_tests_is_a_metaphor(path: Path) -> None:
    for item in ast.walk(parsed(path)):
        if isinstance(item, ast.ClassDef):
            assert not words_of(item.name) & METAPHORS, f"{item.name}: a noun of the field says what it is"


def test_a_class_name_stands_once_or_its_package_makes_the_difference_plain() -> None:
    folders: dict[str, list[str]] = {}
    for path in PRODUCT:
        if name_of(path).startswith(PLUGIN_FOLDERS):
            continue
        for item in parsed(path).body:
            if isinstance(item, ast.ClassDef) and not item.name.startswith("_"):
                folders.setdefault(item.name, []).append(Path(name_of(path)).parent.as_posix())
    several = {name: found for name, found in folders.items() if len(found) > 1}
    assert sorted(several.keys() - SHARED_CLASS_NAMES) == []
    assert {name: found for name, found in several.items() if len(set(found)) < len(found)} == {}


def test_every_exception_from_the_vocabulary_is_still_needed() -> None:
    for name, identifier in SYNONYMS_WITH_A_REASON:
        assert identifier in defined_names(parsed(ROOT / "saltlite" / name)), f"{name}: {identifier} is gone"


@for_each([path for path in PRODUCT if not name_of(path).startswith((*PLUGIN_FOLDERS, "loader/"))])
def test_the_dunders_of_plugins_exist_in_plugins_only(path: Path) -> None:
    used = {item.id for item in nodes(path) if isinstance(item, ast.Name)}
    assert not used & DUNDERS


@for_each([path for path in PRODUCT if path.name == "__init__.py"])
def test_a_package_says_what_it_holds(path: Path) -> None:
    assert len(ast.get_docstring(parsed(path)) or "") > 20
    if path.parent.parent.name == "modules":
        assert ":maintainer:" in (ast.get_docstring(parsed(path)) or "")  # a module that is a folder


def pure_files() -> list[Path]:
    """The files of the packages and modules that the contract `pure` of pyproject.toml names."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    names = next(contract["source_modules"] for contract in contracts if contract["id"] == "pure")
    places = [name.removeprefix("saltlite.").replace(".", "/") for name in names]
    return [
        path
        for path in PRODUCT
        if name_of(path).startswith(tuple(f"{place}{end}" for place in places for end in ("/", ".py")))
    ]


@for_each(pure_files())
def test_what_is_pure_opens_no_file_and_reads_no_clock(path: Path) -> None:
    """What needs no import, and so no import contract can see."""
    forbidden = {"open", "print", "input", "exec", "eval", "__import__"}
    if name_of(path) == "model/dataclass.py":
        forbidden.remove("exec")  # it compiles methods from the names of fields, as `dataclasses` does
    for item in nodes(path):
        if isinstance(item, ast.Call):
            match item.func:
                case ast.Name(id=name):
                    assert name not in forbidden
                case ast.Attribute(value=ast.Name(id="datetime" | "date"), attr=name):
                    assert name not in {"now", "utcnow", "today"}


def test_the_entry_points_are_the_files_that_pyproject_names() -> None:
    assert [path.name for path in DAEMONS] == ["saltlite_api.py", "saltlite_master.py", "saltlite_minion.py"]


def test_no_committed_file_names_a_folder_of_the_machine_it_was_written_on() -> None:
    found = []
    for path in committed_files():
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
            if SOMEBODYS_MACHINE.search(line):
                found.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()}")
    assert not found


def swallows_everything(handler: ast.ExceptHandler) -> bool:
    """Whether it catches what it cannot know, and does not end by raising."""
    broad = handler.type is None or (
        isinstance(handler.type, ast.Name) and handler.type.id in {"Exception", "BaseException"}
    )
    return broad and not isinstance(handler.body[-1], ast.Raise)


@for_each([*PRODUCT, *DAEMONS])
def test_an_except_that_swallows_everything_says_why_it_may(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    for item in nodes(path):
        if isinstance(item, ast.ExceptHandler) and swallows_everything(item):
            assert re.search(r"# (noqa: BLE001 - )?(?!noqa)\w.{15,}", lines[item.lineno - 1]), f"line {item.lineno}"


@for_each([*PRODUCT, *DAEMONS])
def test_a_suppression_carries_its_reason(path: Path) -> None:
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        assert not re.search(r"# noqa(:[A-Z0-9, ]+)?$", line), f"line {number}: write `# noqa: CODE - reason`"
        assert not re.search(r"# type: ignore(\[[a-z, -]+\])?$", line), f"line {number}: write the reason behind it"


PAUSES_ON_PURPOSE = ("bench/", "compat/", "data/", "e2e/modules/", "faults/modules/")
"""Folders of tests/ that measure at rest, or whose functions run on minions and take as long as they are asked to."""


def pauses(tree: ast.AST, bounded: bool = False) -> Iterator[int]:
    """The lines that call time.sleep outside of a loop whose function reads the monotonic clock."""
    for item in ast.iter_child_nodes(tree):
        inside = bounded
        if isinstance(item, ast.FunctionDef):
            inside = False
        elif isinstance(item, ast.While):
            inside = bounded or "monotonic" in ast.unparse(tree)
        if isinstance(item, ast.Call) and ast.unparse(item.func) in {"time.sleep", "sleep"} and not inside:
            yield item.lineno
        yield from pauses(item, inside)


def test_tests_sleep_in_polls_with_a_bound_only() -> None:
    """`wait_until` of tests/support/fleet.py polls. A pause that is itself the fault says so in its line."""
    found = []
    for path in sorted((ROOT / "tests").rglob("*.py")):
        name = path.relative_to(ROOT / "tests").as_posix()
        if name.startswith(PAUSES_ON_PURPOSE):
            continue
        lines = path.read_text(encoding="utf-8").splitlines()
        if not any("sleep" in line for line in lines):
            continue
        found += [
            f"{name}:{number}: poll with `wait_until`, or say in the line why not"
            for number in pauses(parsed(path))
            if not re.search(r"  # \w.{5,}", lines[number - 1])
        ]
    assert not found
