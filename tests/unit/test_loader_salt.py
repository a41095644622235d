"""Salt's own files below everything else: when they are found, read and loaded, and what they find."""

from __future__ import annotations

import ast
import copy
import logging
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from saltlite import errors
from saltlite.loader import index
from saltlite.loader.call import Outcome, call
from saltlite.loader.executors import Executors
from saltlite.loader.index import build_index, cached_index
from saltlite.loader.loader import Loader
from saltlite.loader.salt_compat import RESERVED
from saltlite.loader.scan import Scan, scan_module
from saltlite.loader.search_path import MODULES, search_layers
from saltlite.minion.custom_grains import custom_grains
from saltlite.model.execution import Execution
from tests.support.modules import salt_site, write

EXTENSION = "[salt.loader]\nsaltext.zz = zz_ext\n"

Install = Callable[[Mapping[str, str]], Path]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Puts a stand-in for Salt, with more files, on `sys.path`."""
    before = logging.getLogger().level, list(logging.getLogger().handlers)
    sites = []

    def make(files: Mapping[str, str]) -> Path:
        sites.append(salt_site(tmp_path / "site", files, monkeypatch))
        return sites[-1].__enter__()

    yield make
    for site in sites:
        site.__exit__(None, None, None)
    assert (logging.getLogger().level, logging.getLogger().handlers) == before


def loader(kind: str = MODULES, **opts: Any) -> Loader:
    given = {"id": "m1", **opts}
    return Loader(build_index(search_layers(given, kind)), given, {"os": "Debian"}, {"role": "web"})


def said(fun: str, *args: Any, **opts: Any) -> Outcome:
    return call(loader(**opts), fun, args, {})


def modules(**files: str) -> dict[str, str]:
    return {f"salt/modules/{name}": source for name, source in files.items()}


def marking(path: Path) -> str:
    return f"import pathlib\npathlib.Path({str(path)!r}).write_text('loaded')\n"


# -- when


def test_nothing_of_salt_is_read_or_loaded_before_one_of_its_functions_is_called(
    install: Install, tmp_path: Path
) -> None:
    mark = tmp_path / "mark"
    install(modules(zz=marking(mark) + "def f(): return 1"))
    here = loader()
    assert here["test.ping"]() is True
    assert not here.index.whole  # or the master would refuse what only Salt has
    assert here.index.salt_files is not None
    assert "_index" not in vars(here.index.salt_files)
    assert not mark.exists()
    assert "salt" not in sys.modules
    assert here["zz.f"]() == 1
    assert mark.read_text() == "loaded"


def test_a_call_loads_the_one_module_that_it_needs(install: Install, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    install(modules(zz="def f(): return 1", other=marking(mark) + "def __virtual__(): return True\ndef g(): pass"))
    assert said("zz.f").value == 1
    assert not mark.exists()


def test_an_index_without_salt_has_no_lowest_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    assert build_index(search_layers({})).salt_files is None


def test_salt_that_is_installed_later_is_noticed_when_the_folders_are_looked_at_again(install: Install) -> None:
    if build_index(search_layers({})).salt_files is None:  # a Salt may really be installed where tests are run by hand
        install(modules(zz="def f(): return 1"))
    assert build_index(search_layers({})).salt_files is not None


def test_off_does_without(install: Install) -> None:
    install(
        {
            **modules(zz="def f(): return 1"),
            "zz-1.dist-info/entry_points.txt": EXTENSION,
            "zz_ext/__init__": "",
            "zz_ext/modules/ext": "def f(): return 1",
            "zz_ext/returners/ext": "",
        }
    )
    for fun in ("zz.f", "ext.f"):
        assert said(fun, salt_compat="off").value == f"'{fun}' is not available."
        assert said(fun, salt_compat="auto").value == 1
    assert "saltext_zz" not in [layer.name for layer in search_layers({"salt_compat": "off"}, "returners")]


def test_what_was_read_is_remembered_and_what_changed_is_read_again(
    install: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opts = {"cachedir": str(tmp_path / "cache")}
    (tmp_path / "cache").mkdir()
    site = install(modules(zz="def f(): return 1", old="def f(): return 1"))
    assert said("zz.f", **opts).value == 1
    read: list[str] = []

    def reading(tree: ast.Module, stem: str) -> Scan:
        read.append(stem)
        return scan_module(tree, stem)

    monkeypatch.setattr(index, "scan_module", reading)
    write(site, modules(zz="def f(): return 22\ndef g(): return 3"))
    here = Loader(cached_index(search_layers(opts), opts["cachedir"]), opts, {}, {})
    read.clear()
    assert here.index.salt_files is not None
    assert here.index.salt_files.function_names() == ["old.f", "zz.f", "zz.g"]
    assert read == ["zz"]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a folder of somebody else")
def test_a_cache_of_somebody_else_is_not_written_to(install: Install, tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    os.chown(tmp_path / "cache", 4711, 4711)
    install(modules(zz="def f(): return 1"))
    assert said("zz.f", cachedir=str(tmp_path / "cache")).value == 1
    assert list((tmp_path / "cache").iterdir()) == []


# -- who goes first


def test_a_file_that_somebody_wrote_hides_salts_of_that_name(install: Install, tmp_path: Path) -> None:
    install(modules(zz="def f(): return 'salt'\ndef g(): return 'salt'"))
    write(tmp_path, {"own/modules/zz": "def f(): return 'own'"})
    own = {"module_dirs": [str(tmp_path / "own")]}
    assert said("zz.f", **own).value == "own"
    assert said("zz.g", **own).value == "'zz.g' is not available."


def test_a_file_of_another_name_is_laid_over_salts(install: Install, tmp_path: Path) -> None:
    install(modules(zz="def f(): return 'salt'\ndef g(): return 'salt'"))
    write(
        tmp_path, {"own/modules/more": "__virtualname__ = 'zz'\ndef __virtual__(): return 'zz'\ndef f(): return 'own'"}
    )
    own = {"module_dirs": [str(tmp_path / "own")]}
    assert (said("zz.f", **own).value, said("zz.g", **own).value) == ("own", "salt")


def test_salts_file_fills_what_ours_of_the_same_name_lacks(install: Install) -> None:
    install(modules(smi="def conformance(*names): return 'salt'\ndef more(): return 'salt'"))
    assert said("smi.more").value == "salt"
    assert said("smi.conformance").value != "salt"


def test_another_implementation_of_salts_is_never_mixed_with_ours_and_providers_say_so(install: Install) -> None:
    install(modules(aaa_smi="__virtualname__ = 'smi'\ndef __virtual__(): return 'smi'\ndef more(): return 'salt'"))
    assert said("smi.more").value == "'smi.more' is not available."
    rows = {row["file"]: row for row in said("sys.providers", "smi").value["smi"]}
    assert rows["smi"]["chosen"]
    assert rows["aaa_smi"]["layer"] == "salt"
    assert rows["aaa_smi"]["reason"] == (
        "saltlite provides the name here by another file than 'aaa_smi', and two are never mixed"
    )


def test_a_name_that_only_files_of_salt_provide_has_the_functions_of_all_of_them(install: Install) -> None:
    virtual = "__virtualname__ = 'web'\ndef __virtual__(): return __virtualname__\n"
    refused = "__virtualname__ = 'web'\ndef __virtual__(): return False\ndef third(): return 'suse'\n"
    install(
        modules(
            deb_web=f"{virtual}def enable(): return 'deb'\ndef version(): return 'deb'\n",
            web=f"{virtual}def version(): return 'web'\n",
            suse_web=refused,
        )
    )
    assert [said(f"web.{fun}").value for fun in ("version", "enable")] == ["web", "deb"]
    assert said("web.third").value == "'web.third' is not available."
    assert said("sys.list_functions", "web").value == ["web.enable", "web.version"]


def test_the_option_providers_takes_a_file_of_salt(install: Install) -> None:
    install(modules(aaa_smi="__virtualname__ = 'smi'\ndef __virtual__(): return False\ndef more(): return 'salt'"))
    assert said("smi.more", providers={"smi": "aaa_smi"}).value == "salt"


def test_an_extension_goes_before_salt_and_behind_what_ships(install: Install) -> None:
    install(
        {
            **modules(zz="def f(): return 'salt'", only="def f(): return 'salt'"),
            "zz-1.dist-info/entry_points.txt": EXTENSION,
            "zz_ext/__init__": "",
            "zz_ext/modules/zz": "def f(): return 'extension'",
            "zz_ext/modules/smi": "def conformance(*names): return 'extension'",
        }
    )
    assert said("zz.f").value == "extension"
    assert said("only.f").value == "salt"
    assert said("smi.conformance").value != "extension"


def test_an_extensions_function_that_names_its_folders_runs_only_when_they_are_looked_for(
    install: Install, tmp_path: Path
) -> None:
    mark = tmp_path / "mark"
    install(
        {
            "zz-1.dist-info/entry_points.txt": "[salt.loader]\nmodule_dirs = zz_ext:places\n",
            "zz_ext/__init__": marking(mark) + "import os\ndef places(): return [os.path.dirname(__file__)]\n",
            "zz_ext/zz": "def f(): return 1",
        }
    )
    here = loader()
    assert here["test.ping"]()
    assert not mark.exists()
    assert here["zz.f"]() == 1
    assert mark.exists()


@pytest.mark.parametrize("name", sorted(RESERVED[MODULES]))
def test_reserved_names_are_never_salts(install: Install, name: str) -> None:
    install(modules(**{
        name: "def only_salts(): return 'salt'",
        f"{name}_alias": f"__virtual_aliases__ = ({name!r},)\ndef only_salts(): return 'salt'",
    }))  # fmt: skip
    assert said(f"{name}.only_salts").value == (
        f"'{name}.only_salts' is not available. (Salt has it; its own module {name!r} is never loaded here)"
    )
    here = loader(providers={name: f"{name}_alias"})
    assert f"{name}.only_salts" not in here
    assert name not in here.index.salt_files.names() if here.index.salt_files else False


# -- faults


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("import no_zz", "'zz' could not be imported: ModuleNotFoundError: No module named 'no_zz' (zz.py, line 1)"),
        ("import sys\nsys.exit(3)", "'zz' could not be imported: SystemExit: 3 (zz.py, line 2)"),
        ("def f(:", "'zz' could not be imported: SyntaxError: invalid syntax (zz.py, line 1)"),
        ("def __virtual__(): return False, 'no zz here'\ndef f(): pass", "'zz' __virtual__ returned False: no zz here"),
        ("print('hello')\ndef f(): return 1", 1),
    ],
)  # fmt: skip
def test_a_module_that_fails_costs_nobody_else_anything(install: Install, source: str, text: object) -> None:
    install(modules(zz=source, good="def f(): return 2"))
    here = loader()
    assert call(here, "zz.f", (), {}).value == text
    assert call(here, "good.f", (), {}).value == 2
    assert "zz" not in here.not_loaded()


def test_importing_salt_leaves_this_process_as_it_was(install: Install) -> None:
    install(modules(zz="import salt.exceptions\ndef f(): return 1"))
    hook, level = sys.excepthook, logging.getLogger().level
    assert said("zz.f").value == 1
    assert (sys.excepthook, logging.getLogger().level) == (hook, level)


@pytest.mark.parametrize(
    ("error", "text"),
    [
        ("CommandExecutionError", "ERROR: why"),
        ("SaltInvocationError", "ERROR executing 'zz.f': why"),
        ("CommandNotFoundError", "Command required for 'zz.f' not found: why"),
    ],
)
def test_salts_errors_end_a_call_as_ours_do(install: Install, error: str, text: str) -> None:
    install(modules(zz=f"from salt.exceptions import {error}\ndef f(): raise {error}('why')"))
    outcome = said("zz.f")
    assert (outcome.value, outcome.retcode) == (text, 1)


def test_an_error_in_the_middle_of_a_generator_is_translated_too(install: Install) -> None:
    install(modules(zz="from salt.exceptions import *\ndef f():\n    yield 1\n    raise CommandExecutionError('why')"))
    assert said("zz.f").value == "ERROR: why"


def test_a_module_of_an_operator_that_raises_salts_errors_ends_as_one_that_raises_ours(
    install: Install, tmp_path: Path
) -> None:
    install({})
    write(tmp_path, {"own/modules/zz": "import salt.exceptions as e\ndef f(): raise e.CommandExecutionError('why')"})
    assert said("zz.f", module_dirs=[str(tmp_path / "own")]).value == "ERROR: why"


def test_either_side_catches_the_errors_of_the_other(install: Install, tmp_path: Path) -> None:
    catching = "    try: return __salt__[{fun!r}]()\n    except CommandExecutionError as error: return str(error)\n"
    install(modules(
        zz="from salt.exceptions import CommandExecutionError\ndef fails(): raise CommandExecutionError('theirs')\n"
           "def catches():\n" + catching.format(fun="own.fails"),
    ))  # fmt: skip
    own = "from saltlite.errors import CommandExecutionError\ndef fails(): raise CommandExecutionError('ours')\n"
    write(tmp_path, {"own/modules/own": own + "def catches():\n" + catching.format(fun="zz.fails")})
    dirs = {"module_dirs": [str(tmp_path / "own")]}
    assert said("own.catches", **dirs).value == "theirs"
    assert said("zz.catches", **dirs).value == "ours"


CATCHING = """
    from salt.exceptions import {error}
    def catches():
        try:
            return {call}
        except {error} as error:
            return f"caught: {{error}}, {{error.strerror == error.message == str(error)}}"
    """


@pytest.mark.parametrize(
    ("error", "call"),
    [
        ("CommandExecutionError", "__salt__['cmd.run']('true', cwd='/no/such')"),
        ("CommandExecutionError", "__salt__['cmd.run']('no-such-program-zz', python_shell=False)"),
        ("CommandExecutionError", "__salt__.cmd.run('true', cwd='/no/such')"),
        ("CommandExecutionError", "__utils__['u.fails']()"),
        ("SaltInvocationError", "__salt__['cmd.run']('true', env=7)"),
        ("SaltException", "__salt__['cmd.run']('true', cwd='/no/such')"),
        ("SaltException", "__utils__['u.refuses']()"),
    ],
)
@pytest.mark.parametrize("beside", [True, False])
def test_a_module_that_was_written_for_salt_catches_what_ours_raise(
    install: Install, tmp_path: Path, error: str, call: str, beside: bool
) -> None:
    if beside:
        install({})
    raising = "from saltlite.errors import *\ndef fails(): raise CommandExecutionError('why', info={'a': 1})\n"
    refusing = "def refuses(): raise RefusedError('no')\n"
    write(tmp_path, {"own/modules/zz": CATCHING.format(error=error, call=call), "own/utils/u": raising + refusing})
    outcome = said("zz.catches", module_dirs=[str(tmp_path / "own")])
    assert str(outcome.value).startswith("caught: ")
    assert str(outcome.value).endswith(", True")


def test_an_executor_that_was_written_for_salt_catches_what_the_function_raises(
    install: Install, tmp_path: Path
) -> None:
    install({})
    source = """
        from salt.exceptions import CommandExecutionError
        def execute(opts, data, func, args, kwargs):
            try:
                return func(*args, **kwargs)
            except CommandExecutionError as error:
                return f"caught: {error}"
        """
    write(tmp_path, {"own/executors/mine": source})
    here = loader(module_dirs=[str(tmp_path / "own")])
    chain = Executors(here).chain(Execution(["mine"]), remote=False)
    outcome = call(here, "cmd.run", ("true",), {"cwd": "/no/such"}, chain=chain)
    assert str(outcome.value).startswith("caught: Specified cwd")


def test_what_salts_depends_asks_for_is_asked_for(install: Install) -> None:
    install(modules(zz=(
        "from salt.utils.decorators import depends\nHERE = True\nGONE = None\ndef _other(): return 'other'\n"
        "@depends('HERE')\ndef f(): return 1\n@depends('GONE')\ndef g(): return 1\n@depends(False)\ndef h(): return 1\n"
        "@depends('GONE', fallback_function=_other)\ndef i(): return 1\n"
        "@depends('false', retcode=0)\ndef j(): return 1"
    )))  # fmt: skip
    texts = [said(f"zz.{fun}").value for fun in "fghij"]
    assert texts == [
        1,
        "'zz.g' is not available. (needs GONE)",
        "'zz.h' is not available. (needs a condition that does not hold here)",
        "other",
        "'zz.j' is not available. (needs 'false' to return 0, it returns 1)",
    ]


def test_an_error_keeps_its_own_text_and_traceback_names_the_module_only(install: Install) -> None:
    install(modules(zz="def f(): raise ValueError('other')"))
    lines = str(said("zz.f").value).splitlines()
    assert lines[-1] == "ValueError: other"
    assert not [line for line in lines if "saltguests" in line]


# -- what they find


def test_options_are_ours_completed_by_salts_when_one_is_missing(install: Install) -> None:
    install(modules(zz=(
        "def known(): return __opts__['id']\n"
        "def more(): return __opts__.get('hash_type'), __opts__['pillarenv'], 'renderer' in __opts__, __opts__['id']\n"
        "def none(): return 'no_such' in __opts__, __opts__.get('no_such', 7), __opts__.get('test')\n"
        "def whole(): return {**__opts__}, dict(__opts__), __opts__.copy()\n"
        "def opts(): return __opts__\n"
    )))  # fmt: skip
    here = loader()
    assert here["zz.known"]() == "m1"
    assert "salt.config" not in sys.modules
    assert here["zz.more"]() == ("sha256", None, True, "m1")
    assert here["zz.none"]() == (False, 7, False)
    copies = loader()["zz.whole"]()
    assert [one["hash_type"] for one in copies] == ["sha256"] * 3
    opts = loader()["zz.opts"]()
    assert copy.deepcopy(opts)["renderer"] == "jinja|yaml"
    assert opts["grains"] == {"os": "Debian"}
    assert opts["file_client"] == "local"
    with pytest.raises(KeyError, match="no_such"):
        opts["no_such"]


def test_options_of_custom_files_are_completed_too_and_those_of_shipped_files_are_not(
    install: Install, tmp_path: Path
) -> None:
    install({})
    write(tmp_path, {"own/modules/zz": "def f(): return 'autosign' in __opts__, __opts__['file_client']"})
    opts = {"module_dirs": [str(tmp_path / "own")]}
    assert said("zz.f", **opts).value == (True, "local")
    assert "autosign" not in said("config.items", **opts).value


def test_dunders_are_there_with_value_and_under_the_names_of_salts_loader(install: Install) -> None:
    install(modules(zz=(
        "from salt.loader.dunder import __grains__ as grains\n__grains__ = {}\n"
        "def f(): return [__grains__.value()['os'], grains.value()['os'], __pillar__['role'], bool(__proxy__),\n"
        "    __context__.value() == {}, __salt__.value()['test.ping'](), __salt__.test.ping(), "
        "bool(__salt_system_encoding__)]"
    )))  # fmt: skip
    assert said("zz.f").value == ["Debian", "Debian", "web", False, True, True, True, True]


def test_salts_utils_are_there_with_dunders_of_their_own(install: Install) -> None:
    install(modules(zz="def f(): return __utils__['words.twice']('ab') + __utils__['words.minion']()"))
    assert said("zz.f").value == "ababm1"


def test_arguments_without_a_meaning_here_are_left_out_of_calls_of_ours(install: Install) -> None:
    install(modules(zz=(
        "def f(): return __salt__['cmd.run']('echo x', python_shell=False, password='p', log_callback=print,\n"
        "    use_vt=True, template=None)\n"
        "def g(): return __salt__['pillar.get']('role', unmask=True)\n"
        "def h(): return __salt__['cmd.run']('echo x', encoded_cmd=True)\n"
    )))  # fmt: skip
    here = loader()
    assert here["zz.f"]() == "x"
    assert here["zz.g"]() == "web"
    with pytest.raises(errors.SaltInvocationError, match="encoded_cmd"):
        here["zz.h"]()


def test_docs_and_arguments_come_from_the_text(install: Install, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    install(modules(zz=marking(mark) + "def f(a, b=2, *, c=3):\n    'Says f.'"))
    described = loader().describe("zz.f")
    assert described is not None
    assert (described.doc, described.args, described.defaults) == ("Says f.", ("a", "b", "c"), (2, 3))
    assert not mark.exists()


def test_the_signature_of_salts_function_is_checked(install: Install) -> None:
    install(modules(zz="def f(a): return a"))
    assert str(said("zz.f").value).startswith("Passed invalid arguments to zz.f: missing a required argument: 'a'")


def test_an_outputter_of_salt_loads(install: Install) -> None:
    install({"salt/output/zz": "def output(data, **kwargs): return f'<{data}>{__opts__[\"id\"]}'"})
    assert loader("output")["zz.output"](1) == "<1>m1"


def test_salts_grains_add_what_nobody_else_has_found(install: Install, tmp_path: Path) -> None:
    install(
        {
            "salt/grains/zz": (
                "def f(grains): return {'os': 'salt', 'own': 'salt', 'new': grains['own']}\n"
                "def nothing(): return None\n"
                "def broken(): raise ValueError"
            ),
            "salt/grains/minion_process": "def f(): return {'pid': 1}",
        }
    )
    write(tmp_path, {"own/grains/mine": "def f(): return {'own': 'own'}"})
    opts = {"module_dirs": [str(tmp_path / "own")]}
    pieces = list(custom_grains(opts, {"os": "Debian"}))
    assert {key: value for piece in pieces for key, value in piece.items()} == {"own": "own", "new": "own"}
    assert list(custom_grains({**opts, "salt_compat": "off"}, {"os": "Debian"})) == [{"own": "own"}]


def test_runners_are_never_salts(install: Install) -> None:
    install({"salt/runners/zz": "def f(): return 1"})
    assert loader("runners").index.salt_files is None
