"""`cron` with the machine's own crontab program, in the crontab of a user that the tests make."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from saltlite.loader.call import Outcome, call
from saltlite.loader.index import build_index
from saltlite.loader.loader import Loader
from saltlite.loader.search_path import search_layers
from saltlite.plugins.modules import cron

INDEX = build_index(search_layers({}))
USER = "sltcron"
EVERY = ("*", "*", "*", "*", "*")
TAG = cron.TAG
OWN = "# my own\n5 4 * * * /mine\n"

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can look after the crontabs of others"),
    pytest.mark.skipif(shutil.which("crontab") is None, reason="there is no crontab here (Debian: package cron)"),
]


def run(fun: str, *args: Any, **kwargs: Any) -> Outcome:
    return call(Loader(INDEX, {}, {}, {}), f"cron.{fun}", (USER, *args), kwargs)


def does(result: str, fun: str, *args: Any, **kwargs: Any) -> None:
    outcome = run(fun, *args, **kwargs)
    assert (outcome.value, outcome.retcode) == (result, 0)


def crontab() -> str:
    return subprocess.run(["crontab", "-u", USER, "-l"], capture_output=True, text=True, check=False).stdout


@pytest.fixture(scope="module")
def user() -> Iterator[None]:
    try:
        subprocess.run(["useradd", "-M", "-s", "/bin/false", USER], capture_output=True, check=True)
        yield
    finally:
        subprocess.run(["crontab", "-u", USER, "-r"], capture_output=True, check=False)
        subprocess.run(["userdel", "-f", USER], capture_output=True, check=False)


@pytest.fixture(autouse=True)
def _before(user: None) -> None:
    subprocess.run(["crontab", "-u", USER, "-"], input=OWN, text=True, check=True)


def test_a_job_comes_changes_and_goes() -> None:
    does("new", "set_job", 5, "*/2", "*", "*", 1, "/bin/job 'a  b'", comment="why\nmore", identifier="one")
    assert crontab() == f"{OWN}{TAG}\n# why\n# more SALT_CRON_IDENTIFIER:one\n5 */2 * * 1 /bin/job 'a  b'\n"
    does("present", "set_job", 5, "*/2", "*", "*", 1, "/bin/job 'a  b'", identifier="one")
    does("updated", "set_job", 6, "*/2", "*", "*", 1, "/bin/other", identifier="one", commented=True)
    assert run("list_tab").value == {
        "pre": ["# my own", "5 4 * * * /mine"],
        "crons": [
            {
                "minute": "6", "hour": "*/2", "daymonth": "*", "month": "*", "dayweek": "1", "cmd": "/bin/other",
                "commented": True, "comment": "why\nmore", "identifier": "one",
            }
        ],
        "special": [],
        "env": [],
    }  # fmt: skip
    assert run("get_entry", identifier="one").value["cmd"] == "/bin/other"
    assert run("get_entry", cmd="/bin/none").value is False
    does("absent", "rm_job", "/bin/other")
    does("removed", "rm_job", "/bin/whatever", identifier="one")
    assert crontab() == f"{OWN}{TAG}\n"


def test_a_job_without_identifier_is_found_by_its_command_and_takes_one() -> None:
    does("new", "set_job", *EVERY, "/bin/a")
    does("new", "set_job", *EVERY, "/bin/b")
    does("updated", "set_job", *EVERY, "/bin/a", identifier="a")
    assert [one["identifier"] for one in run("ls").value["crons"]] == ["a", None]
    does("new", "set_job", *EVERY, "/bin/a")


def test_times_and_names_of_times_change_places() -> None:
    does("new", "set_special", "@daily", "/bin/a", identifier="a")
    assert crontab().endswith("# SALT_CRON_IDENTIFIER:a\n@daily /bin/a\n")
    does("present", "set_special", "@daily", "/bin/a", identifier="a")
    does("updated", "set_job", *EVERY, "/bin/a", identifier="a")
    assert (len(run("ls").value["special"]), len(run("ls").value["crons"])) == (0, 1)
    does("updated", "set_special", "@hourly", "/bin/a", identifier="a")
    does("absent", "rm_special", "/bin/a", special="@daily", identifier="a")
    does("removed", "rm_special", "/bin/a", identifier="a")


def test_only_a_job_with_these_times_is_removed() -> None:
    run("set_job", 1, 2, "*", "*", "*", "/bin/a")
    does("absent", "rm_job", "/bin/a", minute=2)
    does("removed", "rm", "/bin/a", minute=1, hour=2)


def test_a_chosen_time_is_chosen_once() -> None:
    does("new", "set_job", "random", "2:4", "random", "*", "*", "/bin/a")
    first = crontab()
    job = run("ls").value["crons"][0]
    assert (int(job["minute"]) < 60, 2 <= int(job["hour"]) <= 4, 1 <= int(job["daymonth"]) <= 28) == (True,) * 3
    does("present", "set_job", "random", "2:4", "random", "*", "*", "/bin/a")
    assert crontab() == first


def test_variables_stand_above_the_jobs() -> None:
    run("set_job", *EVERY, "/bin/a")
    does("new", "set_env", "MAILTO", "x@example.com")
    does("present", "set_env", "MAILTO", "x@example.com")
    does("updated", "set_env", "MAILTO", "")
    does("present", "set_env", "MAILTO", None)
    assert crontab() == f'{OWN}{TAG}\nMAILTO=""\n* * * * * /bin/a\n'
    does("removed", "rm_env", "MAILTO")
    does("absent", "rm_env", "MAILTO")


@pytest.mark.parametrize(
    ("fun", "args", "words"),
    [
        ("set_job", ["61", "*", "*", "*", "*", "/bin/a"], "bad minute"),
        ("set_job", ["* *", "*", "*", "*", "*", "/bin/a"], "is not a valid minute of a crontab"),
        ("set_job", ["*", "$(id)", "*", "*", "*", "/bin/a"], "is not a valid hour of a crontab"),
        ("set_job", [*EVERY, "/bin/a\n* * * * * /bin/evil"], "cannot be a command"),
        ("set_job", [*EVERY, ""], "no command"),
        ("set_job", [*EVERY, "/bin/a", False, None, "a\nb"], "cannot be a identifier"),
        ("set_special", ["@never", "/bin/a"], "was not changed"),
        ("set_special", ["@daily x", "/bin/a"], "time name"),
        ("set_env", ["A B", "x"], "is not the name of a variable"),
        ("set_env", ["A", "x\ny"], "cannot be a value"),
        ("write_cron_file", ["relative"], "absolute path"),
    ],
)
def test_what_is_no_crontab_is_refused_and_the_old_one_stays(fun: str, args: list[Any], words: str) -> None:
    outcome = run(fun, *args)
    assert (words in outcome.value, outcome.retcode, crontab()) == (True, 1, OWN), outcome.value


@pytest.mark.parametrize("name", ["sltnone", "-l", "a b", "a\nb", "", "ü", "a;b", "../x"])
def test_the_crontab_of_nobody_cannot_be_changed(name: str) -> None:
    outcome = call(Loader(INDEX, {}, {}, {}), "cron.set_env", (name, "A", "b"), {})
    assert outcome.retcode == 1
    assert "does not exist" in outcome.value or "is not the name of a user" in outcome.value


def test_a_file_becomes_the_crontab(tmp_path: Path) -> None:
    (tmp_path / "good").write_text("1 2 3 4 5 /bin/a\n")
    (tmp_path / "bad").write_text("nonsense\n")
    assert run("write_cron_file", str(tmp_path / "good")).value is True
    assert run("raw_cron").value == "1 2 3 4 5 /bin/a\n"
    assert run("write_cron_file", str(tmp_path / "bad")).value is False
    assert run("write_cron_file_verbose", str(tmp_path / "bad")).value["retcode"] == 1
    assert crontab() == "1 2 3 4 5 /bin/a\n"


def test_lines_that_are_not_looked_after_stay_where_they_are() -> None:
    text = f"A=1\n{TAG}\nB = 2\n\n# a note\n\n*\t*  * * *   /tab  bed\n#DISABLED#@daily /off\nnonsense\n# the end\n"
    tab = cron._parse(text)
    assert tab.text() == text
    assert [one.values["cmd"] for one in tab.of_kind("crons", "special")] == ["/tab  bed", "/off"]
    assert [one.values for one in tab.of_kind("env")] == [{"name": "B", "value": "2"}]


def test_bytes_and_separators_of_other_lines_are_written_as_they_were() -> None:
    odd = "# caf\u00e9".encode("latin-1") + "\n0 4 * * * echo 'a\u2028* * * * * b\x85'\n".encode()
    subprocess.run(["crontab", "-u", USER, "-"], input=odd, check=True)
    does("new", "set_env", "A", "x\u2028* * * * * /bin/c")
    does("updated", "set_env", "A", "y\u2028* * * * * /bin/c")
    whole = subprocess.run(["crontab", "-u", USER, "-l"], capture_output=True, check=True).stdout
    assert whole == odd + f"{TAG}\nA=y\u2028* * * * * /bin/c\n".encode()
    assert run("list_tab").value["crons"] == []
    assert run("raw_cron").value.startswith("# caf\ufffd\n")
