"""From a command line to what the master is asked, and what is refused before it is asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from saltlite.cli import exitcodes
from saltlite.cli.main import main
from tests.integration.fakemaster import FakeMaster, fixed, good_job
from tests.support.terminal import AtTerminal

INSTALL = "pkg.install(name:str,refresh:bool=False,test:bool=False)"


def asked(tmp_path: Path, *words: str, **functions: dict[str, Any]) -> tuple[int, list[dict[str, Any]]]:
    """The exit code of a job, and the requests that reached the master's scripts."""
    with FakeMaster(tmp_path, good_job) as master:
        master.functions = {name.replace("__", "."): known for name, known in functions.items()}
        code = main(["-c", master.config_dir, *words])
    return code, master.requests


@pytest.mark.parametrize(
    ("words", "fields"),
    [
        (["--subset", "3"], {"subset": 3}),
        (["-b", "10"], {"batch": {"size": 10, "percent": False, "wait_ms": 0, "failhard": False}}),
        (
            ["--batch", "25%", "--batch-wait", "1.5s", "--failhard"],
            {"batch": {"size": 25, "percent": True, "wait_ms": 1500, "failhard": True}},
        ),
        (["--run-timeout", "2m", "--deliver-by=5"], {"run_ms": 120_000, "deliver_ms": 5000}),
    ],
)
def test_options_become_fields(tmp_path: Path, words: list[str], fields: dict[str, Any]) -> None:
    code, requests = asked(tmp_path, "*", "test.ping", *words)
    assert code == 0
    assert {name: requests[0][name] for name in fields} == fields


def test_options_that_were_not_given_are_no_fields(tmp_path: Path) -> None:
    _, requests = asked(tmp_path, "*", "test.ping")
    assert not {"subset", "batch", "run_ms", "deliver_ms"} & set(requests[0])


def test_where_the_job_comes_from_is_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSH_CONNECTION", "10.0.0.7 50000 10.0.0.1 22")
    monkeypatch.setenv("SUDO_USER", "ali\x1bce" + "x" * 300)
    _, requests = asked(tmp_path, "*", "test.ping")
    origin = requests[0]["origin"]
    assert origin.startswith("ssh 10.0.0.7, ")
    assert "sudo from alice" in origin
    assert len(origin) == 200


@pytest.mark.parametrize(("questions", "value"), [(2, "1.10"), (1000, 1.1)])
def test_a_command_waits_a_while_for_the_reports_of_minions_that_have_just_connected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, questions: int, value: object
) -> None:
    monkeypatch.setattr("saltlite.cli.job.FUNCTIONS_WAIT_S", 60.0 if questions == 2 else 0.5)
    with FakeMaster(tmp_path, good_job) as master:
        master.awaited = questions
        master.functions = {"m.f": {"signatures": ["m.f(version:str)"]}} if questions < 1000 else {}
        assert main(["-c", master.config_dir, "*", "m.f", "1.10"]) == 0
        assert [request["calls"] for request in master.requests] == [[["m.f", [value], {}]]]


def test_several_functions_have_arguments_parted_by_commas(tmp_path: Path) -> None:
    _, requests = asked(tmp_path, "*", "test.echo,test.ping,test.arg", "a", ",", ",1", "k=v")
    assert requests[0]["calls"] == [["test.echo", ["a"], {}], ["test.ping", [], {}], ["test.arg", [1], {"k": "v"}]]


def test_arguments_are_what_the_function_takes(tmp_path: Path) -> None:
    _, requests = asked(tmp_path, "*", "pkg.install", "1.10", "refresh=yes", pkg__install={"signatures": [INSTALL]})
    assert requests[0]["calls"] == [["pkg.install", ["1.10"], {"refresh": True}]]


@pytest.mark.parametrize(
    ("words", "known", "code", "said"),
    [
        (["nginx", "refresh=maybe"], {"signatures": [INSTALL]}, 2, "takes bool, not 'maybe'"),
        (["nginx", "--test"], {"signatures": ["pkg.install(name,**kwargs)"]}, 6, "--test"),
        (["nginx"], {"risks": [{"risk": "remove"}]}, 6, "--accept-risk=remove"),
        (["nginx", "--accept-risk", "reboot"], {"risks": [{"risk": "remove"}]}, 6, "--accept-risk=reboot,remove"),
        (
            ["nginx"],
            {"risks": [{"risk": "remove", "minions": 1, "one": "evil1"}]},
            6,
            "1 of 2 minions (evil1) says that pkg.install carries the risk remove",
        ),
        (["nginx", "--failhard"], {}, 2, "--failhard needs --batch"),
        (["nginx", "--batch-wait", "5"], {}, 2, "--batch-wait needs --batch"),
        (["nginx", "-v", "-q"], {}, 2, "exclude each other"),
        (["nginx", "-b", "0"], {}, 2, "'0' is not a number of targets"),
        (["nginx", "-b", "101%"], {}, 2, "more than all of them"),
        (["nginx", "-b", "%"], {}, 2, "is not a number of targets"),
        (["nginx", "--subset", "many"], {}, 2, "'many' is not a number of targets"),
    ],
)
def test_what_is_wrong_is_refused_and_nothing_is_published(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], known: dict[str, Any], code: int, said: str
) -> None:
    assert asked(tmp_path, "*", "pkg.install", *words, pkg__install=known) == (code, [])
    assert said in capsys.readouterr().err


