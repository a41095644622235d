"""Executors as an operator types them: the seed's examples, one's own file, options, what a minion allows."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from saltlite import __version__
from tests.support.fleet import Fleet, Said, wait_until

pytestmark = pytest.mark.e2e

OWN = '''"""Multiplies what the function returns."""


def execute(opts, data, func, args, kwargs):
    times = data.get("executor_opts", {}).get("times") or opts.get("times", 3)
    return [func(*args, **kwargs), times, opts["id"], data["fun"], data["arg"]]
'''

MISSING = """
def execute(opts, data, func, args, kwargs):
    return ["instead of", func, args, sorted(kwargs)[:3]] if isinstance(func, str) else None


def all_missing_func(name):
    return name.startswith("elsewhere.")
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """A master and two minions: `a` as it comes, `b` that allows more."""
    fleet = Fleet(tmp_path_factory.mktemp("executors"))
    try:
        fleet.start_master()
        executors = fleet.root("master") / "srv/salt/_executors"
        executors.mkdir(parents=True)
        (executors / "own.py").write_text(OWN)
        (executors / "elsewhere.py").write_text(MISSING)
        (executors / "passes.py").write_text("def execute(opts, data, func, args, kwargs):\n    return None\n")
        (executors / "raises.py").write_text("def execute(opts, data, func, args, kwargs):\n    return 1 / 0\n")
        (executors / "hangs.py").write_text(
            "import time\ndef execute(opts, data, func, args, kwargs):\n    time.sleep(600)\n"
        )
        (executors / "nonsense.py").write_text(
            "async def execute(opts, data, func, args, kwargs):\n    return {object(): lambda: 3}\n"
        )
        (executors / "broken.py").write_text("def execute(\n")
        (executors / "empty.py").write_text("def other():\n    return None\n")
        fleet.join("a")
        more = [
            "own",
            "elsewhere",
            "passes",
            "raises",
            "hangs",
            "nonsense",
            "broken",
            "empty",
            "audit",
            "dry",
            "nice",
            "timeout",
            "nope",
        ]
        fleet.join("b", executors_allowed=[*more, "direct_call", "splay"])
        for name in ("a", "b"):
            synced = fleet.cli(name, "saltutil.sync_executors", "--out", "json").json()[name]
            assert "executors.own" in synced, synced
        yield fleet
    finally:
        fleet.close()


def through(fleet: Fleet, executors: str, *words: str, options: str = "") -> Said:
    """A job whose minions use these executors."""
    more = [f"--executor-opts={options}"] if options else []
    return fleet.cli(f"--module-executors={executors}", *more, "--out", "json", *words)


def value(said: Said) -> Any:
    """What the one target returned."""
    ((_target, returned),) = said.json().items()
    return returned


def test_the_command_of_the_seed_waits_and_calls(site: Fleet) -> None:
    begun = time.monotonic()
    said = site.cli(
        "-t", "40", "--module-executors=[splay, direct_call]", "--executor-opts={splaytime: 2}", "*", "test.version"
    )
    assert (said.code, said.out.count(__version__)) == (0, 2)
    delays = [float(line.split("delayed by ")[1].split()[0]) for line in said.err.splitlines() if "delayed by" in line]
    assert len(delays) == 2
    assert max(delays) - 0.1 <= time.monotonic() - begun
    assert all(0 <= delay <= 2 for delay in delays)


def test_the_configuration_of_the_seed_does_the_same_unasked(fleet: Fleet) -> None:
    fleet.start_master()
    fleet.join("a", module_executors=["splay", "direct_call"], splaytime=1)
    said = fleet.cli("a", "test.version", "--out", "json")
    assert said.json() == {"a": __version__}
    assert "splay: the call was delayed by 0." in said.err


def test_an_executor_of_ones_own_is_synced_and_used(site: Fleet) -> None:
    said = through(site, "[own]", "b", "test.arg", "x", "k=1", options="{times: 5}")
    assert said.code == 0, said
    echoed, times, minion, fun, arg = value(said)
    assert (times, minion, fun, arg) == (5, "b", "test.arg", ["x", {"__kwarg__": True, "k": 1}])
    assert echoed["args"] == ["x"]


def test_what_an_executor_passes_on_reaches_the_next_one_and_nobody_may_be_the_last(site: Fleet) -> None:
    assert value(through(site, "[passes, direct_call]", "b", "test.echo", "hello")) == "hello"
    said = through(site, "[passes]", "b", "test.echo", "hello")
    assert (said.code, value(said)) == (0, None)


