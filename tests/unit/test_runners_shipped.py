"""The runners that ship, over a master that a test plays."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest

import saltlite
from saltlite import __version__
from saltlite.errors import CommandExecutionError
from saltlite.loader.call import call
from saltlite.loader.index import ModuleFile, build_index
from saltlite.loader.loader import Loader, read_documents
from saltlite.loader.search_path import search_layers
from tests.support.api import INDEX, Client, row, run

FOLDER = Path(saltlite.__file__).parent / "plugins" / "runners"


@pytest.mark.parametrize("file", INDEX.files, ids=lambda file: file.stem)
def test_every_runner_is_documented_with_an_example_under_its_own_name(file: ModuleFile) -> None:
    for function, found in read_documents(file).functions.items():
        assert found.doc is not None
        assert f"saltlite-run {file.stem}.{function}" in found.doc, function


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda p: p.stem)
def test_runners_import_nothing_of_the_core(path: Path) -> None:
    tree = ast.parse(path.read_text())
    imported = {part.module or "" for part in ast.walk(tree) if isinstance(part, ast.ImportFrom)}
    mine = {name for name in imported if name.startswith("saltlite.")}
    hints = ("saltlite.decorators", "saltlite.loader.hints", "saltlite.interfaces.smi", "saltlite.salt")
    allowed = ("saltlite.errors", "saltlite.model", "saltlite.plugins._", *hints)
    assert {name for name in mine if not name.startswith(allowed)} == set()


def test_minions_are_told_apart_by_their_session() -> None:
    client = Client(minions={"minions": [row("web1", "up"), row("web2", "away"), row("db1", "never")]})
    assert run(client, "manage.status").value == {"up": ["web1"], "down": ["db1", "web2"]}
    assert run(client, "manage.up").value == ["web1"]
    assert run(client, "manage.down", "web*").value == ["web2"]
    assert run(client, "manage.down", "db1,web1", tgt_type="list").value == ["db1"]
    assert run(client, "manage.down", "w.*|d", tgt_type="pcre").value == ["db1", "web2"]


def test_a_target_that_cannot_be_read_is_refused() -> None:
    outcome = run(Client(minions={"minions": []}), "manage.up", "(", "pcre")
    assert outcome.retcode == 1
    assert outcome.value.startswith("ERROR executing 'manage.up': ")


def test_versions_are_compared_by_their_numbers() -> None:
    rows = [row("a", "up"), row("b", "up", "0.0.9"), row("c", "up", "1000.10"), row("d", "never", "")]
    assert run(Client(minions={"minions": rows}), "manage.versions").value == {
        "Master": f"saltlite {__version__}",
        "Up to date": {"a": f"saltlite {__version__}"},
        "Minion requires update": {"b": "saltlite 0.0.9"},
        "Minion newer than master": {"c": "saltlite 1000.10"},
    }


def test_an_execution_module_runs_on_this_machine() -> None:
    assert run(Client(), "salt.cmd", "test.arg", 1, three=3).value == {"args": (1,), "kwargs": {"three": 3}}
    assert run(Client(), "salt.cmd", "config.get", "id").value == "here_master"


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("nosuch.f",), "ERROR: 'nosuch.f' is not available."),
        (("test.ping", 1), "ERROR executing 'salt.cmd': test.ping: too many positional arguments"),
    ],
)
def test_a_call_that_cannot_be_made_fails(words: tuple[Any, ...], text: str) -> None:
    outcome = run(Client(), "salt.cmd", *words)
    assert (outcome.retcode, outcome.value) == (1, text)


def test_the_return_code_of_the_execution_module_is_that_of_the_runner() -> None:
    assert run(Client(), "salt.cmd", "test.retcode", 7).retcode == 7


def test_a_job_is_run_on_minions() -> None:
    client = Client(cmd={"web1": [1]})
    assert run(client, "salt.execute", "web*", "test.arg", [1], kwarg={"a": 2}).value == {"web1": [1]}
    assert client.asked == [("run", {"args": ("web*", "test.arg", [1], {"a": 2}, "glob", None)})]


def test_the_return_code_of_a_job_on_minions_is_the_largest_of_theirs() -> None:
    client = Client(cmd={"web1": 1, "web2": 2, "web3": 3}, retcodes={"web2": 7, "web3": 2})
    outcome = run(client, "salt.execute", "web*", "test.ping")
    assert (outcome.value, outcome.retcode) == ({"web1": 1, "web2": 2, "web3": 3}, 7)
    assert run(Client(cmd={}), "salt.execute", "web*", "test.ping").retcode == 0


def test_documentation_of_minions_is_merged_and_failures_are_left_out() -> None:
    client = Client(cmd={"web1": {"b.f": "B", "a.f": None}, "web2": {"c.f": "C"}, "web3": "ERROR: no"})
    assert list(run(client, "doc.execution").value.items()) == [("a.f", None), ("b.f", "B"), ("c.f", "C")]


def test_every_runner_is_in_the_documentation_of_runners() -> None:
    docs = run(Client(), "doc.runner").value
    assert {"doc.runner", "jobs.active", "manage.up", "salt.cmd"} <= set(docs)
    assert all(docs.values())


def test_what_goes_wrong_at_the_master_is_one_sentence() -> None:
    def unreachable() -> dict[str, Any]:
        raise CommandExecutionError("the master cannot be reached")

    outcome = run(Client(minions=unreachable), "manage.up")
    assert (outcome.retcode, outcome.value) == (1, "ERROR: the master cannot be reached")


DEBIAN = {"os": "Debian", "os_family": "Debian", "osarch": "amd64"}


def conformance(**kwargs: Any) -> dict[str, Any]:
    """What a minion answers about `pkg`."""
    loader = Loader(build_index(search_layers({})), {}, DEBIAN, {})
    outcome = call(loader, "smi.conformance", ["pkg"], kwargs)
    assert outcome.retcode == 0, outcome.value
    return dict(outcome.value)


def test_providers_of_the_fleet_are_counted_function_by_function() -> None:
    client = Client(cmd={"web1": conformance(), "web2": conformance(), "old": "'smi.conformance' is not available."})
    table = run(client, "smi.report", "*", "pkg").value
    assert [(one["provider"], one["os"], one["minions"]) for one in table["modules"]["pkg"]["providers"]] == [
        ("aptpkg", "Debian", 2)
    ]
    assert table["modules"]["pkg"]["functions"]["install"] == [{"implemented": 2}]
    assert table["silent"] == {"old": "'smi.conformance' is not available."}


def test_the_report_of_a_fleet_can_be_a_page() -> None:
    page = run(Client(cmd={"<b>": "no"}), "smi.report", out="html").value
    assert page.startswith("<!DOCTYPE html>")
    assert "&lt;b&gt;" in page
    assert run(Client(), "smi.report", out="pdf").value.startswith("ERROR executing 'smi.report': out is data or html")


def test_the_second_time_minions_send_the_digest_of_what_has_not_changed(tmp_path: Path) -> None:
    whole = conformance()
    first = Client(cmd={"web1": whole, "web2": whole})
    table = run(first, "smi.report", cachedir=str(tmp_path / "own")).value
    digest = whole["pkg"]["digest"]
    short = conformance(known=[digest])
    assert "functions" not in short["pkg"]
    second = Client(cmd={"web1": short, "web2": short})
    assert run(second, "smi.report", cachedir=str(tmp_path / "own")).value == table
    assert [asked[1]["args"][3] for asked in (*first.asked, *second.asked)] == [{}, {"known": [digest]}]


@pytest.mark.parametrize("kept", ["", "[]", "{}", "\x00"])
def test_what_was_kept_and_cannot_be_read_is_asked_for_again(tmp_path: Path, kept: str) -> None:
    (tmp_path / "smi-reports.json").write_text(kept)
    client = Client(cmd={"web1": conformance()})
    assert run(client, "smi.report", cachedir=str(tmp_path)).value["minions"] == 1
    assert client.asked[0][1]["args"][3] == {}


# --- pillar


def test_the_pillar_and_the_files_of_a_minion_are_shown() -> None:
    client = Client(pillar_show={"pillar": {"port": 80}, "top": {"base": ["web"]}, "mistakes": []})
    assert run(client, "pillar.show_pillar", "web1").value == {"port": 80}
    assert run(client, "pillar.show_top", "web1").value == {"base": ["web"]}
    assert client.asked == [("pillar_show", {"id": "web1"})] * 2


def test_a_top_file_with_mistakes_is_a_failure_that_names_them() -> None:
    client = Client(pillar_show={"pillar": {}, "top": {}, "mistakes": ["top.sls:3:1: it is broken"]})
    outcome = run(client, "pillar.show_top", "web1")
    assert outcome.retcode != 0
    assert "top.sls:3:1" in str(outcome.value)


# -- resources


def test_resources_are_listed_over_several_pages() -> None:
    rows: list[dict[str, Any]] = [{"srn": f"dummy:{n:04}", "minion": "ma", "stale_since": None} for n in range(25)]
    rows[3]["stale_since"] = 1_800_000_000.5

    def page(after: str = "", **_wanted: Any) -> dict[str, Any]:
        rest = [one for one in rows if one["srn"] > after]
        return {"resources": rest[:10], "more": len(rest) > 10}

    client = Client(resource_list=page)
    found = run(client, "resource.list", type="dummy").value
    assert (len(found), found["dummy:0024"]) == (25, "ma")
    # One that its minion does not find any more says so; machines ask for these alone.
    assert found["dummy:0003"] == "ma (stale since 2027-01-15T08:00:00Z)"
    stale = run(Client(resource_list=page), "resource.list", stale=True).value
    assert stale == {"dummy:0003": {"minion": "ma", "stale_since": 1_800_000_000.5}}
    assert [fields.get("type") for _verb, fields in client.asked] == ["dummy"] * 3


def test_grains_of_all_resources_are_gathered_from_all_pages() -> None:
    pages = {
        "": {"resources": {"b:1": {"grain_count": 1}}, "more": True, "last": "ma"},
        "ma": {"resources": {"a:1": {"grain_count": 2}}, "more": False, "last": ""},
    }
    client = Client(resource_list_grains=lambda after: pages[after])
    assert list(run(client, "resource.list_grains").value) == ["a:1", "b:1"]


def test_grains_of_one_resource_are_found_by_type_and_id_or_by_its_srn() -> None:
    client = Client(resource_grains=lambda **one: {"grains": {"of": f"{one['type']} {one['id']}"}})
    assert run(client, "resource.show_grains", type="ssh", id="web-1").value == {"of": "ssh web-1"}
    assert run(client, "resource.show_grains", id="ssh:a:b").value == {"of": "ssh a:b"}
    assert run(client, "resource.show_grains", "ssh:web-1").value == {"of": "ssh web-1"}
    assert "name one resource" in run(client, "resource.show_grains", id="web-1").value


GOOD = {"types": {"ssh": {"loaded": True, "initialised": True, "found": 2, "was": 1}}, "withheld": []}
BAD = {"types": {"ssh": {"loaded": False, "initialised": False, "found": None, "error": "no"}}, "withheld": []}


@pytest.mark.parametrize(
    ("returned", "answer", "code"),
    [
        ({"ma": GOOD}, GOOD, 0),
        ({"ma": BAD}, BAD, 1),
        ({"ma": {**GOOD, "withheld": ["x"]}}, {**GOOD, "withheld": ["x"]}, 1),
        ({"ma": "ERROR"}, "ERROR: ma has not refreshed its resources: ERROR", 1),
        ({}, "ERROR: ma has not refreshed its resources: it did not return", 1),
    ],
)
def test_a_refresh_is_a_job_and_its_return_is_the_answer(returned: dict[str, Any], answer: Any, code: int) -> None:
    client = Client(minions={"minions": [row("ma", "up")]}, cmd=returned)
    ran = run(client, "resource.refresh", minion="ma")
    assert (ran.value, bool(ran.retcode)) == (answer, bool(code))
    assert client.asked[-1][1]["args"][:2] == ("ma", "saltutil.refresh_resources")


def test_a_refresh_of_an_unknown_minion_publishes_nothing() -> None:
    client = Client(minions={"minions": []})
    assert "there is no minion 'nosuch'" in run(client, "resource.refresh", minion="nosuch").value
    assert [verb for verb, _fields in client.asked] == ["minions"]


def test_owners_transfers_and_matches_are_passed_on() -> None:
    client = Client(
        resource_owner={"resources": [{"srn": "ssh:web", "minion": "ma"}]},
        resource_transfer={"former": "ma"},
        match={"ok": True, "minions": ["ma"], "resources": {}, "away": [], "unknown": []},
    )
    assert run(client, "resource.owner", "web").value == {"ssh:web": "ma"}
    assert run(client, "resource.transfer", "ssh:web", "mb").value == "ma"
    assert run(client, "resource.match", "M@ma").value == {
        "minions": ["ma"],
        "resources": {},
        "away": [],
        "unknown": [],
    }
    assert client.asked == [
        ("resource_owner", {"id": "web"}),
        ("resource_transfer", {"srn": "ssh:web", "minion": "mb"}),
        ("match", {"tgt": "M@ma", "tgt_type": "compound"}),
    ]


@pytest.mark.parametrize(
    ("fun", "answer"),
    [
        ("stats", {"registry": {}, "types": {}, "minions": 0, "refused": {}, "missing": {}, "reports": {}}),
        ("compact", {"before": 5, "after": 1}),
        ("verify", {"rows": 1, "problems": [], "aside": ""}),
    ],
)
def test_what_the_registry_says_is_shown_as_it_is(fun: str, answer: dict[str, Any]) -> None:
    client = Client(**{f"resource_{fun}": {"ok": True, **answer}})
    assert run(client, f"resource.{fun}").value == answer
