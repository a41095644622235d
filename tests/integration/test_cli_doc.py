"""`saltlite doc`: from the files of this machine, and from what the master knows of minions."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from saltlite.cli.console import Console
from saltlite.cli.main import run
from tests.integration.fakemaster import FakeMaster, Step

SHOP = '''
"""Sells cheese."""

__risk__ = {"close": "close"}


def close(when: str = "now"):
    """
    Close the shop.

    CLI Example::

        saltlite '*' shop.close
    """
'''


def lacking(**fields: Any) -> dict[str, Any]:
    """The answer to `missing_functions`; `fields` replace those of a fleet without a minion."""
    return {"ok": True, "count": 0, "missing": 0, "names": [], "unknown": 0, "unknown_names": [], **fields}


def doc(folder: Path, *words: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of `saltlite doc -c … words`."""
    out, err = io.StringIO(), io.StringIO()
    code = run(["doc", "-c", str(folder), *words], Console(None, out, err))
    return code, out.getvalue(), err.getvalue()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A master's configuration whose file_roots have a module."""
    (tmp_path / "srv/_modules").mkdir(parents=True)
    (tmp_path / "srv/_modules/shop.py").write_text(SHOP)
    configure(tmp_path)
    return tmp_path


def configure(folder: Path) -> None:
    (folder / "master").write_text(f"root_dir: {folder}\nsock_dir: {folder}\nfile_roots: {{base: [{folder}/srv]}}\n")


def test_a_shipped_function_is_documented_without_a_master(folder: Path) -> None:
    code, out, err = doc(folder, "test.ping")
    assert code == 0
    assert out.startswith("test.ping()\n    from test, which comes with saltlite\n\n    Return True: the minion is up")
    assert "CLI Example: ``saltlite '*' test.ping``\n" in out
    assert "it is unknown which minions have it" in err


def test_a_module_that_minions_will_fetch_is_documented_with_its_risk(folder: Path) -> None:
    out = doc(folder, "shop.close")[1]
    assert f"shop.close(when: str = 'now')\n    from shop, {folder}/srv/_modules/shop.py\n    Risk: close." in out


def test_minions_that_lack_it_are_named_with_what_to_do(folder: Path) -> None:
    def answers(_request: dict[str, Any]) -> Iterable[Step]:
        fleet = {"missing": 2, "names": ["db1", "db2"], "unknown": 1, "unknown_names": ["new1"]}
        return [lacking(count=5, **fleet)]

    with FakeMaster(folder, answers):
        configure(folder)
        code, out, err = doc(folder, "pkg.install")
    assert (code, err) == (0, "")
    assert "2 of 5 minions have it; which file a minion uses: saltlite MINION sys.providers pkg\n" in out
    assert "missing: db[1-2] - why: saltlite -L db1 sys.providers pkg; saltlite -L db1 sys.not_loaded\n" in out
    assert "not known: new1 - to find out: saltlite MINION sys.list_functions pkg.install\n" in out


def test_a_function_that_only_minions_have_is_shown_with_what_it_takes(folder: Path) -> None:
    with FakeMaster(folder, lambda _request: [lacking(count=1)]) as master:
        master.functions = {"far.away": {"signatures": ["far.away(when:int=1)"]}}
        configure(folder)
        code, out, _ = doc(folder, "far.away")
    assert code == 0
    assert out.startswith("far.away(when: int = 1)\n    from a module that only minions have: saltlite MINION sys.doc")


def test_a_module_lists_its_functions_with_their_first_lines(folder: Path) -> None:
    assert doc(folder, "shop") == (0, "shop.close  Close the shop.\n", "")


def test_all_modules_are_listed(folder: Path) -> None:
    code, out, err = doc(folder)
    assert (code, err) == (0, "")
    assert {"shop": "Sells cheese."}.items() <= json.loads(doc(folder, "--out", "json")[1])["modules"].items()
    assert "Packages of " in out


