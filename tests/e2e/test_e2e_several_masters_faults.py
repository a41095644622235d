"""Masters that share a database, when one of them stands still and goes on later, and when the database does.

One of the masters is of a newer version, which has expanded the tables.

`SALTLITE_STANDS_STILL=60` has a master stand still for so many seconds, in place of 3 and 10, and
`SALTLITE_DATABASE_HANGS=30` the database, in place of 8.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("psycopg", reason="psycopg is not installed: saltlite[postgres]")

from saltlite.client.local import JobCall, LocalClient
from saltlite.errors import SaltliteError
from saltlite.master.store.postgres.schema import FORMAT
from tests.support.fleet import ME, Fleet, done_once, wait_until
from tests.support.other_version import launcher, newer
from tests.support.own_etc import own_etc
from tests.support.postgres import running_server
from tests.support.several_masters import MASTERS, Site, family, returned

pytestmark = pytest.mark.e2e

HOME = "two"
HOMES = dict.fromkeys(("fay", "ida", "ned"), HOME)
"""Minions whose names give them this home, so that none goes to another master by itself."""
PERSONS = {"one": "alice", "two": "bob"}
"""Who has the number UID on the machines of these masters: each has a file of users of its own."""
UID = 61_001
STILL_S = [float(part) for part in os.environ.get("SALTLITE_STANDS_STILL", "3,10").split(",")]
HANGS_S = float(os.environ.get("SALTLITE_DATABASE_HANGS", "8"))

PLUGIN = """
import fcntl

FOLDER = {folder!r}

def told(what):
    with open(FOLDER + "/told", "a") as file:
        file.write(what + "\\n")
    with open(FOLDER + "/hold") as file:
        fcntl.flock(file, fcntl.LOCK_SH)

def returner(ret):
    if ret["fun"] == "test.echo":
        told("returner " + ret["jid"] + " " + ret["id"])
