"""What `saltlite lint` finds, code by code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from saltlite.errors import UsageError
from saltlite.lint.run import CODES, GRAINS, Severity, as_data, as_sarif, as_text, lint
from saltlite.plugins.grains.collect import collect
from tests.support.modules import write

DOC = '"""A module."""\n'
FUN = '    """Do it."""\n'

GOOD = f"""{DOC}
def works(name):
{FUN}
"""

INTERFACE = """
from saltlite.interfaces import Interface

class ThingInterface(Interface):
    __modulename__ = "thing"

    def plain(self, name, size=1):
        "Do it."
        return {}

    @Interface.not_applicable(os_family=["Windows"])
    def idle(self):
        "Do it."

    @Interface.supported(os=["beos"])
    def rare(self):
        "Do it."
"""

VIRTUAL = '__virtualname__ = "thing"\ndef __virtual__():\n    return __virtualname__\n'
PLAIN = f"def plain(name, size=1):\n{FUN}"
IDLE = f"def idle():\n{FUN}"


def codes(folder: Path, files: dict[str, str]) -> list[str]:
    """`file:line code` of everything that is found, without what every bare file has."""
    report = lint([str(write(folder, files))])
    return [f"{Path(one.path).name}:{one.line} {one.code}" for one in report.findings]


def test_a_file_without_mistakes_has_no_findings(tmp_path: Path) -> None:
    assert codes(tmp_path, {"m": GOOD}) == []


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("def broken(:", ["m.py:1 SMI000"]),
        (DOC + '__virtualname__ = "x"\ndef __virtual__():\n    return "y"\n', ["m.py:1 SMI001", "m.py:4 SMI002"]),
        (DOC + "def f():\n    pass\n", ["m.py:2 SMI010"]),
        (f"def f():\n{FUN}", ["m.py:1 SMI010"]),
        ('"""A module.\n\n:depends:\n"""\n', ["m.py:1 SMI010"]),
        ('"""A module.\n\n:maturity new\n"""\n', ["m.py:1 SMI010"]),
        (DOC + "import logging\nlog = logging.getLogger(__name__)\nlog.info('x')\n", ["m.py:4 SMI011"]),
        (DOC + "def __virtual__():\n    log.warning('x')\n    return True\n", ["m.py:3 SMI011"]),
        (DOC + "if 'a.b' in __salt__:\n    X = 1\n", ["m.py:2 SMI013"]),
        (DOC + f"def f(x=[]):\n{FUN}", ["m.py:2 SMI014"]),
        (DOC + f"def f(*, x={{}}):\n{FUN}", ["m.py:2 SMI014"]),
        (DOC + f"def f(x):\n{FUN}    subprocess.run('a ' + x, shell=True)\n", ["m.py:4 SMI015"]),
        (DOC + f"def f(x):\n{FUN}    __salt__['cmd.run'](x, python_shell=True)\n", ["m.py:4 SMI015"]),
        (DOC + f"def f(x):\n{FUN}    os.system(f'a {{x}}')\n", ["m.py:4 SMI015"]),
        (DOC + '__virtualname__ = "x"\n', ["m.py:2 SMI016"]),
        (DOC + "def __virtual__():\n    if X:\n        return True\n", ["m.py:2 SMI017"]),
        (DOC + "def __virtual__():\n    return None\n", ["m.py:3 SMI017"]),
    ],
)
def test_each_mistake_of_a_module_has_its_code_and_line(tmp_path: Path, source: str, found: list[str]) -> None:
    assert codes(tmp_path, {"m": source}) == found


@pytest.mark.parametrize(
    "source",
    [
        DOC + "def __virtual__():\n    if X:\n        return True\n    return False, 'no X'\n",
        DOC + "def __virtual__():\n    try:\n        return X\n    except NameError:\n        return False\n",
        DOC + "def __virtual__():\n    raise OSError\n",
        DOC + "def __virtual__():\n    def inner():\n        return None\n    return inner\n",
        DOC + "log.trace('x')\n",
        DOC + "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from saltlite.loader.hints import __salt__\n",
        DOC + f"def f():\n{FUN}    log.info('x')\n    return __salt__['a.b']()\n",
        DOC + f"def f(x=()):\n{FUN}    subprocess.run(['a', x], shell=False)\n    subprocess.run('a', shell=True)\n",
        '"""A module.\n\n:maintainer:  X\n:depends: apt, dpkg\n:param x: y\n"""\n',
    ],
)
def test_what_is_right_is_not_found(tmp_path: Path, source: str) -> None:
    assert codes(tmp_path, {"m": source}) == []


@pytest.mark.parametrize(
    ("module", "found"),
    [
        (PLAIN, ["SMI004"]),
        (PLAIN + IDLE, ["SMI007"]),
        (f"def plain(name):\n{FUN}{IDLE}", ["SMI006", "SMI007"]),
        (f"def plain(name, **kwargs):\n{FUN}{IDLE}", ["SMI008", "SMI007"]),
        (f"def plain(what, size=1):\n{FUN}{IDLE}", ["SMI008", "SMI007"]),
        (f"{PLAIN}{IDLE}def more():\n{FUN}", ["SMI007", "SMI005"]),
    ],
)
def test_a_module_is_held_against_an_interface_among_the_files(tmp_path: Path, module: str, found: list[str]) -> None:
    result = codes(tmp_path, {"_interfaces/thing": INTERFACE, "_modules/m": DOC + VIRTUAL + module})
    assert [one.partition(" ")[2] for one in result] == found


def test_a_package_is_held_against_an_interface_with_what_it_takes_from_its_parts(tmp_path: Path) -> None:
    main = DOC + VIRTUAL + "__all__ = ['plain', 'idle']\nfrom .part import idle, more, plain\n"
    part = DOC + PLAIN + IDLE + "def more():\n    pass\n"
    files = {"thing_interface": INTERFACE, "m/__init__.py": main, "m/part": part}
    assert codes(tmp_path, files) == ["part.py:4 SMI007", "part.py:6 SMI010"]
    wrong = DOC + f"def plain(name):\n{FUN}{IDLE}"
    found = codes(tmp_path / "wrong", {**files, "m/part": wrong})
    assert found == ["part.py:2 SMI006", "part.py:4 SMI007"]


def test_a_module_is_held_against_the_interface_that_ships(tmp_path: Path) -> None:
    source = f'{DOC}__virtualname__ = "group"\ndef __virtual__():\n    return True\ndef add(group):\n{FUN}'
    report = lint([str(write(tmp_path, {"m": source}))])
    texts = {one.code: one.text for one in report.findings}
    assert texts.keys() == {"SMI004", "SMI008"}
    assert texts["SMI004"] == "the interface group 1.0 has delete, getent, info, and the module does not"
    assert texts["SMI008"] == "add: renamed: name is group here (the interface group 1.0)"


@pytest.mark.parametrize(
    ("declared", "found"),
    [
        ("    @Interface.supported(osfamilly=['x'])\n    def f(self):\n        'Do.'\n", "SMI009"),
        ("    def f(self): ...\n", "SMI010"),
        (
            "    @Interface.supported(os='A')\n    @Interface.not_applicable(os='a')\n    def f(self): 'Do.'\n",
            "SMI012",
        ),
        ("    __reserved__ = ['f']\n    def f(self):\n        'Do.'\n", "SMI012"),
    ],
)
def test_each_mistake_of_an_interface_has_its_code(tmp_path: Path, declared: str, found: str) -> None:
    source = (
        f"{DOC}from saltlite.interfaces import Interface\nclass T(Interface):\n    __modulename__ = 't'\n{declared}"
    )
    assert [one.partition(" ")[2] for one in codes(tmp_path, {"t": source})] == [found]


@pytest.mark.parametrize(
    ("source", "found"),
    [
        (f"def other():\n{FUN}", ["SMI018"]),
        (f"SAFE_OPTS = {{}}\ndef execute(opts, data):\n{FUN}", ["SMI018"]),
        (f"SAFE_OPTS = {{}}\ndef execute(opts, data, *rest):\n{FUN}", []),
        (f"def execute(opts, data, func, args, kwargs):\n{FUN}", ["SMI019"]),
        (f"SAFE_OPTS: dict = {{}}\ndef execute(opts, data, func, args, kwargs):\n{FUN}", []),
    ],
)
def test_an_executor_is_known_by_its_folder(tmp_path: Path, source: str, found: list[str]) -> None:
    # A name that has an interface says nothing there.
    result = codes(tmp_path, {"_executors/group": DOC + source})
    assert [one.partition(" ")[2] for one in result] == found


WHOLE = "".join(f"def {head}:\n{FUN}" for head in ("init(opts)", "initialized()", "discover(opts)", "grains()"))


@pytest.mark.parametrize(
    ("source", "found"),
    [
        (WHOLE, []),
        (WHOLE.replace("def grains()", "def reach()"), ["SMI020"]),
        (WHOLE.replace("discover(opts)", "discover()"), ["SMI020"]),
        (WHOLE.replace("initialized()", "initialized(opts)"), ["SMI020"]),
        (WHOLE.replace("init(opts)", "init(opts, more=1)"), []),
        (f"def f():\n{FUN}", ["SMI020"] * 4),
    ],
)
def test_a_resource_type_is_known_by_its_folder(tmp_path: Path, source: str, found: list[str]) -> None:
    files = {"_resources/group/__init__": DOC + source, "_resources/group/modules/test": f"{DOC}def ping():\n{FUN}"}
    assert [one.partition(" ")[2] for one in codes(tmp_path, files)] == found


def test_an_interface_that_does_not_say_its_module_is_an_error(tmp_path: Path) -> None:
    source = f"{DOC}from saltlite.interfaces import Interface\nclass T(Interface):\n    def f(self):\n        'Do.'\n"
    assert codes(tmp_path, {"t": source}) == ["t.py:3 SMI003"]


def test_a_line_can_allow_what_it_does(tmp_path: Path) -> None:
    source = f"{DOC}def f(x=[]):  # noqa: SMI014, E501\n{FUN}def g(x=[]):  # noqa: SMI015\n{FUN}"
    assert codes(tmp_path, {"m": source}) == ["m.py:4 SMI014"]


def test_nothing_of_the_files_is_run(tmp_path: Path) -> None:
    assert codes(tmp_path, {"m": DOC + "raise SystemExit(3)\n"}) == []


def test_a_path_that_is_not_there_is_a_mistake_of_the_command_line() -> None:
    with pytest.raises(UsageError, match="there is no file or folder /nowhere"):
        lint(["/nowhere"])


def test_every_grain_of_this_machine_is_known() -> None:
    assert {grain for grain in collect({}) if grain not in GRAINS} == set()


def test_what_ships_is_without_errors_and_warnings() -> None:
    folder = Path(__file__).parents[2] / "saltlite"
    report = lint(
        [str(folder / name) for name in ("plugins/modules", "interfaces", "plugins/runners", "plugins/executors")]
    )
    assert [one.sentence() for one in report.findings if one.severity is not Severity.NOTE] == []


# --- formats


def test_the_text_has_a_line_for_each_finding_and_a_count(tmp_path: Path) -> None:
    report = lint([str(write(tmp_path, {"m": DOC + "def f(:"}))])
    assert as_text(report) == (
        f"{tmp_path}/m.py:2: SMI000 error: invalid syntax\n1 file: 1 error, 0 warnings, 0 notes\n"
    )


def test_the_data_has_every_finding_with_its_place(tmp_path: Path) -> None:
    report = lint([str(write(tmp_path, {"m": DOC + f"def f(x=[]):\n{FUN}"}))])
    data = as_data(report)
    assert (data["errors"], data["warnings"], data["notes"]) == (0, 1, 0)
    assert data["findings"][0].items() >= {"path": f"{tmp_path}/m.py", "line": 2, "code": "SMI014"}.items()


def test_sarif_names_every_rule_and_the_place_of_each_result(tmp_path: Path) -> None:
    document = json.loads(json.dumps(as_sarif(lint([str(write(tmp_path, {"m": DOC + f"def f(x=[]):\n{FUN}"}))]))))
    (run,) = document["runs"]
    assert document["version"] == "2.1.0"
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == list(CODES)
    (result,) = run["results"]
    place = result["locations"][0]["physicalLocation"]
    assert (result["ruleId"], result["level"]) == ("SMI014", "warning")
    assert (place["artifactLocation"]["uri"], place["region"]) == (f"{tmp_path}/m.py", {"startLine": 2})
