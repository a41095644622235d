"""Runners for keys, minions, jobs, caches and surveys, each against a real master with one fleet for all of them.

`a` manages the resource `dummy:lamp`, `b` has a grain of its own, `off` is accepted and was never there.
"""

from __future__ import annotations

import io
import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from saltlite.api import runner_process
from saltlite.cli.console import Console
from saltlite.cli.main import run
from saltlite.client.local import JobCall
from saltlite.wire.framing import framed, pack, take_frame
from tests.support.fleet import ME, Fleet, wait_until

pytestmark = pytest.mark.e2e

TOP = "base:\n  a: [lamps]\n  b: [front]\n"
LAMPS = "resources: {dummy: {resource_ids: [lamp]}}\n"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    handlers, level = logging.getLogger().handlers[:], logging.getLogger().level
    fleet = Fleet(tmp_path_factory.mktemp("runners"))
    pillar = fleet.root("master") / "srv/pillar"
    pillar.mkdir(parents=True)
    for name, text in (("top", TOP), ("lamps", LAMPS), ("front", "tier: front\n")):
        (pillar / f"{name}.sls").write_text(text)
    runners = fleet.folder / "runners"
    runners.mkdir()
    (runners / "salts.py").write_text(SALTS)
    try:
        fleet.start_master(
            timeout=6, runner_dirs=[str(runners)], hooks={"told": {"event": "x/*", "as": ME, "runner": HOOKED}}
        )
        fleet.join("a")
        fleet.join("b", grains={"role": "db"})
        wait_until(lambda: tuple(said(fleet, "resource.list")) == ("dummy:lamp",), "a manages its lamp")
        yield fleet
    finally:
        fleet.close()
        logging.getLogger().handlers[:] = handlers
        logging.getLogger().setLevel(level)


SALTS = """
import salt.client
import salt.config

def client(method, *args, **kwargs):
    known = {key: value for key, value in kwargs.items() if not key.startswith("__")}
    found = getattr(salt.client.LocalClient(), method)(*args, **known)
    return found if isinstance(found, (dict, str, int)) else list(found)

def by_path():
    opts = salt.config.client_config(__opts__["config_dir"] + "/master")
    several = [salt.client.LocalClient(mopts=opts), salt.client.get_local_client(opts["config_dir"] + "/master")]
    first, second = [one.cmd_iter("a", "test.ping") for one in several]
    return [next(first), next(second)]
"""

HOOKED = {"fun": "event.send", "kwarg": {"api_token": "sesame"}}