def test_a_broken_module_costs_its_own_line_only(folder: Path) -> None:
    (folder / "srv/_modules/broken.py").write_text("def f(:\n")
    modules = json.loads(doc(folder, "--out", "json")[1])["modules"]
    assert "could not be imported: SyntaxError" in modules["broken"]
    assert modules["shop"] == "Sells cheese."


@pytest.mark.parametrize(
    ("word", "sentence"),
    [
        ("broken", "'broken' could not be imported: SyntaxError"),
        ("empty", "_modules/empty.py has no functions"),
        ("sudo", "there is no module 'sudo'; did you mean executors.sudo?"),
        ("saltify", "there is no module 'saltify'; did you mean clouds.saltify?"),
    ],
)
def test_a_word_without_functions_is_refused_with_what_it_is(folder: Path, word: str, sentence: str) -> None:
    (folder / "srv/_modules/broken.py").write_text("def f(:\n")
    (folder / "srv/_modules/empty.py").write_text("")
    code, out, err = doc(folder, word, "-q")
    assert (code, out) == (2, "")
    assert sentence in err
    assert "did you mean broken" not in err


def test_json_has_every_file_that_may_provide_it(folder: Path) -> None:
    code, out, _ = doc(folder, "shop.close", "--out", "json")
    told = json.loads(out)
    assert (code, told["function"], told["minions"]) == (0, "shop.close", None)
    (provider,) = told["providers"]
    assert (provider["file"], provider["signature"], provider["risk"]) == (
        "shop",
        "shop.close(when: str = 'now')",
        "close",
    )


@pytest.mark.parametrize(("word", "near"), [("shop.clos", "shop.close"), ("shp", "shop")])
def test_a_name_that_nobody_knows_is_refused_with_the_near_one(folder: Path, word: str, near: str) -> None:
    code, out, err = doc(folder, word, "-q")
    assert (code, out) == (2, "")
    assert f"did you mean {near}?" in err


def test_a_minions_configuration_does_where_there_is_no_master(tmp_path: Path) -> None:
    (tmp_path / "minion").write_text(f"root_dir: {tmp_path}\n")
    assert doc(tmp_path, "test.ping")[0] == 0


def test_a_folder_without_a_configuration_is_refused(tmp_path: Path) -> None:
    code, _, err = doc(tmp_path, "test.ping")
    assert code == 2
    assert "neither a file 'master' nor a file 'minion'" in err


def test_two_names_are_refused(folder: Path) -> None:
    assert doc(folder, "test", "pkg")[0] == 2


def test_executors_and_drivers_are_listed_and_documented(folder: Path) -> None:
    (folder / "srv/_executors").mkdir()
    (folder / "srv/_executors/loud.py").write_text(
        '"""Say it twice."""\n\ndef execute(opts, data, func, args, kwargs):\n    """Call it twice."""\n'
    )
    code, out, _err = doc(folder, "executors", "--out", "json")
    listed = json.loads(out)["executors"]
    assert (code, listed["loud"], listed["direct_call"]) == (0, "Say it twice.", "Call the function.")
    assert {"audit", "dry", "nice", "splay", "sudo", "timeout"} <= set(listed)
    code, out, _err = doc(folder, "executors.loud")
    assert code == 0
    assert "Say it twice." in out
    assert "loud.execute  Call it twice." in out
    assert str(folder / "srv/_executors/loud.py") in out
    code, out, _err = doc(folder, "clouds", "--out", "json")
    assert {"digitalocean", "ec2", "libcloud", "local", "saltify"} <= set(json.loads(out)["clouds"])
    code, out, _err = doc(folder, "clouds.saltify")
    assert "an ssh login is enough to make one a minion" in out
    assert "saltify.destroy" in out
    code, _out, err = doc(folder, "executors.lowd")
    assert (code, "there is no 'executors.lowd' in the modules here; did you mean executors.loud?" in err) == (2, True)