"""
"""A returner and a runner that write down what they were called for, and wait while a test holds the lock."""
HOOKS: dict[str, Any] = {"run": {"event": "app/run", "as": ME, "runner": {"fun": "mine.told", "arg": ["runner {n}"]}}}


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with running_server() as server, running_server() as standby:
        # Other users come to the sockets of masters.
        folder = Path(tempfile.mkdtemp(prefix="saltlite-faults-"))
        folder.chmod(0o755)
        fleet = Fleet(folder)
        through: dict[str, list[str]] = {"three": launcher(newer(folder / "newer"))}
        for master, user in PERSONS.items() if os.geteuid() == 0 else ():
            users = Path("/etc/passwd").read_text() + f"{user}:x:{UID}:{UID}::/:/bin/false\n"
            mount = own_etc(folder / f"etc-{user}", {"passwd": users})
            through[master] = ["unshare", "--mount", "sh", "-c", f'{mount} && exec "$0" "$@"']
        (fleet.folder / "hold").touch()
        for kind in ("returners", "runners"):
            (fleet.folder / "own" / kind).mkdir(parents=True)
            (fleet.folder / "own" / kind / "mine.py").write_text(PLUGIN.format(folder=str(fleet.folder)))
        try:
            own: dict[str, Any] = {
                "module_dirs": [str(fleet.folder / "own")],
                "master_returners": ["mine"],
                "hooks": HOOKS,
            }
            own["database"] = f"host={server.folder},{standby.folder} user=saltlite dbname=postgres"
            own["publisher_acl"] = {user: ["test.*"] for user in PERSONS.values()}
            site = Site(fleet, server, HOMES, through, **own)
            site.standby = standby
            yield site
        finally:
            fleet.close()
            shutil.rmtree(folder)


def publish(site: Site, *words: str, master: str = "one") -> str:
    """The jid."""
    answer = returned(site.fleet.cli("--async", "--out", "json", *words, master=master))
    jid: str = answer["jid"]
    return jid


def restart_at(site: Site, minion: str, *masters: str) -> None:
    """Start a minion again; it knows these masters only, until one of them tells it of the others."""
    site.fleet.daemons[minion].stop()
    (site.fleet.root(minion) / "var/lib/saltlite/minion/masters.json").unlink(missing_ok=True)
    site.fleet.start_minion(minion, master=[site.fleet.address(name) for name in masters])


def wait_session(site: Site, master: str, *minions: str) -> None:
    """Wait until these minions have their sessions there."""
    wait_until(lambda: {site.sessions().get(one) for one in minions} == {master}, f"{minions} are at {master}")


def state(site: Site, jid: str) -> str:
    return site.server.sql(f"SELECT state FROM job_targets WHERE jid = '{jid}'")  # noqa: S608 - a jid


def claims(site: Site) -> list[str]:
    """Who has which minion, since which handshake, and when it left if it did."""
    sql = "SELECT id, master, run, handshake, up, end_reason FROM minions ORDER BY id"
    return site.server.sql(sql).splitlines()


# -- a master stands still


@pytest.mark.timeout(240)
@pytest.mark.parametrize("seconds", STILL_S)
def test_a_master_that_wakes_takes_no_minion_back_and_changes_no_job(
    seconds: float, site: Site, tmp_path: Path
) -> None:
    """It wakes when jobs of minions that it had are queued, sent, running and returned."""
    fleet, runs, go = site.fleet, tmp_path / "runs", tmp_path / "go"
    for minion in HOMES:
        if site.sessions().get(minion) != HOME:
            restart_at(site, minion, HOME)
    wait_session(site, HOME, *HOMES)
    jobs = {
        "returned": publish(site, "fay", "cmd.run", f"echo returned >> {runs}"),
        "running": publish(
            site, "fay", "cmd.run", f"echo running >> {runs}; while [ ! -e {go} ]; do sleep 0.1; done; echo done"
        ),
    }
    wait_until(lambda: fleet.running_jobs("fay").get(jobs["running"]), "it runs")
    wait_until(lambda: state(site, jobs["returned"]) == "returned", "it has returned")
    mworkers = fleet.daemons[HOME].children("MWorker")
    handshakes = fleet.daemons["ned"].log().count("connection: handshake")
    try:
        # It has half of a handshake with ned, and goes on with that when ned has left.
        for pid in mworkers:
            os.kill(pid, signal.SIGSTOP)
        restart_at(site, "ned", HOME)
        wait_until(lambda: fleet.daemons["ned"].log().count("connection: handshake") > handshakes, "ned asks it")
        with site.standing_still(HOME):
            still_since = time.monotonic()
            jobs["queued"] = publish(site, "--deliver-by", "10m", "ida", "cmd.run", f"echo queued >> {runs}")
            fleet.daemons["ida"].stop()
            for minion in ("fay", "ned"):
                restart_at(site, minion, "three", "one")
            wait_session(site, "three", "fay", "ned")
            os.kill(fleet.daemons["ned"].pid, signal.SIGSTOP)
            jobs["sent"] = publish(site, "--deliver-by", "10m", "ned", "cmd.run", f"echo sent >> {runs}")
            moved = claims(site)
            wait_until(lambda: time.monotonic() - still_since >= seconds, "it stood still", seconds + 60)
            assert [state(site, jobs[one]) for one in ("queued", "sent", "running")] == ["queued", "queued", "running"]
        wait_until(lambda: fleet.cli("fay", "test.ping", master=HOME).code == 0, "it acts again")
        assert [row for row in claims(site) if not row.startswith("ida|")] == [
            row for row in moved if not row.startswith("ida|")
        ]
        assert [state(site, jobs[one]) for one in ("queued", "sent", "running")] == ["queued", "queued", "running"]
    finally:
        os.kill(fleet.daemons["ned"].pid, signal.SIGCONT)
    go.touch()
    restart_at(site, "ida", "three", "one")
    for name, jid in jobs.items():
        wait_until(lambda jid=jid: state(site, jid) == "returned", f"the job that was {name} has returned")  # type: ignore[misc]
        assert site.server.sql(f"SELECT count(*) FROM returns WHERE jid = '{jid}'") == "1"  # noqa: S608 - a jid
    assert Counter(runs.read_text().split()) == dict.fromkeys(jobs, 1)
    for name in MASTERS:
        assert site.ping(name) == dict.fromkeys(HOMES, True)


# -- two masters do the work of all for a moment


def told(site: Site, what: str) -> Counter[str]:
    """What the plug-in was called for, and how often."""
    path = site.fleet.folder / "told"
    lines = path.read_text().splitlines() if path.exists() else []
    return Counter(line.removeprefix(f"{what} ") for line in lines if line.startswith(what))


@contextmanager
def held(site: Site) -> Iterator[None]:
    """Whatever is called meanwhile writes that down, and waits."""
    with (site.fleet.folder / "hold").open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def test_a_returner_of_a_master_that_stood_still_repeats_what_it_was_at_and_no_return_is_missed(site: Site) -> None:
    with ExitStack() as still:
        with held(site):
            jid = publish(site, "*", "test.echo", "x")
            (first,) = wait_until(lambda: told(site, "returner"), "the returner has begun")
            wanted = {f"{jid} {minion}" for minion in HOMES}
            stopped = site.holder("returner mine")
            still.enter_context(site.standing_still(stopped))
        wait_until(lambda: set(told(site, "returner")) == wanted, "another master has taken the work over")
        assert site.holder("returner mine") != stopped
    site.wait_joined(stopped)
    later = publish(site, "*", "test.echo", "y", master=stopped)
    wanted |= {f"{later} {minion}" for minion in HOMES}
    wait_until(lambda: set(told(site, "returner")) == wanted, "it goes on")
    times = told(site, "returner")
    assert times[first] == 2
    assert {times[one] for one in wanted if one.startswith(jid)} <= {1, 2}
    assert {times[one] for one in wanted if one.startswith(later)} == {1}


def test_a_runner_of_a_master_that_stood_still_is_begun_once(site: Site) -> None:
    def fire(master: str, number: int) -> None:
        assert site.fleet.cli("runner", "event.send", "app/run", f'{{"n": "{number}"}}', master=master).code == 0

    with ExitStack() as still:
        with held(site):
            fire("one", 1)
            wait_until(lambda: told(site, "runner") == {"1": 1}, "the runner has begun")
            stopped = site.holder("hooks")
            other = next(name for name in MASTERS if name != stopped)
            still.enter_context(site.standing_still(stopped))
        fire(other, 2)
        wait_until(lambda: told(site, "runner")["2"] == 1, "another master has taken the work over")
        assert site.holder("hooks") != stopped
    site.wait_joined(stopped)
    fire(stopped, 3)
    wait_until(lambda: told(site, "runner")["3"], "it goes on")
    assert told(site, "runner") == {"1": 1, "2": 1, "3": 1}


# -- the database


def refuses_at_once(site: Site, master: str) -> bool:
    """Whether it refuses a command with a sentence within 3 s, and answers who asks what needs no database."""
    with site.fleet.client(master) as client:
        asked = time.monotonic()
        answers = client.call("whoami")["user"] == ME
        with pytest.raises(SaltliteError, match="cannot be reached"):
            client.cmd("*", "test.ping")
        return answers and time.monotonic() - asked < 3.0


def wait_all_act(site: Site, *jobs: str) -> None:
    """Wait until all masters act, and these jobs of all minions have one result of each."""
    for name in MASTERS:
        site.wait_joined(name)
    for jid in jobs:
        count = f"SELECT count(*) FROM returns WHERE jid = '{jid}' AND state = 'returned'"  # noqa: S608 - a jid
        wait_until(lambda count=count: site.server.sql(count) == "3", "all results are there")  # type: ignore[misc]


def test_a_database_that_hangs_has_commands_refused_and_costs_no_result(site: Site, tmp_path: Path) -> None:
    go = tmp_path / "go"
    jid = publish(site, "*", "cmd.run", done_once(go))
    wait_until(lambda: all(site.fleet.running_jobs(minion) for minion in HOMES), "all run it")
    pids = family(site.server.pid)
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    since = time.monotonic()
    go.touch()
    try:
        for name in MASTERS:
            # Each of its MWorkers waits once.
            wait_until(lambda name=name: all(refuses_at_once(site, name) for _ in range(4)), "it refuses at once")  # type: ignore[misc]
        wait_until(lambda: time.monotonic() - since >= HANGS_S, "it hangs", HANGS_S + 60)
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
    wait_all_act(site, jid)


def test_a_connection_that_ends_in_a_commit_doubles_nothing_and_loses_nothing(site: Site) -> None:
    """Commits wait for a standby that there is not, and the connections are ended meanwhile: all is committed, and no
    master knows that."""
    server, go = site.server, site.fleet.folder / "go"
    jid = publish(site, "*", "cmd.run", done_once(go))
    wait_until(lambda: all(site.fleet.running_jobs(minion) for minion in HOMES), "all run it")
    server.sql("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
    server.sql("SELECT pg_reload_conf()")
    go.touch()
    stored = f"SELECT count(*) FROM returns WHERE jid = '{jid}'"  # noqa: S608 - a jid
    waiting = "FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
    ended = 0
    while ended < 10:
        wait_until(lambda: server.sql(f"SELECT count(*) {waiting}") != "0", "a commit waits")
        ended += len(server.sql(f"SELECT pg_terminate_backend(pid) {waiting}").split())
    wait_until(lambda: server.sql(stored) != "0", "some result is committed")
    server.sql("ALTER SYSTEM RESET synchronous_standby_names")
    server.sql("SELECT pg_reload_conf()")
    wait_all_act(site, jid)
    watched = site.fleet.cli("job", "watch", jid, "--out", "json", master="two")
    assert returned(watched) == dict.fromkeys(HOMES, "done")
    told = server.sql(f"SELECT tag FROM events WHERE tag LIKE 'salt/job/{jid}/ret/%' ORDER BY tag")  # noqa: S608 - a jid
    assert told.splitlines() == [f"salt/job/{jid}/ret/{minion}" for minion in sorted(HOMES)]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_who_has_the_uid_of_somebody_on_another_master_sees_and_ends_no_job_of_theirs(site: Site) -> None:
    with asking(site, "one") as alice:
        assert alice.call("whoami")["user"] == "alice"
        jid = alice.publish(JobCall("fay", "test.sleep", arg=[120])).jid
    wait_until(lambda: jid in site.fleet.running_jobs("fay"), "it runs")
    with asking(site, "two") as bob:
        assert bob.call("whoami")["user"] == "bob"
        assert bob.call("job_list")["jobs"] == []
        for verb, fields in (("job_show", {}), ("job_kill", {}), ("follow", {"after": 0, "once": True})):
            with pytest.raises(SaltliteError, match=f"there is no job {jid}"):
                bob.call(verb, jid=jid, **fields)
    assert jid in site.fleet.running_jobs("fay")
    with asking(site, "one") as alice:
        assert [job["jid"] for job in alice.call("job_list")["jobs"]] == [jid]
        alice.call("job_kill", jid=jid)
    wait_until(lambda: jid not in site.fleet.running_jobs("fay"), "its own user ends it")


@contextmanager
def asking(site: Site, master: str) -> Iterator[LocalClient]:
    """A client of the user with UID, who this process is meanwhile."""
    os.seteuid(UID)
    try:
        with site.fleet.client(master) as client:
            yield client
    finally:
        os.seteuid(0)


def test_a_master_of_the_version_before_goes_on_and_a_newer_one_may_go_back(site: Site) -> None:
    """All tests of this file run beside a newer master; it is taken back here."""
    assert site.server.sql("SELECT expanded FROM store") == str(FORMAT + 1)
    site.fleet.daemons["three"].stop()
    site.fleet.restart_master("three")
    for name in MASTERS:
        site.wait_joined(name)
        assert site.ping(name) == dict.fromkeys(HOMES, True)
    assert site.server.sql("SELECT expanded FROM store") == str(FORMAT + 1)


def test_a_standby_that_lacks_the_last_second_is_told_of_and_no_reader_misses_or_confuses_an_event(site: Site) -> None:
    """The last test of this site: the servers have changed."""
    fleet, lost, standby = site.fleet, site.server, site.standby
    assert standby is not None
    standby.copy(lost)

    def send(tag: str) -> None:
        assert fleet.cli("runner", "event.send", f"app/{tag}", "{}", master="one").code == 0

    follower = fleet.start_cli("events", "app/*", "--count", "4", "--out", "jsonl", master="one")
    with follower:
        send("kept")
        replayed = "SELECT pg_last_wal_replay_lsn() = '{}'"
        wait_until(lambda: standby.sql(replayed.format(lost.sql("SELECT pg_current_wal_lsn()"))) == "t", "it has that")
        standby.stop()
        send("lost-1")
        send("lost-2")
        gone = publish(site, "*", "test.echo", "lost")
        wait_all_act(site, gone)
        lost.stop(signal.SIGQUIT)
        standby.start()
        standby.promote()
        site.server = standby
        for name in MASTERS:
            site.wait_joined(name)
        send("new")
        out, err = follower.communicate(timeout=90)
    seen = [json.loads(line) for line in out.splitlines()]
    assert [one["tag"] for one in seen] == ["app/kept", "app/lost-1", "app/lost-2", "app/new"], err
    first, last = (one["seq"] for one in seen[1:3])
    taken = standby.sql(f"SELECT count(*) FROM events WHERE seq BETWEEN {first} AND {last}")  # noqa: S608 - numbers
    assert taken == "0", "no other event has a number that a client has seen"
    for name in MASTERS:
        assert "the database has lost the last changes that this master read" in fleet.daemons[name].log()
        assert site.ping(name) == dict.fromkeys(HOMES, True)
    shown = fleet.cli("job", "watch", gone, master="two")
    assert shown.code != 0
    assert f"there is no job {gone}" in shown.err