@pytest.mark.parametrize(
    ("executors", "text"),
    [
        (
            "[audit, empty]",
            "ERROR executing 'test.ping': Executor 'empty' is not available: it has no function execute",
        ),
        ("raises", "The minion function caused an exception: "),
        ("sudo", "ERROR executing 'test.ping': Executor 'sudo' may not be requested here: option executors_allowed"),
    ],
)
def test_a_chain_that_cannot_be_used_ends_its_job_with_a_clear_return(site: Fleet, executors: str, text: str) -> None:
    said = through(site, executors, "b", "test.ping")
    assert said.code == 4
    assert value(said).startswith(text)


def test_nothing_of_a_chain_runs_when_one_of_it_is_not_there(site: Fleet) -> None:
    audit = site.root("b") / "var/log/saltlite/minion-audit"
    before = audit.read_text() if audit.exists() else ""
    through(site, "[audit, empty]", "b", "test.ping")
    assert (audit.read_text() if audit.exists() else "") == before


@pytest.mark.parametrize("executors", ["[audit, nope, direct_call]", "[broken]"])
def test_an_executor_that_no_target_can_load_is_named_before_anything_is_published(site: Fleet, executors: str) -> None:
    published = site.jobs_published()
    said = through(site, executors, "*", "test.ping")
    assert said.code == 2, said
    name = "nope" if "nope" in executors else "broken"
    assert f"none of the targets has an executor '{name}' that can be loaded: `saltlite a saltutil.sync_exe" in said.err
    assert site.jobs_published() == published


def test_minions_without_an_executor_are_named_before_they_answer(site: Fleet) -> None:
    own = site.root("b") / "var/cache/saltlite/minion/extmods/executors"
    (own / "onlyb.py").write_text("def execute(opts, data, func, args, kwargs):\n    return 'b'\n")
    assert site.cli("b", "saltutil.refresh_modules").code == 0
    wait_until(lambda: through(site, "onlyb", "b", "test.ping").code == 4, "the master knows the executor of b")
    said = through(site, "onlyb", "*", "test.ping")
    line = "a will refuse the job, without the executor onlyb: `saltlite a saltutil.sync_executors` installs it"
    assert (said.code, line in said.err) == (4, True), said


def test_an_executor_that_hangs_is_ended_as_a_function_is(site: Fleet) -> None:
    said = through(site, "hangs", "b", "test.ping", "--run-timeout", "1s")
    assert said.code == 4
    jid = site.cli("--async", "--out", "json", "--module-executors=hangs", "b", "test.ping").json()["jid"]
    site.wait_state(jid, "b", "running")
    assert site.cli("job", "kill", jid).code == 0
    site.wait_state(jid, "b", "cancelled")


def test_an_executor_that_returns_nonsense_has_a_return(site: Fleet) -> None:
    said = through(site, "nonsense", "b", "test.ping")
    assert said.code == 0
    assert "object" in json.dumps(value(said))


def test_a_splay_is_interrupted_by_a_kill(site: Fleet) -> None:
    options = "--executor-opts={splaytime: 3600}"
    jid = site.cli("--async", "--out", "json", "--module-executors=[splay, direct_call]", options, "a", "test.ping")
    site.wait_state(jid.json()["jid"], "a", "running")
    assert site.cli("job", "kill", jid.json()["jid"]).code == 0
    site.wait_state(jid.json()["jid"], "a", "cancelled")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ("{splaytime: 0}", "splaytime is a number of seconds above 0, not 0"),
        ("{splaytime: x}", "the option 'splaytime' of an executor takes float, not 'x'"),
        ("{splaytime: 99999}", "splaytime may be 3600 s at most here (option splay_max), not 99999"),
        ("{sudo_user: root}", "none of the executors splay, direct_call takes the option 'sudo_user' from a caller"),
    ],
)
def test_an_option_that_is_not_for_callers_is_refused(site: Fleet, options: str, text: str) -> None:
    said = through(site, "[splay, direct_call]", "a", "test.ping", options=options)
    assert said.code == 4
    assert text in value(said)


def test_a_caller_gets_no_executor_that_the_minion_does_not_allow(site: Fleet) -> None:
    said = through(site, "[own]", "a", "test.ping")
    assert said.code == 4
    assert value(said) == (
        "ERROR executing 'test.ping': Executor 'own' may not be requested here: "
        "option executors_allowed of this minion has direct_call, dry, splay; "
        "this line in its configuration allows it: executors_allowed: [direct_call, dry, splay, own]"
    )