def typed(fleet: Fleet, *words: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of `saltlite-run words`, in this process: it is the same command."""
    out, err = io.StringIO(), io.StringIO()
    code = run(["runner", "-c", str(fleet.folder / "master"), *words], Console(None, out, err))
    return code, out.getvalue(), err.getvalue()


def said(fleet: Fleet, *words: str) -> Any:
    """What the runner returned."""
    code, out, err = typed(fleet, *words, "--out", "json")
    assert code == 0, out + err
    return json.loads(out)


def publish(fleet: Fleet, tgt: str, fun: str, *args: Any, **options: Any) -> str:
    """The jid of a job that has ended."""
    with fleet.client() as client:
        jid = client.publish(JobCall(tgt, fun, arg=args, **options)).jid
    wait_until(lambda: jid not in said(fleet, "jobs.active"), "the job ends")
    return jid


def test_minions_are_told_with_the_addresses_from_which_they_came(site: Fleet) -> None:
    assert said(site, "manage.present") == ["a", "b"]
    assert said(site, "manage.not_present") == []
    ips = said(site, "manage.list_state", "subset=[b]", "show_ip=True")
    assert {one: address.partition(":")[0] for one, address in ips.items()} == {"b": "127.0.0.1"}
    assert said(site, "manage.status", "role:db", "tgt_type=grain") == {"up": ["b"], "down": []}


def test_keys_are_listed_accepted_rejected_and_deleted(site: Fleet) -> None:
    site.start_minion("off", fleet=site.fleet_id())
    site.wait_key("off", "pending")
    site.daemons["off"].stop()
    assert said(site, "key.list", "un") == {"minions_pre": ["off"]}
    (found,) = said(site, "key.finger", "off")["minions_pre"].values()
    assert found == site.key_rows()[-1]["fingerprint"]
    assert said(site, "key.reject", "off") == {"minions_rejected": ["off"]}
    assert said(site, "key.accept", "off") == {}
    assert said(site, "key.accept", "off", "include_rejected=True") == {"minions": ["off"]}
    assert said(site, "key.list_all")["minions"] == ["a", "b", "off"]
    assert said(site, "manage.not_joined") == ["off"]
    assert said(site, "manage.down", "removekeys=True") == ["off"]
    assert said(site, "key.glob_match", "off") == {}
    code, out, _err = typed(site, "key.list_all", "--no-color")
    empty = ["Denied Keys:", "Unaccepted Keys:", "Rejected Keys:", "Revoked Keys:"]
    assert (code, out.splitlines()) == (0, ["Accepted Keys:", "a", "b", *empty, "Local Keys:", "master.pub"])


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (("cmd", "a,b", "grains.get", "[role]", "tgt_type=list"), {"a": "", "b": "db"}),
        (("cmd", "role:db", "test.ping", "tgt_type=grain", "expr_form=grain"), {"b": True}),
        (("cmd", "a", "[test.ping, test.echo]", "[[], [x]]"), {"a": {"test.ping": True, "test.echo": "x"}}),
        (("cmd", "a", "test.ping,test.echo", "[[], x]"), {"a": {"test.ping": True, "test.echo": "x"}}),
        (("cmd", "nosuch", "test.ping"), {}),
        (("cmd_async", "nosuch", "test.ping"), 0),
        (("run_job", "nosuch", "test.ping"), {}),
        (("cmd_batch", "a,b", "test.ping", "tgt_type=list", "batch=50%"), [{"a": True}, {"b": True}]),
    ],
)
def test_the_client_of_salt_runs_jobs_in_a_runner(site: Fleet, words: tuple[str, ...], found: Any) -> None:
    value = said(site, "salts.client", *words)
    assert (sorted(value, key=str) if isinstance(value, list) else value) == found


def test_the_client_of_salt_tells_return_codes_and_jobs(site: Fleet) -> None:
    row = said(site, "salts.client", "cmd_full_return", "a", "test.retcode", "[3]")["a"]
    assert (row["ret"], row["retcode"], row["success"]) == (True, 3, False)
    options = ("tgt_type=list", "subset=1", "show_timeout=True")
    assert len(said(site, "salts.client", "cmd_subset", "a,b", "test.ping", *options)) == 1
    job = said(site, "salts.client", "run_job", "a or T@dummy", "test.ping", "tgt_type=compound")
    assert job["minions"] == ["a", "lamp"]
    wait_until(lambda: len(said(site, "salts.client", "get_cache_returns", job["jid"])) == 2, "both return")
    (event,) = said(site, "salts.client", "cmd_batch", "a", "test.echo", "[hi]", "raw=True")
    data = event["data"]
    assert event["tag"] == f"salt/job/{data['jid']}/ret/a"
    wanted = {"id": "a", "fun": "test.echo", "fun_args": ["hi"], "return": "hi", "success": True}
    assert {name: data[name] for name in wanted} == wanted
    assert [one["a"]["ret"] for one in said(site, "salts.by_path")] == [True, True]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("cmd", "a", "test.ping", "timeoutt=5"), "SaltInvocationError: The following keyword arguments are not valid"),
        (("run_job", "a", "test.ping", "jid=20260101000000000000"), "jid is not taken"),
        (("cmd_batch", "a", "test.ping", "batch=many"), "batch is a number of targets or a percentage"),
    ],
)
def test_the_client_of_salt_refuses_what_it_cannot_do(site: Fleet, words: tuple[str, ...], sentence: str) -> None:
    code, out, err = typed(site, "salts.client", *words)
    assert code != 0
    assert sentence.rpartition("SaltInvocationError: ")[2] in out + err


def test_a_job_with_a_resource_is_looked_up_listed_and_judged(site: Fleet) -> None:
    jid = publish(site, "a or T@dummy", "test.echo", "hi", tgt_type="compound", metadata={"ticket": 4711})
    assert said(site, "jobs.lookup_jid", jid) == {"a": "hi", "lamp": "hi"}
    job = said(site, "jobs.list_job", jid)
    assert (job["Minions"], job["Arguments"], job["Metadata"]) == (["a", "lamp"], ["hi"], {"ticket": 4711})
    assert job["Result"]["lamp"] == {"return": "hi", "retcode": 0, "success": True}
    assert list(said(site, "jobs.list_jobs", "search_metadata={ticket: 4711}", "search_target=*T@dummy*")) == [jid]
    assert list(said(site, "jobs.last_run", "function=test.*")) == [jid]
    assert said(site, "jobs.print_job", jid)[jid]["User"] == ME
    assert said(site, "jobs.exit_success", jid) == {"a": True, "lamp": True}
    failed = publish(site, "a", "test.retcode", 3)
    assert said(site, "jobs.exit_success", failed) == {"a": False}
    assert list(said(site, "jobs.list_jobs_filter", "1")) == [failed]


def test_a_return_is_printed_as_its_function_wants_it(site: Fleet) -> None:
    jid = publish(site, "a", "grains.items")
    code, out, _err = typed(site, "jobs.lookup_jid", jid, "--out", "json", "--out-indent=-1")
    assert (code, json.loads(out)["a"]["id"]) == (0, "a")
    assert typed(site, "jobs.lookup_jid", "20200101000000000000")[0] == 4


def test_the_process_of_a_runner_answers_the_data_without_the_outputter(site: Fleet) -> None:
    wanted = {"config_dir": str(site.folder / "master"), "token": "", "user": ME, "jid": "20260131235959123456"}
    call = {"fun": "jobs.list_jobs", "args": [], "kwargs": {"outputter": "table", "limit": 1}}
    publish(site, "a", "test.ping")
    found = runner_process.run({**wanted, **call})
    ((_jid, job),) = found["value"].items()
    assert (job["Function"], found["retcode"]) == ("test.ping", 0)


def test_a_process_serves_calls_of_shipped_runners_until_one_leaves_a_trace(site: Fleet) -> None:
    wanted = {"config_dir": str(site.folder / "master"), "token": "", "user": ME, "jid": "20260131235959123456"}
    serve = [sys.executable, "-m", "saltlite.api.runner_process", "--serve"]

    def served(*calls: tuple[str, list[Any]], **more: Any) -> tuple[list[Any], int]:
        """The answers of one process, and its exit code."""
        frames = b"".join(
            framed(pack({**wanted, **more, "fun": fun, "args": args, "kwargs": {}})) for fun, args in calls
        )
        done = subprocess.run(serve, input=frames, stdout=subprocess.PIPE, timeout=60, check=False)
        out, answers = bytearray(done.stdout), []
        while (frame := take_frame(out)) is not None:
            answers.append(json.loads(frame))
        return answers, done.returncode

    up: tuple[str, list[Any]] = ("manage.up", [])
    answers, code = served(up, ("manage.present", []), ("test.arg", [1]), up)
    assert [one["value"] for one in answers][::3] == [["a", "b"], ["a", "b"]]
    assert ([one["more"] for one in answers], code) == ([True] * 4, 0)
    # The functions of minions, which may be those of users; what prints goes elsewhere.
    for fun, args in (("no.such", []), ("salt.cmd", ["test.ping"]), ("cloud.list_providers", [])):
        answers, code = served(up, (fun, args), up)
        assert ([one["more"] for one in answers], code) == ([True, False], 0), fun
    answers, _ = served(("test.stdout_print", []), up)
    assert [one["value"] for one in answers] == ["bar", ["a", "b"]]


def test_a_process_of_one_login_takes_no_call_of_another(site: Fleet) -> None:
    wanted = {"config_dir": str(site.folder / "master"), "user": ME, "jid": "20260131235959123456"}
    call = {**wanted, "fun": "test.arg", "args": [], "kwargs": {}}
    frames = b"".join(framed(pack({**call, "token": token})) for token in ("a" * 64, "b" * 64))
    serve = [sys.executable, "-m", "saltlite.api.runner_process", "--serve"]
    done = subprocess.run(serve, input=frames, stdout=subprocess.PIPE, timeout=60, check=False)
    out = bytearray(done.stdout)
    assert json.loads(take_frame(out) or b"")["more"] is True
    assert (bytes(out), done.returncode) == (b"", 1)


def test_a_runner_of_a_user_has_a_process_of_its_own_and_is_read_anew(site: Fleet) -> None:
    folder = site.root("master") / "var/cache/saltlite/extmods/runners"
    folder.mkdir(parents=True, exist_ok=True)
    served = runner_process.ServedCalls()
    wanted = {"config_dir": str(site.folder / "master"), "token": "", "user": ME, "jid": "20260131235959123456"}
    mine = {**wanted, "fun": "mine.answer", "args": [], "kwargs": {}}
    try:
        for answer in (1, 22):
            (folder / "mine.py").write_text(f"def answer():\n    return {answer}\n")
            assert served.run(mine) == {"value": answer, "retcode": 0}
            assert not served.is_unchanged()
    finally:
        (folder / "mine.py").unlink()


def test_what_minions_may_fetch_is_listed_as_it_is_now(site: Fleet) -> None:
    folder = site.root("master") / "srv/salt/conf"
    folder.mkdir(parents=True)
    (folder / "a").write_text("")
    (folder / "link").symlink_to("a")
    (folder / "none").mkdir()
    assert said(site, "fileserver.envs") == ["base"]
    assert said(site, "fileserver.file_list") == ["conf/a", "conf/link"]
    assert said(site, "fileserver.empty_dir_list") == ["conf/none"]
    # As the API and hooks run it, without the rights to read those folders.
    wanted = {"config_dir": str(site.folder / "master"), "token": "", "user": ME, "jid": "20260131235959123456"}
    found = runner_process.run({**wanted, "fun": "fileserver.symlink_list", "args": [], "kwargs": {}})
    assert found == {"value": {"conf/link": "a"}, "retcode": 0}
    (folder / "a").unlink()
    assert said(site, "fileserver.file_list") == []


def test_caches_are_read_and_cleared(site: Fleet) -> None:
    assert said(site, "cache.grains", "b")["b"]["role"] == "db"
    wait_until(lambda: said(site, "cache.pillar", "b") == {"b": {"tier": "front"}}, "the pillar of b is cached")
    assert said(site, "cache.list", "grains") == ["a", "b"]
    assert said(site, "cache.list", "resource_grains") == ["dummy:lamp"]
    assert list(said(site, "cache.fetch", "resource_grains", "a")) == ["dummy:lamp"]
    assert said(site, "cache.fetch", "resources", "lamp")["managing_minions"] == ["a"]
    assert said(site, "cache.clear_all", "b") is True
    assert said(site, "cache.pillar", "b") == {"b": {}}
    # Nothing has changed for the minion: it sends its grains because it is asked to.
    wait_until(lambda: said(site, "cache.fetch", "grains", "b").get("role") == "db", "b sends its grains again")
    assert said(site, "manage.up", "role:db", "tgt_type=grain") == ["b"]
    with site.client() as client:
        client.cmd("b", "saltutil.refresh_pillar")
    wait_until(lambda: said(site, "cache.fetch", "pillar", "b") == {"tier": "front"}, "the pillar is made again")
    assert said(site, "cache.flush", "pillar", "b") is True
    assert said(site, "cache.list", "pillar") == ["a"]


def test_minions_are_surveyed(site: Fleet) -> None:
    assert said(site, "survey.hash", "a,b", "test.ping", "tgt_type=list") == [{"pool": ["a", "b"], "result": "True"}]
    first, other = said(site, "survey.diff", "a or b", "grains.item", "id")
    assert (first["pool"], other["pool"]) == (["a"], ["b"])
    assert other["diff"].splitlines()[-2:] == ['-    "id": "a"', '+    "id": "b"']


def test_options_are_read_without_secrets(site: Fleet) -> None:
    assert said(site, "config.get", "timeout") == 6.0
    assert said(site, "config.get", "hooks:told:runner:kwarg") == {"api_token": "***"}
    assert "sesame" not in json.dumps(said(site, "test.get_opts"))


def test_runners_can_be_tried_out(site: Fleet) -> None:
    assert said(site, "test.arg", "1", "two", "three=3") == {"args": [1, "two"], "kwargs": {"three": 3}}
    assert said(site, "test.stdout_print") == "bar"
    assert said(site, "test.sleep", "0") is True
    with site.client() as client:
        before = client.call("events", pattern="run/*")["seq"]
    assert said(site, "test.stream", "count=2", "interval=0") is True
    with site.client() as client:
        client.call("events", pattern="run/*", after=before)
        seen: list[dict[str, Any]] = []

        def both() -> bool:
            seen.extend((client.receive(1.0) or {}).get("events", ()))
            return len(seen) >= 2

        wait_until(both, "two events of the runner")
    assert [event["tag"].split("/")[2] for event in seen] == ["progress", "progress"]
