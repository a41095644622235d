"""Arguments are read by what functions say they take, and what cannot work or needs consent is not published."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.fleet import Fleet, wait_until

pytestmark = pytest.mark.e2e


@pytest.mark.parametrize(
    ("words", "value"),
    [
        (("typed.echo", "1.10"), ["1.10"]),
        (("typed.echo", "true", "2"), ["true", "true"]),
        (("typed.echo", "text=0644"), ["0644"]),
        (("typed.kind", "1.10"), "float"),
        (("typed.kind", "'1.10'"), "str"),
        (("cmd.run", "true"), ""),
    ],
)
def test_a_word_becomes_what_its_parameter_takes(shared: Fleet, words: tuple[str, ...], value: object) -> None:
    said = shared.cli("a", *words, "--out", "json")
    assert (said.code, said.json()) == (0, {"a": value}), said.err


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("typed.echo", "x", "tmes=2"), "typed.echo has no argument 'tmes' (did you mean 'times'?)"),
        (("typed.echo", "x", "1", "2"), "typed.echo takes at most 2 positional arguments, not 3"),
        (("typed.echo",), "typed.echo needs 'text'"),
        (("typed.echo", "x", "times=many"), "typed.echo: argument 'times' takes int, not 'many'"),
        (("typed.kind,typed.echo", "x"), "typed.echo needs 'text'"),
    ],
)
def test_a_call_that_cannot_work_is_refused_with_the_signature_and_nothing_is_published(
    shared: Fleet, words: tuple[str, ...], reason: str
) -> None:
    before = shared.jobs_published()
    said = shared.cli("*", *words)
    assert (said.code, said.out) == (2, "")
    assert reason in said.err
    assert "typed.echo(text: str, times: int = 1)" in said.err
    assert shared.jobs_published() == before


def test_upgrading_one_package_by_a_keyword_that_upgrade_does_not_have_upgrades_nothing(shared: Fleet) -> None:
    before = shared.jobs_published()
    said = shared.cli("*", "pkg.upgrade", "package=ntp", "--accept-risk", "upgrade-all")
    assert said.code == 2
    assert "pkg.upgrade has no argument 'package'" in said.err
    assert shared.jobs_published() == before


def test_a_risk_is_refused_in_a_script_until_it_is_accepted_by_name(shared: Fleet) -> None:
    before = shared.jobs_published()
    said = shared.cli("*", "typed.drop", "all")
    assert (said.code, said.out) == (6, "")
    assert "typed.drop carries the risk remove" in said.err
    assert "on 2 minions add --accept-risk=remove" in said.err
    assert shared.jobs_published() == before
    accepted = shared.cli("*", "typed.drop", "all", "--accept-risk=remove", "--out", "json")
    assert (accepted.code, accepted.json()) == (0, {"a": "dropped all", "b": "dropped all"})


def test_a_dry_run_is_asked_of_functions_that_have_one_and_refused_for_others(shared: Fleet) -> None:
    said = shared.cli("a", "typed.change", "web", "--test", "--out", "json")
    assert (said.code, said.json()) == (0, {"a": "would change web"}), said.err
    before = shared.jobs_published()
    refused = shared.cli("a", "typed.drop", "web", "--test")
    assert (refused.code, refused.out) == (6, "")
    assert "typed.drop has no dry run" in refused.err
    assert shared.jobs_published() == before


def module_dir(folder: Path, source: str) -> str:
    (folder / "modules").mkdir(parents=True, exist_ok=True)
    (folder / "modules/mixed.py").write_text(source)
    return str(folder)


def test_a_call_that_only_some_minions_can_take_is_published_and_the_others_say_why(
    fleet: Fleet, tmp_path: Path
) -> None:
    fleet.start_master()
    fleet.join("old", module_dirs=[module_dir(tmp_path / "one", "def f(a: str):\n    return a\n")])
    fleet.join("new", module_dirs=[module_dir(tmp_path / "two", "def f(a: int, b=0):\n    return [a, b]\n")])
    said = fleet.cli("*", "mixed.f", "5", "b=1", "--out", "json")
    assert said.code == 4
    assert said.json()["new"] == [5, 1]
    assert "not valid: b=1" in said.json()["old"]
    refused = fleet.cli("old", "mixed.f", "5", "b=1")
    assert (refused.code, "mixed.f has no argument 'b'" in refused.err) == (2, True)


def test_a_module_that_changes_on_a_running_minion_is_known_to_the_master_soon(fleet: Fleet, tmp_path: Path) -> None:
    fleet.start_master()
    folder = module_dir(tmp_path / "one", "def f(a):\n    return a\n")
    fleet.join("m", module_dirs=[folder])
    assert fleet.cli("m", "mixed.g", "x").code == 2
    module_dir(tmp_path / "one", "def f(a, more):\n    return [a, more]\ndef g(text: str):\n    return text\n")
    wait_until(lambda: fleet.cli("m", "mixed.g", "x").code == 0, "g runs")
    assert fleet.cli("m", "mixed.g", "1.10", "--out", "json").json() == {"m": "1.10"}
    assert "mixed.f needs 'more'" in fleet.cli("m", "mixed.f", "x").err
    assert fleet.daemons["m"].log().count("connection: ready") == 1