def test_a_function_that_is_nowhere_reaches_the_executor_that_wants_it(site: Fleet) -> None:
    said = through(site, "[direct_call, elsewhere]", "b", "elsewhere.walk", "x", "k=1")
    assert said.code == 0, said
    assert value(said) == ["instead of", "elsewhere.walk", ["x", {"__kwarg__": True, "k": 1}], ["arg", "fun", "id"]]
    refused = through(site, "[direct_call, elsewhere]", "b", "nowhere.walk")
    assert (refused.code, value(refused)) == (4, "'nowhere.walk' is not available.")


@pytest.mark.parametrize("executors", ["{a: b}", "5", "[splay, 5]", "[../x]"])
def test_a_chain_that_is_none_is_refused_before_anything_is_published(site: Fleet, executors: str) -> None:
    published = site.jobs_published()
    said = through(site, executors, "a", "test.ping")
    assert said.code == 2, said
    assert "executor" in said.err
    assert site.jobs_published() == published


def test_the_time_limit_of_an_executor_ends_the_function_and_says_so(site: Fleet) -> None:
    begun = time.monotonic()
    said = through(site, "[timeout, direct_call]", "b", "test.sleep", "600", options="{call_timeout: 0.5}")
    assert said.code == 4
    text = "ERROR executing 'test.sleep': test.sleep was ended, because it took longer than 0.5 s (executor timeout)"
    assert value(said) == text
    assert time.monotonic() - begun < 60


def test_a_program_that_a_function_waits_for_ends_with_its_time(site: Fleet) -> None:
    said = through(site, "[timeout, direct_call]", "b", "cmd.run", "sleep 7531.5", options="{call_timeout: 0.5}")
    assert "took longer than 0.5 s" in value(said)
    wait_until(lambda: not _running(b"sleep\x007531.5"), "the program has ended")


def test_nice_reaches_what_the_function_starts(site: Fleet) -> None:
    said = through(site, "[nice, direct_call]", "b", "cmd.run", "nice", options="{nice_level: 15}")
    assert value(said) == "15"
    assert value(through(site, "[nice, direct_call]", "b", "cmd.run", "nice", options="{nice_level: 3}")).startswith(
        "ERROR"
    )


def test_a_dry_call_tells_and_does_nothing(site: Fleet, tmp_path: Path) -> None:
    said = through(site, "dry", "b", "cmd.run", f"touch {tmp_path}/x")
    assert value(said) == {"dry": True, "fun": "cmd.run", "args": [f"touch {tmp_path}/x"], "kwargs": {}}
    assert not (tmp_path / "x").exists()


def test_audit_writes_a_line_before_the_call_and_no_secret(site: Fleet) -> None:
    said = through(site, "[audit, direct_call]", "b", "test.arg", "hunter2", "password=hunter3")
    assert said.code == 0
    text = (site.root("b") / "var/log/saltlite/minion-audit").read_text()
    line = json.loads(text.splitlines()[-1])
    assert (line["id"], line["fun"], line["args"], line["kwargs"]) == ("b", "test.arg", 1, ["password"])
    assert "hunter" not in text


def test_a_job_shows_its_executors_and_runs_again_through_them(site: Fleet) -> None:
    jid = site.cli(
        "--async", "--out", "json", "--module-executors=[own]", "--executor-opts={times: 7}", "b", "test.ping"
    ).json()["jid"]
    site.wait_state(jid, "b", "returned")
    shown = site.cli("job", "show", jid, "--out", "json").json()
    assert (shown["module_executors"], shown["executor_opts"]) == (["own"], {"times": 7})
    assert "own times=7" in site.cli("job", "show", jid).out
    again = site.cli("job", "rerun", jid, "--out", "json")
    assert again.json()["b"][:2] == [True, 7]


def test_a_configured_audit_stays_whatever_is_asked_for(fleet: Fleet) -> None:
    fleet.start_master()
    fleet.join("a", module_executors=["audit", "direct_call"])
    fleet.cli("--module-executors=direct_call", "a", "test.ping")
    assert (
        fleet.cli("--module-executors=[splay, direct_call]", "--executor-opts={splaytime: 0.1}", "a", "test.ping").code
        == 0
    )
    lines = (fleet.root("a") / "var/log/saltlite/minion-audit").read_text().splitlines()
    assert [json.loads(line)["executors"] for line in lines] == [
        ["audit", "direct_call"],
        ["audit", "splay", "direct_call"],
    ]