def test_a_risk_that_was_accepted_is_taken(tmp_path: Path) -> None:
    words = ("*", "pkg.install", "nginx", "--accept-risk=remove")
    assert asked(tmp_path, *words, pkg__install={"risks": [{"risk": "remove"}]})[0] == exitcodes.OK


def test_a_dry_run_is_asked_of_the_function(tmp_path: Path) -> None:
    _, requests = asked(tmp_path, "*", "pkg.install", "x", "--test", pkg__install={"signatures": [INSTALL]})
    assert requests[0]["calls"] == [["pkg.install", ["x"], {"test": True}]]


@pytest.mark.parametrize(("typed", "code"), [("2", exitcodes.OK), ("y", exitcodes.REFUSED)])
def test_at_a_terminal_the_number_of_minions_is_what_accepts_a_risk(tmp_path: Path, typed: str, code: int) -> None:
    with FakeMaster(tmp_path, good_job) as master:
        master.functions = {"pkg.remove": {"risks": [{"risk": "remove"}]}}
        with AtTerminal("-c", master.config_dir, "*", "pkg.remove", "nginx") as terminal:
            terminal.wait_for("type 2 to go on:")
            terminal.type(f"{typed}\n")
            assert terminal.ended() == code
    assert len(master.requests) == (code == exitcodes.OK)


def test_a_subset_is_what_is_asked_about(tmp_path: Path) -> None:
    with FakeMaster(tmp_path, good_job) as master:
        master.functions = {"pkg.remove": {"risks": [{"risk": "remove"}]}}
        with AtTerminal("-c", master.config_dir, "*", "pkg.remove", "nginx", "--subset", "1") as terminal:
            terminal.wait_for("on 1 minion; type 1 to go on:")
            terminal.type("1\n")
            assert terminal.ended() == exitcodes.OK


def explained(tmp_path: Path, *words: str, describes: bool = True) -> tuple[int, dict[str, Any]]:
    """The exit code of `acl explain`, and what it asked about."""
    answer = {"ok": True, "allowed": True, "reason": "", "operator": False, "rules": [], "groups": [], "targets": 1}
    with FakeMaster(tmp_path, fixed({**answer, "refused": [], "refused_count": 0})) as master:
        master.functions = {
            "pkg.install": {"signatures": [INSTALL]},
            "disk.tune": {"signatures": ["disk.tune(device:str,**kwargs)"]},
        }
        master.describes = describes
        code = main(["-c", master.config_dir, "acl", "explain", "fred", *words])
    return code, master.requests[0] if master.requests else {}


@pytest.mark.parametrize(
    ("words", "args", "kwargs"),
    [
        (["*", "pkg.install", "1.10", "refresh=yes"], ["1.10"], {"refresh": True}),
        (["*", "disk.tune", "/dev/sda", "read-ahead=1"], ["/dev/sda"], {"read-ahead": 1}),
        (["*", "other.fun", "1.5", "read-ahead=1"], [1.5, "read-ahead=1"], {}),
        (["@runner", "pkg.install", "1.5"], [1.5], {}),
    ],
)
def test_what_may_be_run_is_asked_about_arguments_as_a_job_would_have_them(
    tmp_path: Path, words: list[str], args: list[Any], kwargs: dict[str, Any]
) -> None:
    code, request = explained(tmp_path, *words)
    assert (code, request["args"], request["kwargs"]) == (0, args, kwargs)


def test_arguments_that_a_job_would_be_refused_for_are_refused(tmp_path: Path) -> None:
    assert explained(tmp_path, "*", "pkg.install", "vim", "refresh=maybe") == (exitcodes.USAGE, {})


def test_who_may_ask_about_no_signature_is_answered_all_the_same(tmp_path: Path) -> None:
    code, request = explained(tmp_path, "*", "pkg.install", "1.10", describes=False)
    assert (code, request["verb"], request["args"]) == (0, "acl_explain", [1.1])
