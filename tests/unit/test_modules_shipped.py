"""What holds for every execution module that ships, and the modules that only read."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import pytest

import saltlite
from saltlite.loader.call import Outcome, call
from saltlite.loader.contracts import with_interfaces
from saltlite.loader.index import Index, ModuleFile, build_index
from saltlite.loader.loader import Loader, read_documents
from saltlite.loader.search_path import search_layers
from saltlite.wire.messages import FUNCTIONS_BYTES_MAX, functions_message

INDEX: Index = build_index(search_layers({}))
ALLOWED = (
    "saltlite.plugins._",
    "saltlite.errors",
    "saltlite.model",
    "saltlite.decorators",
    "saltlite.loader.hints",
    "saltlite.plugins.modules",
)

DEBIAN = {"os": "Debian", "os_family": "Debian", "osarch": "amd64"}

FOLDER = Path(saltlite.__file__).parent / "plugins" / "modules"


def run(fun: str, *args: Any, opts: dict[str, Any] | None = None, **kwargs: Any) -> Outcome:
    grains = {**DEBIAN, "host": "web1", "ip4_interfaces": {"eth0": ["192.0.2.1"]}}
    pillar = {"apache": {"port": 8080}}
    return call(Loader(INDEX, opts or {}, grains, pillar), fun, args, kwargs)


@pytest.mark.parametrize("file", INDEX.files, ids=lambda file: file.stem)
def test_every_function_is_documented_with_an_example_under_its_own_name(file: ModuleFile) -> None:
    for function, found in read_documents(file).functions.items():
        assert found.doc is not None
        assert "CLI Example:" in found.doc
        names = "|".join(map(re.escape, file.claims))
        assert re.search(rf"saltlite ('[^']+'|\S+) ({names})\.{re.escape(function)}\b", found.doc), function


def test_what_ships_is_told_to_the_master_whole_and_leaves_room_for_modules_of_a_site() -> None:
    texts = with_interfaces(INDEX.function_texts({}), {})
    assert functions_message(texts, whole=True)["functions"] == texts
    assert len("".join(texts).encode()) < FUNCTIONS_BYTES_MAX - 8 * 1024


@pytest.mark.parametrize("file", INDEX.files, ids=lambda file: file.stem)
def test_every_module_declares_who_keeps_it(file: ModuleFile) -> None:
    doc = ast.get_docstring(ast.parse(Path(file.path).read_text())) or ""
    assert [field for field in (":maintainer:", ":maturity:", ":platform:") if field not in doc] == []


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda p: p.stem)
def test_plug_ins_import_nothing_of_the_core(path: Path) -> None:
    tree = ast.parse(path.read_text())
    imports = [part for part in ast.walk(tree) if isinstance(part, ast.ImportFrom) and part.level == 0]
    imported = {f"{part.module}.{name.name}" for part in imports for name in part.names}
    mine = {name for name in imported if name.startswith("saltlite.")}
    assert {name for name in mine if not name.startswith(ALLOWED)} == set()


def test_no_shipped_file_computes_its_name() -> None:
    assert INDEX.undetermined == ()


def test_every_shipped_module_loads_on_debian(tmp_path: Path) -> None:
    (tmp_path / "cloud.providers").touch()  # as on the host of a master that makes machines
    reasons = Loader(INDEX, {"cloud.config_dir": str(tmp_path)}, DEBIAN, {}).not_loaded()
    assert {name: reason for name, reason in reasons.items() if "only works on" not in reason} == {}


def test_packages_say_why_they_are_absent_elsewhere() -> None:
    loader = Loader(INDEX, {}, {"os_family": "Plan9"}, {})
    said = call(loader, "pkg.version", ("bash",), {}).value
    assert said.startswith("'pkg' __virtual__ returned False: ")
    assert "The apt execution module cannot be loaded: only works on Debian family systems." in said


# --- test


def test_ping_is_true() -> None:
    assert run("test.ping") == Outcome(True, 0)


def test_arguments_are_shown_as_the_function_sees_them() -> None:
    assert run("test.arg", 1, "two", a=3).value == {"args": (1, "two"), "kwargs": {"a": 3}}
    assert run("test.arg_type", 1, a="x").value == {
        "args": ["<class 'int'>"],
        "kwargs": {"a": "<class 'str'>"},
    }
    assert run("test.arg_repr", 1, a="x").value == {"args": "(1,)", "kwargs": "{'a': 'x'}"}
    assert run("test.kwarg", a=1).value == {"a": 1}


def test_true_and_false_answer_under_their_plain_names() -> None:
    assert (run("test.true"), run("test.false")) == (Outcome(True, 0), Outcome(False, 0))
    assert run("test.true_").retcode == 1


def test_retcode_sets_the_return_code() -> None:
    assert run("test.retcode", 7) == Outcome(True, 7)


def test_collatz_and_fib_compute() -> None:
    assert run("test.collatz", 3).value[0] == [3, 10, 5, 16, 8, 4, 2]
    assert run("test.fib", 10).value[0] == 55


@pytest.mark.parametrize(("fun", "value"), [("test.collatz", 0), ("test.collatz", "x"), ("test.fib", -1)])
def test_numbers_out_of_range_are_refused(fun: str, value: Any) -> None:
    assert run(fun, value).value.startswith(f"ERROR executing '{fun}': ")


def test_a_random_hash_is_as_long_as_its_kind() -> None:
    lengths = [len(run("test.random_hash", hash_type=kind).value) for kind in (None, "md5", "sha512")]
    assert [*lengths, len(run("test.rand_str", 5).value)] == [64, 32, 128, 64]


def test_what_fails_is_tried_without_failing() -> None:
    assert run("test.try", "test.assertion", assertion=False) == Outcome(None, 0)
    assert run("test.try", "test.exception", True, message="oh").value == "oh"
    assert run("test.try", "test.echo", text="x").value == "x"


def test_the_stack_shows_who_called() -> None:
    assert "in stack" in run("test.stack").value


def test_arguments_are_shown_without_those_of_the_minion() -> None:
    said = call(Loader(INDEX, {}, {}, {}), "test.arg_clean", [1], {"a": 2}, pub={"jid": "20260131235959123456"})
    assert said.value == {"args": (1,), "kwargs": {"a": 2}}


@pytest.mark.parametrize("kwargs", [{"size": 0}, {"hash_type": "shake_128"}, {"hash_type": "nosuch"}])
def test_a_random_hash_beyond_reason_is_refused(kwargs: dict[str, Any]) -> None:
    assert run("test.rand_str", **kwargs).retcode == 1


def test_exceptions_can_be_raised_by_name() -> None:
    assert run("test.raise_exception", "CommandExecutionError", "no disk").value == "ERROR: no disk"
    assert "TypeError: odd" in run("test.raise_exception", "TypeError", "odd").value
    assert "There is no exception 'Nope'" in run("test.raise_exception", "Nope").value


def test_cross_test_calls_another_module() -> None:
    assert run("test.cross_test", "test.echo", ["hello"]).value == "hello"


def test_assertion_fails_for_false_only() -> None:
    assert (run("test.assertion", True).retcode, run("test.assertion", False).retcode) == (0, 1)


def test_versions_name_saltlite_and_python() -> None:
    found = run("test.versions_information").value
    assert found["Salt Version"] == {"saltlite": saltlite.__version__}
    assert list(found["Python Version"]) == ["Python"]
    assert f"saltlite: {saltlite.__version__}" in run("test.versions_report").value


def test_the_configuration_reaches_a_module() -> None:
    opts = {"test.foo": "bar"}
    assert (run("test.conf_test", opts=opts).value, run("test.get_opts", opts=opts).value) == ("bar", opts)
    assert run("test.get_opts", opts={"mysql.pass": "tea", "port": 1}).value == {"mysql.pass": "***", "port": 1}


def test_the_provider_of_a_module_is_named() -> None:
    assert (run("test.provider", "pkg").value, run("test.provider", "nosuch").value) == ("aptpkg", "")
    assert run("test.providers").value["cmd"] == "cmdmod"


# --- grains and config


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("os", "Debian"),
        ("ip4_interfaces:eth0:0", "192.0.2.1"),
        ("ip4_interfaces:eth0:1", "none"),
        ("os:deeper", "none"),
        ("nosuch", "none"),
    ],
)
def test_a_grain_is_found_by_its_path(key: str, value: str) -> None:
    assert run("grains.get", key, default="none").value == value


def test_another_delimiter_parts_the_path() -> None:
    assert run("grains.get", "ip4_interfaces/eth0", delimiter="/").value == ["192.0.2.1"]


def test_several_grains_come_as_a_dict() -> None:
    assert run("grains.item", "os", "nosuch", default="x").value == {"os": "Debian", "nosuch": "x"}


def test_all_grains_are_shown_and_can_be_sanitized() -> None:
    assert run("grains.items").value["host"] == "web1"
    assert run("grains.items", sanitize=True).value["host"] == "MINION"


def test_grains_are_listed_and_tested() -> None:
    assert "os" in run("grains.ls").value
    assert (run("grains.has_value", "os").value, run("grains.has_value", "nosuch").value) == (True, False)


def test_configuration_is_looked_up_in_opts_then_grains_then_pillar() -> None:
    opts = {"os": "from opts", "nested": {"a": 1}}
    values = [
        run("config.get", key, default="-", opts=opts).value for key in ("os", "host", "apache:port", "nested:a", "no")
    ]
    assert values == ["from opts", "web1", 8080, 1, "-"]


# --- sys


def test_functions_are_listed_by_module_and_by_glob() -> None:
    assert run("sys.list_functions", "pillar").value == [
        f"pillar.{name}"
        for name in ("data", "ext", "fetch", "filter_by", "get", "item", "items", "keys", "ls", "obfuscate", "raw")
    ]
    assert run("sys.list_functions", "*.list_functions", "config.get").value == [
        "config.get",
        "sys.list_functions",
    ]


def test_modules_are_listed_and_globbed() -> None:
    assert {"cmd", "grains", "pkg", "sys", "test"} <= set(run("sys.list_modules").value)
    assert run("sys.list_modules", "c[mp]*").value == ["cmd", "cp"]


def test_documentation_is_that_of_the_function() -> None:
    assert run("sys.doc", "test.ping").value["test.ping"].startswith("Return True: the minion is up")


def test_argspec_has_salts_shape() -> None:
    assert run("sys.argspec", "pillar.item").value == {
        "pillar.item": {
            "args": ["default", "delimiter", "unmask"],
            "defaults": ["", ":", True],
            "varargs": True,
            "kwargs": None,
        }
    }


def test_providers_explain_themselves() -> None:
    chosen = [(one["file"], one["layer"]) for one in run("sys.providers", "pkg").value["pkg"] if one["chosen"]]
    assert chosen == [("aptpkg", "shipped")]