def test_a_doctor_finds_a_chain_that_cannot_be_used(fleet: Fleet) -> None:
    fleet.start_master()
    fleet.join("a", module_executors=["nope", "direct_call"])
    refused = fleet.cli("--module-executors=direct_call", "a", "saltutil.sync_executors")
    assert (refused.code, "remove it there, run saltutil.sync_executors" in refused.out) == (4, True)
    said = fleet.cli("doctor", master="a")
    assert said.code == 4
    assert "no function can be called: Executor 'nope' is not available" in " ".join(said.out.split())
    # At the start, in the status of the master, and to its doctor.
    assert "No job can run here: module_executors names nope" in fleet.logs()
    status = fleet.cli("status")
    assert "no job can run on a: module_executors there names nope, which it does not have" in status.out
    assert fleet.cli("status", "--out", "json").json()["unable"] == {"a": ["nope"]}
    assert "no job can run on a: its module_executors names nope" in " ".join(fleet.cli("doctor").out.split())
    explained = fleet.cli("explain", "test", "a")
    assert explained.code != 0
    assert "Executor 'nope' is not available" in explained.err
    # The way out of the root user of that machine.
    mended = fleet.cli("call", "--local", "--module-executors=direct_call", "test.ping", "--out", "json", master="a")
    assert (mended.code, mended.json()) == (0, {"local": True})


def test_a_chain_is_whole_again_when_its_executor_is_there(fleet: Fleet) -> None:
    fleet.start_master()
    fleet.join("a", module_executors=["late", "direct_call"])

    def unable() -> object:
        return fleet.cli("status", "--out", "json").json()["unable"]

    wait_until(lambda: unable() == {"a": ["late"]}, "the minion has reported what it lacks")
    own = fleet.root("a") / "var/cache/saltlite/minion/extmods/executors"
    own.mkdir(parents=True)
    (own / "late.py").write_text("def execute(opts, data, func, args, kwargs):\n    return None\n")
    wait_until(lambda: unable() == {}, "the minion has reported it")
    assert fleet.cli("a", "test.ping", "--out", "json").json() == {"a": True}


def test_the_same_chain_under_call(site: Fleet) -> None:
    said = site.cli(
        "call", "--module-executors=[splay, own]", "--executor-opts={splaytime: 0.5, times: 2}", "test.ping",
        "--out", "json", master="b",
    )  # fmt: skip
    assert said.code == 0, said
    assert said.json()["local"][:2] == [True, 2]
    assert "splay: the call was delayed by" in said.err


def test_what_there_is_can_be_listed(site: Fleet) -> None:
    listed = site.cli("b", "sys.list_executors", "--out", "json").json()["b"]
    assert {"direct_call", "splay", "timeout", "nice", "audit", "dry", "own"} <= set(listed)
    assert "sudo" not in listed  # sudo_user is not set
    doc = site.cli("b", "sys.executor_doc", "splay", "--out", "json").json()["b"]
    assert "splaytime: 30" in doc["splay.execute"]


def test_the_file_of_an_executor_is_explained(site: Fleet) -> None:
    explained = site.cli("explain", "executors.own", "b", "--out", "json").json()
    assert [(one["file"], one["chosen"]) for one in explained["candidates"]] == [("own", True)]
    refused = site.cli("explain", "executors.sudo", "--local", master="b")
    assert (refused.code, "option sudo_user of this minion is not set" in refused.out) == (0, True)
    assert site.cli("explain", "executors.nowhere", "b").code == 3


def test_an_option_of_an_executor_stands_in_the_configuration_of_the_minion(fleet: Fleet) -> None:
    fleet.start_master()
    executors = fleet.root("master") / "srv/salt/_executors"
    executors.mkdir(parents=True)
    (executors / "leveled.py").write_text(
        "def execute(opts, data, func, args, kwargs):\n    return [opts.get('mylevel'), opts.get('leveled.mylevel')]\n"
    )
    own: dict[str, Any] = {"own_options": ["mylevel"], "mylevel": 7, "leveled.mylevel": 8}
    fleet.join("a", executors_allowed=["leveled"], **own)
    assert fleet.cli("a", "saltutil.sync_executors").code == 0
    assert value(through(fleet, "leveled", "a", "test.ping")) == [7, 8]


def _running(command: bytes) -> bool:
    """Whether a process with that in its command line is there."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            found.append(entry.name.isdigit() and command in (entry / "cmdline").read_bytes())
        except OSError:
            continue  # it has ended meanwhile
    return any(found)
