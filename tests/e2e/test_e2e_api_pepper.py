"""salt-pepper, which was written for Salt's API, as a command and as a library, unmodified."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import ssl
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.served import serve
from tests.support.api import PASSWORD
from tests.support.fleet import Fleet, wait_until

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Fleet, str]]:
    """A fleet with the minions `a` and `b`, and the address of its API."""
    with serve(tmp_path_factory.mktemp("pepper")) as both:
        yield both


class Command:
    """The command `pepper`, logged in as somebody."""

    def __init__(self, url: str, folder: Path) -> None:
        self.cache = folder / "peppercache"
        self._connect = ["-c", os.devnull, "-u", url, "--ignore-ssl-errors", "--non-interactive"]

    def run(self, *words: str, user: str = "admin", password: str = PASSWORD) -> subprocess.CompletedProcess[str]:
        """`pepper words`, to its end."""
        login = ["-a", "file", "--username", user, "--password", password]
        return subprocess.run(
            [
                sys.executable,
                "-c",
                "import sys, pepper.script as s; sys.exit(s.Pepper()())",
                *self._connect,
                *login,
                *words,
            ],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env={**os.environ, "PEPPERCACHE": str(self.cache)},
        )

    def answer(self, *words: str, user: str = "admin") -> Any:
        """`return` of what it prints as JSON."""
        done = self.run(*words, user=user)
        assert done.returncode == 0, done
        return json.loads(done.stdout)["return"]


@pytest.fixture
def pepper(served: tuple[Fleet, str], tmp_path: Path) -> Command:
    """The command, with an empty cache of tokens."""
    return Command(served[1], tmp_path)


@pytest.fixture(scope="module")
def library(served: tuple[Fleet, str]) -> Any:
    """The library, logged in as somebody who may everything."""
    verifies = ssl._create_default_https_context
    pepper = importlib.import_module("pepper")
    ssl._create_default_https_context = verifies  # what it changes for the whole process
    # Without TLS, of which it uses what Python has deprecated; the command above has it.
    api = pepper.Pepper(served[0].start_api(disable_ssl=True))
    api.login("admin", PASSWORD, "file")
    return api


@pytest.mark.parametrize(
    ("target", "minions"),
    [
        (["*"], ["a", "b"]),
        (["a"], ["a"]),
        (["-L", "a,b"], ["a", "b"]),
        (["-E", "[ab]"], ["a", "b"]),
        (["-G", "id:b"], ["b"]),
        (["-C", "a or b"], ["a", "b"]),
    ],
)
def test_the_command_asks_every_kind_of_target(pepper: Command, target: list[str], minions: list[str]) -> None:
    [rows] = pepper.answer(*target, "test.ping")
    assert {name: row["ret"] for name, row in rows.items()} == dict.fromkeys(minions, True)
    assert {row["retcode"] for row in rows.values()} == {0}


def test_the_command_hands_arguments_on(pepper: Command) -> None:
    [rows] = pepper.answer("a", "test.arg", "1", "two", "three=3")
    assert (rows["a"]["ret"]["args"], rows["a"]["ret"]["kwargs"]["three"]) == ([1, "two"], 3)


def test_the_command_goes_in_batches(pepper: Command) -> None:
    rows = pepper.answer("--batch", "1", "*", "test.ping")
    assert sorted(name for row in rows for name in row) == ["a", "b"]


def test_the_command_calls_runners_and_wheel_functions(pepper: Command) -> None:
    [ran] = pepper.answer("--client", "runner", "manage.up")
    [keys] = pepper.answer("--client", "wheel", "key.name_match", "match=a")
    assert (ran["return"], keys["data"]["return"]) == (["a", "b"], {"minions": ["a"]})


def test_the_command_publishes_without_waiting(pepper: Command) -> None:
    [published] = pepper.answer("--client", "local_async", "*", "test.ping")
    assert published["minions"] == ["a", "b"]


def test_the_command_polls_until_all_have_answered(pepper: Command) -> None:
    done = pepper.run("--fail-if-incomplete", "-t", "20", "*", "test.ping")
    assert done.returncode == 0
    assert '"a"' in done.stdout
    assert '"b"' in done.stdout


def test_the_command_takes_lowstates_as_json(pepper: Command) -> None:
    low = [{"client": "local", "tgt": "a", "fun": "test.echo", "kwarg": {"text": "hello"}}]
    [rows] = pepper.answer("--json", json.dumps(low))
    assert rows["a"]["ret"] == "hello"


def test_what_fails_is_found_by_its_check_of_retcodes(pepper: Command) -> None:
    check = importlib.import_module("pepper.retcode").PepperRetcode
    assert check.validate_fail_any(pepper.answer("*", "cmd.run", "exit 3")) == 3
    assert check.validate_fail_any_none(pepper.answer("*", "test.ping")) == 0


def test_the_command_keeps_a_token_and_uses_it_again(pepper: Command) -> None:
    pepper.answer("-T", "a", "test.ping")
    kept = json.loads(pepper.cache.read_text())
    assert stat.S_IMODE(pepper.cache.stat().st_mode) == 0o600
    done = pepper.run("-T", "a", "test.ping", password="not looked at")
    assert done.returncode == 0
    assert json.loads(pepper.cache.read_text()) == kept


def test_the_command_goes_through_run_with_a_token_of_its_own(pepper: Command) -> None:
    [rows] = pepper.answer("-r", "a", "test.ping")
    assert rows["a"]["ret"] is True


def test_the_command_is_told_when_a_login_is_wrong(pepper: Command) -> None:
    done = pepper.run("*", "test.ping", password="wrong")
    assert (done.returncode, "Authentication denied" in done.stderr) == (1, True)


def test_the_command_may_no_more_than_its_user(pepper: Command) -> None:
    assert pepper.answer("a", "test.ping", user="fred")[0]["a"]["ret"] is True
    refused = pepper.run("*", "test.ping", user="fred")
    assert (refused.returncode, "403" in refused.stdout + refused.stderr) == (1, True)


def test_the_librarys_login_has_all_that_salts_has(library: Any) -> None:
    auth = type(library)(library.api_url).login("fred", PASSWORD, "file")
    assert {"token", "start", "expire", "user", "eauth", "perms"} <= auth.keys()
    assert (auth["user"], auth["eauth"], auth["expire"] > auth["start"]) == ("fred", "file", True)


def test_the_library_runs_jobs_in_every_way_it_has(library: Any) -> None:
    assert library.local("*", "test.ping") == {"return": [{"a": True, "b": True}]}
    assert library.local("a", "test.echo", arg=["hello"]) == {"return": [{"a": "hello"}]}
    assert library.local("a,b", "test.ping", expr_form="list", timeout=5)["return"] == [{"a": True, "b": True}]
    batch = library.local_batch("*", "test.ping", batch="50%")["return"]
    assert sorted(batch, key=str) == [{"a": True}, {"b": True}]
    assert library.runner("manage.up") == {"return": [["a", "b"]]}
    assert library.wheel("key.finger", match="a")["return"][0]["data"]["success"] is True


def test_the_library_looks_up_what_it_published(library: Any) -> None:
    jid = library.local_async("*", "test.ping")["return"][0]["jid"]

    def found() -> bool:
        [rows] = library.lookup_jid(jid)["return"]
        return bool(rows.get("data", rows) == {"a": True, "b": True})

    wait_until(found, "the job has its returns")


def test_the_library_reads_keys_and_follows_events(library: Any) -> None:
    assert library.req_get("/keys")["return"]["minions"] == ["a", "b"]
    with library.req_stream("/events") as stream:
        library.local("a", "test.ping")
        tags = (line.partition(b": ")[2].decode() for line in stream.iter_lines() if line.startswith(b"tag: "))
        assert next(tags).startswith("salt/job/")