def test_resource_types_are_listed_documented_and_explained(folder: Path) -> None:
    (folder / "srv/_resources/rack/modules").mkdir(parents=True)
    (folder / "srv/_resources/rack/__init__.py").write_text('"""Racks of servers."""\n')
    (folder / "srv/_resources/rack/modules/power.py").write_text('def cycle():\n    """Switch off and on."""\n')
    code, out, _err = doc(folder, "resources", "--out", "json")
    listed = json.loads(out)["resources"]
    assert (code, listed["rack"]) == (0, "Racks of servers.")
    assert {"dummy", "ssh"} <= set(listed)
    code, out, _err = doc(folder, "resources.rack")
    assert "Racks of servers." in out
    assert "power.cycle   Switch off and on." in out
    assert "grains.items  All grains." in out
    (folder / "minion").write_text(f"root_dir: {folder}\nmodule_dirs: [{folder}/srv]\n")
    out_, err_ = io.StringIO(), io.StringIO()
    code = run(["explain", "-c", str(folder), "resources.rack", "--local"], Console(None, out_, err_))
    assert (code, out_.getvalue()) == (0, f"rack (dir0) provides it\n  {folder}/srv/_resources/rack/__init__.py\n")


def test_drivers_of_the_folders_in_the_file_cloud_are_documented(folder: Path) -> None:
    (folder / "drivers").mkdir()
    (folder / "drivers/mine.py").write_text('"""Machines of mine."""\n\ndef create(vm_):\n    return {}\n')
    (folder / "cloud").write_text(f"cloud_dirs: [{folder}/drivers]\n")
    code, out, _err = doc(folder, "clouds.mine")
    assert (code, "Machines of mine." in out) == (0, True)
    out_, err_ = io.StringIO(), io.StringIO()
    code = run(["explain", "-c", str(folder), "clouds.mine", "--local"], Console(None, out_, err_))
    assert (code, out_.getvalue()) == (0, f"mine (own0) provides it\n  {folder}/drivers/mine.py\n")
    code = run(["explain", "-c", str(folder), "clouds.mine", "web1"], Console(None, out_, err_))
    assert (code, "drivers of clouds run on this machine" in err_.getvalue()) == (2, True)


def test_the_interface_of_a_module_is_documented_with_what_no_file_here_has(folder: Path) -> None:
    code, out, _err = doc(folder, "pkg.collect_garbage")
    assert code == 0
    expected = (
        "pkg.collect_garbage()\n    from the interface pkg 1.0, supported on os=NixOS\n\n    No module here has it."
    )
    assert out.startswith(f"{expected}\n\n    Remove unreferenced data.\n")
    out = doc(folder, "pkg.list_holds")[1]
    assert out.startswith(
        "pkg.list_holds()\n    from the interface pkg 1.0, supported on os_family=Debian, RedHat, Suse\n"
    )
    assert "\n    The held packages.\n\npkg.list_holds()\n    from aptpkg, which comes with saltlite\n" in out
    listed = json.loads(doc(folder, "pkg", "--out", "json")[1])["functions"]
    assert listed["pkg.collect_garbage"] == "Remove unreferenced data. (no module here has it; supported on os=NixOS)"
    assert "no module here" not in listed["pkg.list_holds"]


SOLD = '''
from saltlite.interfaces import Interface

class ShopInterface(Interface):
    __modulename__ = "shop"
    def close(self, when="now"):
        """Close the shop."""
    @Interface.not_applicable(os=["beos"])
    def sell(self, name):
        """Sell a thing."""
'''


def test_an_interface_that_minions_will_fetch_is_part_of_the_documentation(folder: Path) -> None:
    (folder / "srv/_interfaces").mkdir()
    (folder / "srv/_interfaces/shop.py").write_text(SOLD)
    code, out, _err = doc(folder, "shop.sell", "--out", "json")
    told = json.loads(out)
    assert (code, told["providers"], told["interface"]["where"]) == (0, [], "not applicable on os=beos")
    out = doc(folder, "shop.close")[1]
    assert out.startswith("shop.close(when='now')\n    from the interface shop 1.0\n\nshop.close(when: str = 'now')\n")
    listed = json.loads(doc(folder, "shop", "--out", "json")[1])["functions"]
    assert listed == {
        "shop.close": "Close the shop.",
        "shop.sell": "Sell a thing. (no module here has it; not applicable on os=beos)",
    }
