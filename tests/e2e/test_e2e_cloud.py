"""Machines of a driver that somebody else wrote, made and destroyed with a real master and real minions."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.api import Api, user_file
from tests.support.cloud import IMAGE, MARK, PLANTED, PROVIDER, Lab
from tests.support.fleet import WAIT_S, Fleet, alive, wait_until

pytestmark = pytest.mark.e2e


GRANTED = {"file": {"admin": ["@runner", "@wheel", "@jobs"], "fred": [{"@runner": ["manage.up"]}]}}


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    fleet = Fleet(tmp_path_factory.mktemp("cloud"))
    try:
        users = user_file(fleet.folder / "users", "admin", "fred")
        fleet.start_master(auth_file=users, external_auth=GRANTED)
        yield fleet
    finally:
        fleet.close()


@pytest.fixture
def lab(master: Fleet, capfd: pytest.CaptureFixture[str]) -> Iterator[Lab]:
    """The configuration as it was; machines of a test are gone behind it."""
    made = Lab(master, capfd)
    yield made
    made.put_back()
    assert made.there() == set()


def nothing_is_left(lab: Lab, *names: str) -> bool:
    """Neither machine nor key nor cache nor token nor a line that says so."""
    said = lab.run("--unfinished")
    assert said.json() == {}, said
    assert not set(names) & (lab.there() | set(lab.fleet.keys()))
    assert not [path for path in lab.cached() if path.stem in names]
    return True


def test_one_command_makes_an_accepted_minion_that_answers_and_another_leaves_nothing_of_it(lab: Lab) -> None:
    said = lab.run_apart("-p", "small", "web1")
    assert said.code == 0, said
    assert said.json()["web1"]["state"] == "running"
    assert lab.fleet.cli("--out", "json", "web1", "test.ping").json() == {"web1": True}
    grains = lab.fleet.cli("--out", "json", "web1", "grains.get", "salt-cloud").json()["web1"]
    assert grains == {"driver": "scripted", "provider": PROVIDER, "profile": "small"}
    assert lab.fleet.keys()["web1"] == ["accepted"]
    said = lab.run_apart("-d", "web1", "-y")
    assert (said.code, said.json()) == (0, {"web1": {"destroyed": "web1"}})
    assert nothing_is_left(lab, "web1")


@pytest.mark.parametrize("trouble", ["", "twice", "forgets-events"])
def test_the_events_of_a_create_are_four_in_order_whatever_the_driver_fires(lab: Lab, trouble: str) -> None:
    name = f"ev-{trouble or 'good'}"
    lab.profile("small", trouble=trouble)
    assert lab.run("-p", "small", name).code == 0
    assert lab.run("-d", name, "-y").code == 0
    events = lab.events(name)
    assert [what for what, _ in events] == ["creating", "requesting", "deploying", "created", "destroying", "destroyed"]
    for what, data in events[:4]:
        basics = (data["name"], data["provider"], data["driver"], data["profile"])
        assert basics == (name, f"{PROVIDER}:scripted", "scripted", "small"), what
        assert data["event"], what


def test_created_is_said_when_the_minion_is_up_and_not_before(lab: Lab) -> None:
    assert lab.run("-p", "small", "late").code == 0
    with lab.fleet.store() as store:
        tags = [event.tag for event in store.events(0, 10**6) if "late" in event.tag]
    assert tags.index("salt/minion/late/start") < tags.index("salt/cloud/late/created")


def test_planted_secrets_are_in_no_event_log_record_or_message(lab: Lab, tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text(
        f"-----BEGIN OPENSSH PRIVATE KEY-----\n{MARK}keyfilelineofthatkey\n-----END OPENSSH PRIVATE KEY-----\n"
    )
    lab.provider(**PLANTED["provider"])
    lab.profile("small", private_key=str(key), **PLANTED["profile"])
    said = lab.run_apart("-l", "debug", "-p", "small", "web1")
    assert said.code == 0, said
    token = (lab.machines / "web1/token").read_text()
    assert MARK in said.out, "whoever makes a machine may see what the provider says of it"
    failed = [
        lab.run_apart("-p", "small", "web2", "--no-deploy"),
        lab.run_apart("-p", "small", "web1"),
        lab.run_apart("-p", "small", "--explain"),
        lab.run_apart("--list-profiles", "all"),
    ]
    lab.profile("small", private_key=str(key), trouble="crash", **PLANTED["profile"])
    failed.append(lab.run_apart("-l", "debug", "-p", "small", "web3"))
    lab.provider(trouble="refuses", **PLANTED["provider"])
    failed.append(lab.run_apart("-l", "debug", "-p", "small", "web4"))
    told = [said.err, *(one.err for one in failed), *(one.out for one in failed[1:])]
    store = lab.folder / "root/var/lib/saltlite/master"
    files = [*store.rglob("*"), *(lab.folder / "root/var/cache").rglob("*"), lab.folder / "output"]
    for path in files:
        told += [path.read_bytes().decode("latin-1")] if path.is_file() else []
    told += [str(lab.events())]
    for text in told:
        assert MARK not in text, text[max(0, text.find(MARK) - 300) : text.find(MARK) + 100]
        assert token not in text
        assert token.rpartition(".")[2] not in text


@pytest.mark.parametrize(
    ("trouble", "sentence"),
    [
        ("refuses", "the provider said no"),
        ("crash", "driver scripted failed in create"),
        ("no-minion", "the minion half did not come up"),
    ],
)
def test_a_create_that_fails_is_taken_back_and_said(lab: Lab, trouble: str, sentence: str) -> None:
    lab.profile("small", trouble=trouble, wait_for_minion=1)
    said = lab.run("-p", "small", "half")
    assert said.code == 4
    assert sentence in said.err
    assert "Traceback" not in said.err
    assert nothing_is_left(lab, "half")
    assert [what for what, _ in lab.events("half")].count("created") == 0


def test_the_token_of_a_create_that_failed_lets_nobody_in(lab: Lab) -> None:
    lab.profile("small", trouble="no-minion", wait_for_minion=2)
    creating = lab.start("-p", "small", "void")
    wait_until(lambda: "void" in lab.there(), "the machine is there")
    with lab.fleet.store() as store:
        tokens = [event.data["token"] for event in store.events(0, 10**6) if event.data.get("act") == "token"]
        assert store.token(tokens[-1]) is not None
        creating.communicate(timeout=2 * WAIT_S)
        assert creating.returncode == 4
        assert store.token(tokens[-1]) is None


def test_a_minion_that_had_joined_loses_its_key_when_its_create_fails(lab: Lab) -> None:
    lab.provider(**PLANTED["provider"])
    lab.profile("small", trouble="late", **PLANTED["profile"])
    creating = lab.start("-p", "small", "late1")
    lab.fleet.wait_key("late1", "accepted")
    lines = [Path(f"/proc/{pid}/cmdline").read_bytes().decode() for pid in lab.fleet.processes()]
    assert len(lines) > 3
    assert not [line for line in lines if MARK in line or "slj1." in line]
    (lab.machines / "go").touch()
    _out, err = creating.communicate(timeout=2 * WAIT_S)
    (lab.machines / "go").unlink()
    assert (creating.returncode, "something else went wrong" in err) == (4, True)
    assert nothing_is_left(lab, "late1")


def test_two_commands_do_not_make_one_machine(lab: Lab) -> None:
    lab.profile("small", trouble="late")
    first = lab.start("-p", "small", "twice")
    lab.fleet.wait_key("twice", "accepted")
    second = lab.run("-p", "small", "twice")
    assert (second.code, f"process {first.pid} is working on a machine twice there" in second.err) == (4, True)
    assert lab.fleet.keys()["twice"] == ["accepted"]
    (lab.machines / "go").touch()
    first.communicate(timeout=2 * WAIT_S)
    (lab.machines / "go").unlink()


def test_a_bare_machine_does_not_take_a_minion_of_its_name_with_it(lab: Lab) -> None:
    lab.fleet.join("namesake")
    assert lab.run("-p", "small", "--no-deploy", "namesake").code == 0
    assert lab.run("-d", "namesake", "-y").code == 0
    assert lab.fleet.keys()["namesake"] == ["accepted"]
    lab.fleet.daemons["namesake"].stop()


def test_an_event_has_fields_that_the_configuration_adds(lab: Lab) -> None:
    lab.write("cloud.conf.d/events.conf", {"filter_events": {"creating": {"keys": ["image", "ssh_password"]}}})
    lab.profile("small", ssh_password="planted-password")
    assert lab.run("-p", "small", "--no-deploy", "more").code == 0
    (lab.folder / "cloud.conf.d/events.conf").unlink()
    data = dict(lab.events("more"))["creating"]
    assert data["image"] == IMAGE
    assert "planted-password" not in str(data)


def test_a_machine_that_could_not_be_destroyed_is_listed_until_it_is(lab: Lab) -> None:
    lab.profile("small", trouble="crash")
    lab.provider(trouble="will-not-destroy")
    said = lab.run_apart("-p", "small", "stays")
    assert said.code == 4
    assert "stays: the machine is still there: the provider keeps stays" in said.err
    listed = lab.run("--unfinished")
    assert (listed.code, listed.json()["stays"]["left"]) == (4, ["the machine is still there"])
    lab.provider()
    assert lab.run("--clean", "-y").code == 0
    assert nothing_is_left(lab, "stays")


def test_keep_leaves_the_machine_for_somebody_to_look_at(lab: Lab) -> None:
    lab.profile("small", trouble="crash")
    said = lab.run("-p", "small", "--keep", "kept")
    assert (said.code, "the machine is kept" in said.err) == (4, True)
    assert lab.there() == {"kept"}


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("parallel", [(), ("-P",)])
def test_ctrl_c_takes_back_what_is_half_made(lab: Lab, how: signal.Signals, parallel: tuple[str, ...]) -> None:
    lab.profile("small", trouble="hang")
    names = ["h1", "h2"] if parallel else ["h1"]
    creating = lab.start("-p", "small", *parallel, *names)
    wait_until(lambda: lab.there() >= set(names), "the machines are there")
    creating.send_signal(how)
    _out, err = creating.communicate(timeout=2 * WAIT_S)
    assert creating.returncode == 130, err
    assert "interrupted" in err
    assert nothing_is_left(lab, *names)


@pytest.mark.parametrize("parallel", [(), ("-P",)])
def test_a_second_ctrl_c_leaves_what_is_there_to_be_cleaned_up(lab: Lab, parallel: tuple[str, ...]) -> None:
    lab.profile("small", trouble="hang")
    lab.provider(trouble="hangs-in-destroy")
    names = ["s1", "s2"] if parallel else ["s1"]
    creating = lab.start("-p", "small", *parallel, *names)
    wait_until(lambda: lab.there() >= set(names), "the machines are there")
    creating.send_signal(signal.SIGINT)
    wait_until((lab.machines / "destroying").exists, "they are being destroyed")
    creating.send_signal(signal.SIGINT)
    _out, err = creating.communicate(timeout=2 * WAIT_S)
    (lab.machines / "destroying").unlink()
    assert (creating.returncode, "goes on" in err) == (130, True), err
    assert lab.run("--unfinished").json().keys() == set(names)
    lab.provider()
    assert lab.run("--clean", "-y").code == 0
    assert nothing_is_left(lab, *names)


def test_what_a_killed_command_left_is_listed_and_cleaned_up(lab: Lab) -> None:
    lab.profile("small", trouble="killed")
    creating = lab.start("-p", "small", "dead")
    creating.communicate(timeout=2 * WAIT_S)
    assert creating.returncode == -signal.SIGKILL
    listed = lab.run("--unfinished")
    assert listed.code == 4
    assert "the machine is still there" in listed.json()["dead"]["left"]
    assert lab.run("--clean", "-y").code == 0
    assert nothing_is_left(lab, "dead")


def test_a_command_that_died_waiting_for_the_minion_can_be_gone_on_with(lab: Lab) -> None:
    lab.profile("small", trouble="no-minion")
    creating = lab.start("-p", "small", "slow")
    wait_until(lambda: {"what": "end", "step": "make-machine"}.items() <= last_line(lab).items(), "it waits")
    creating.kill()
    creating.communicate()
    lab.profile("small", wait_for_minion=WAIT_S)
    resuming = lab.start("--resume")
    lab.fleet.start_minion("slow", join_token=lab.fleet.token("--id", "slow"))
    _out, err = resuming.communicate(timeout=2 * WAIT_S)
    assert resuming.returncode == 0, err
    assert [what for what, _ in lab.events("slow")] == ["creating", "requesting", "deploying", "created"]
    assert lab.run("--unfinished").json() == {}
    lab.fleet.daemons["slow"].stop()


def last_line(lab: Lab) -> dict[str, Any]:
    """Of the journal."""
    path = lab.folder / "root/var/cache/saltlite/cloud/journal"
    lines = path.read_text().splitlines() if path.exists() else ["{}"]
    record: dict[str, Any] = json.loads(lines[-1])
    return record


def test_no_deploy_wins_over_the_profile_and_makes_no_minion(lab: Lab) -> None:
    lab.profile("small", deploy=True)
    assert lab.run("-p", "small", "--no-deploy", "bare").code == 0
    assert [what for what, _ in lab.events("bare")] == ["creating", "requesting", "created"]
    assert lab.fleet.keys().get("bare") is None


def test_a_name_is_free_again_when_its_machine_is_destroyed(lab: Lab) -> None:
    assert lab.run("-p", "small", "again").code == 0
    taken = lab.run("-p", "small", "again")
    assert (taken.code, "has a machine again already" in taken.err) == (4, True)
    assert lab.fleet.cli("--out", "json", "again", "test.ping").json() == {"again": True}
    assert lab.run("-d", "again", "-y").code == 0
    assert lab.run("-p", "small", "again").code == 0
    assert lab.fleet.cli("--out", "json", "again", "test.ping").json() == {"again": True}


def test_a_minion_that_is_accepted_already_is_never_replaced(lab: Lab) -> None:
    lab.fleet.join("old")
    said = lab.run("-p", "small", "old")
    assert (said.code, "accepted a key for old already" in said.err) == (4, True)
    assert lab.there() == set()
    assert lab.fleet.keys()["old"] == ["accepted"]
    lab.fleet.daemons["old"].stop()


def test_machines_are_made_at_the_same_time(lab: Lab) -> None:
    said = lab.run_apart("-P", "-p", "small", "p1", "p2", "p3")
    assert said.code == 0, said
    assert set(said.json()) == {"p1", "p2", "p3"}
    assert lab.fleet.up() >= {"p1", "p2", "p3"}
    said = lab.run_apart("-P", "-d", "p1", "p2", "p3", "-y")
    assert (said.code, set(said.json())) == (0, {"p1", "p2", "p3"})
    assert nothing_is_left(lab, "p1", "p2", "p3")


def test_one_machine_that_fails_does_not_keep_the_others_from_being_made(lab: Lab) -> None:
    lab.write("my.map", {"small": ["m1", {"m2": {"trouble": "crash"}}, {"m3": {"requires": ["m2"]}}, "m4"]})
    said = lab.run_apart("-P", "-m", str(lab.folder / "my.map"), "-y")
    assert said.code == 4
    assert set(said.json()) == {"m1", "m4"}
    assert "m3: not made, because m2, which it requires, failed" in said.err
    assert lab.there() == {"m1", "m4"}


def test_a_map_is_made_asked_and_destroyed(lab: Lab) -> None:
    lab.write("base.map", {"small": ["m1"]})
    grains = {"minion": {"grains": {"role": "web"}}, "requires": ["m1"]}
    path = str(lab.write("my.map", {"include": "base.map", "small": [{"m2": grains}]}))
    assert lab.run("-p", "small", "--no-deploy", "other").code == 0
    assert lab.run("-m", path, "-y").code == 0
    assert lab.fleet.cli("--out", "json", "m2", "grains.get", "role").json() == {"m2": "web"}
    assert set(lab.run("-Q", "-m", path).json()[PROVIDER]["scripted"]) == {"m1", "m2"}
    again = lab.run("-m", path, "-y")
    assert (again.code, again.json()) == (0, {})
    assert lab.run("-d", "-m", path, "-y").code == 0
    assert lab.there() == {"other"}


def test_the_command_lines_of_the_document_work_as_printed(lab: Lab) -> None:
    assert lab.run("-p", "small", "myinstance").code == 0
    assert lab.run("--list-locations", PROVIDER).json() == {PROVIDER: {"scripted": {"here": {}}}}
    assert set(lab.run("--list-images", PROVIDER).json()[PROVIDER]["scripted"]) == {IMAGE}
    assert set(lab.run("--list-sizes", PROVIDER).json()[PROVIDER]["scripted"]) == {"small", "large"}
    rows = lab.run("-Q").json()[PROVIDER]["scripted"]["myinstance"]
    assert rows == {
        "id": "1", "image": IMAGE, "size": "", "state": "running", "private_ips": [], "public_ips": ["203.0.113.7"],
    }  # fmt: skip
    full = lab.run("-F").json()[PROVIDER]["scripted"]["myinstance"]
    assert full.keys() > rows.keys()
    chosen = lab.run("-S").json()[PROVIDER]["scripted"]["myinstance"]
    assert set(chosen) == {"id", "state", "public_ips", "private_ips"}
    shown = lab.run("-a", "show_instance", "myinstance").json()[PROVIDER]["scripted"]["myinstance"]
    assert shown["state"] == "running"
    image = lab.run("-f", "show_image", PROVIDER, f"image={IMAGE}").json()[PROVIDER]["scripted"]
    assert image == {"asked": {"ImageId.1": IMAGE, "Action": "DescribeImages"}}
    said = lab.run("-a", "stop", "myinstance", "hard=yes", "-y").json()[PROVIDER]["scripted"]["myinstance"]
    assert said == {"stopped": "myinstance", "how": {"hard": "yes"}}
    assert lab.run("-Q").json()[PROVIDER]["scripted"]["myinstance"]["state"] == "stopped"
    assert lab.run("-d", "myinstance", "-y").code == 0


def test_no_process_of_a_destroyed_machine_is_left(lab: Lab) -> None:
    before = set(lab.fleet.processes())
    assert lab.run("-p", "small", "gone").code == 0
    own = set(lab.fleet.processes()) - before
    assert own
    assert lab.run("-d", "gone", "-y").code == 0
    wait_until(lambda: not any(map(alive, own)), "its processes are gone")


def test_runners_do_what_the_command_does(lab: Lab) -> None:
    run = lab.fleet.cli
    made = run("runner", "--out", "json", "cloud.profile", "small", "r1,r2", "parallel=True")
    assert made.code == 0, made
    assert set(made.json()) == {"r1", "r2"}
    rows = run("runner", "--out", "json", "cloud.query").json()[PROVIDER]["scripted"]
    assert set(rows) == {"r1", "r2"}
    shown = run("runner", "--out", "json", "cloud.action", "show_instance", "r1").json()
    assert PROVIDER in shown, shown
    assert shown[PROVIDER]["scripted"]["r1"]["state"] == "running"
    taken = run("runner", "--out", "json", "cloud.profile", "small", "r1")
    assert (taken.code, "has a machine r1 already" in taken.json()["r1"]["Error"]) == (4, True)
    assert run("runner", "--out", "json", "cloud.destroy", "r1,r2").code == 0
    assert nothing_is_left(lab, "r1", "r2")


def test_cloud_check_finds_what_a_driver_does_wrong(lab: Lab) -> None:
    assert lab.run("-p", "small", "--no-deploy", "one").code == 0
    said = lab.fleet.cli("cloud-check", "scripted", "--out", "json")
    bad = {row["test"]: row["why"] for row in said.json()["tests"] if row["result"] == "bad"}
    assert said.code == 4
    assert "one also has extra" in bad["list_nodes returns the six fields, and no others"]
    assert "id of one is 1, and not a str" in bad["list_nodes_full returns the six fields among others"]
    good = {row["test"] for row in said.json()["tests"] if row["result"] == "good"}
    assert "show_instance refuses call='function', and names -a or --action" in good
    assert "list_nodes refuses call='action', and names -f or --function" in good


def test_the_api_makes_machines_for_those_who_may_run_the_runners(lab: Lab) -> None:
    url = lab.fleet.start_api()
    lab.profile("small", ssh_password=f"planted-password-{MARK}")
    admin = Api(url).log_in("admin")
    made = admin.low(client="runner", fun="cloud.profile", arg=["small", "api1"])
    assert (made.status, made.json()["return"][0]["api1"]["state"]) == (200, "running"), made
    rows = admin.low(client="runner", fun="cloud.query").json()["return"][0][PROVIDER]["scripted"]
    assert set(rows) == {"api1"}
    refused = Api(url).log_in("fred").low(client="runner", fun="cloud.destroy", arg=["api1"])
    assert (refused.status, lab.there()) == (403, {"api1"})
    assert admin.low(client="runner", fun="cloud.destroy", arg=["api1"]).status == 200
    assert nothing_is_left(lab, "api1")
    with lab.fleet.store() as store:
        assert MARK not in str([event.data for event in store.events(0, 10**6)])
