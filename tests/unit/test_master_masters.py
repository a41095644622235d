"""What a master shows of those that share its store, and what operators do with them."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from saltlite.api.metrics import fleet_metrics
from saltlite.auth.acl import Principal
from saltlite.cli.console import Console
from saltlite.cli.verbs.status import _text, masters_text
from saltlite.config.load import load_master
from saltlite.errors import NoTargetError, RefusedError, UsageError
from saltlite.master.handlers import masters
from saltlite.master.handlers.minions import _figures, _lag
from saltlite.master.handlers.operator_verbs import handle_request
from saltlite.master.processes.contests import ask_owners
from saltlite.master.processes.context import Question
from saltlite.master.processes.description import SelfDescription
from saltlite.master.processes.other_masters import SEEN_S, OtherMasters
from saltlite.master.processes.own_address import address_problem
from saltlite.master.store.sharing import MasterRow, MasterState, ReaderRow, SharedStore
from saltlite.model.events import TIME_LINE_BITS, count_after
from saltlite.model.ids import MinionId
from saltlite.model.keys import KeyState
from saltlite.platform.daemon import ManualClock
from saltlite.platform.reactor import Reactor
from saltlite.wire.certificates import succeed
from saltlite.wire.framing import IpcMessage
from saltlite.wire.job_body import sign
from tests.support.keys import DAY, FLEET_PRIVATE, JOB_PRIVATE, NOW, certificate, seed
from tests.support.master import MasterRig
from tests.support.memory_fleet import SessionRig
from tests.support.store import WEB1, WEB2, commit, had_sessions, job, publish, ret, row

ME = certificate(NOW).name
UP = MasterRow(ME, 1, certificate(NOW).encode(), "a:4515", "1.0", MasterState.UP, applied=0)


@pytest.fixture
def rig() -> MasterRig:
    """A master that shares its store with `b` and `c`, of which c was lost. m1 is here, m2 and m3 are at b."""
    rig = MasterRig("m1", "m2", "m3")
    rig.master.shared = cast("SharedStore", rig.store)
    with rig.store.write() as tx:
        tx.renew(UP)
        tx.renew(replace(UP, name="b", weight=50))
        tx.renew(replace(UP, name="c", state=MasterState.FENCED, certificate=b"?"))
        for minion, name in (("m1", ME), ("m2", "b"), ("m3", "b")):
            had_sessions(tx, [row(minion, up=True, master=name)])  # type: ignore[arg-type]  # an id
    return rig


def states(rig: MasterRig) -> dict[str, str]:
    return {one.name: str(one.state) for one in cast("SharedStore", rig.store).masters()}


def test_the_list_has_each_master_with_its_sessions(rig: MasterRig) -> None:
    rows = {one["name"]: one for one in rig.ask("masters").fields["masters"]}
    assert {name: (one["state"], one["sessions"], one["weight"]) for name, one in rows.items()} == {
        ME: ("up", 1, 100),
        "b": ("up", 2, 50),
        "c": ("fenced", 0, 100),
    }
    assert rows["b"]["behind"] == rig.store.last_seq()
    assert (rows["c"]["behind"], rows["c"]["certificate_until"]) == (None, None)
    assert rows[ME]["certificate_until"] == certificate(NOW).not_after


@pytest.mark.parametrize(
    ("holder", "changes", "sentence"),
    [
        ("c", {}, "the certificate of b expires in 20 days, and c, which renews it, is fenced: start it"),
        (
            "gone",
            {},
            "the certificate of b expires in 20 days, and gone, which renews it, is not among these: start it",
        ),
        ("b", {}, "the certificate of b expires in 20 days: its log says why it was not renewed"),
        (
            "",
            {},
            "the certificate of b expires in 20 days, and it does not say which master has the fleet key: upgrade it",
        ),
        (ME, {"renewed": b"x"}, f"and {ME} has signed a new one that it does not use: its log says why"),
        (ME, {}, f"is not on the list of those that {ME} renews: run `saltlite master request` there"),
        (ME, {"certificate": certificate(NOW + 11 * DAY).encode()}, ""),
        (ME, {"certificate": b"?"}, "the certificate of b has expired, or is damaged"),
    ],
)
def test_what_keeps_a_certificate_from_being_renewed_is_named(
    rig: MasterRig, holder: str, changes: dict[str, Any], sentence: str
) -> None:
    until = certificate(NOW).not_after
    rig.clock.advance(until - 20 * DAY - rig.clock.wall())
    with rig.store.write() as tx:
        tx.renew(replace(UP, name="b", **changes))
        tx.describe_master("b", json.dumps({"holder": holder}))
        tx.offer_certificate("b", changes.get("renewed", b""))
    rows = {one["name"]: one for one in rig.ask("masters").fields["masters"]}
    said = rows["b"]["certificate_problem"]
    assert sentence in said
    assert bool(sentence) == bool(said)
    assert rows["c"]["certificate_problem"] == "", "it has stopped"
    assert rows[ME]["certificate_problem"] == "", "it has not described itself yet"
    assert f'saltlite_masters_certificate_until_seconds{{master="{ME}"}} {until}' in fleet_metrics(
        {**_figures(rig.master), "link": None}
    )


def test_a_row_with_a_certificate_of_another_fleet_key_is_named_whatever_its_state(rig: MasterRig) -> None:
    with rig.store.write() as tx:
        for name, state in (("d", MasterState.UP), ("e", MasterState.FENCED)):
            other = certificate(NOW, name=name, fleet=seed("a thief")).encode()
            tx.renew(replace(UP, name=name, state=state, certificate=other))
    found = rig.ask("masters").fields["masters"]
    foreign = {one["name"] for one in found if "no master wrote its row" in one["certificate_problem"]}
    assert foreign == {"d", "e"}


def test_a_master_that_was_away_while_the_fleet_key_was_changed_is_not_said_to_be_a_strangers(rig: MasterRig) -> None:
    changed = certificate(NOW, name=ME, fleet=seed("second"))
    way = succeed(FLEET_PRIVATE, seed("second"), serial=1, time=0).encode()
    rig.master.identity = replace(rig.master.identity, certificate=changed, chain=way)
    rows = {one["name"]: one["certificate_problem"] for one in rig.ask("masters").fields["masters"]}
    assert "no master wrote its row" not in rows["b"]


def test_a_removal_says_if_the_master_with_the_fleet_key_is_away(rig: MasterRig) -> None:
    with rig.store.write() as tx:
        for name, holder in (("c", ME), ("d", "gone")):
            tx.renew(replace(UP, name=name, start=2, state=MasterState.FENCED, certificate=b"?"))
            tx.describe_master(name, json.dumps({"holder": holder}))
    assert rig.ask("master_remove", name="c").fields["holder_away"] == ""
    assert rig.ask("master_remove", name="d").fields["holder_away"] == "gone"


@pytest.mark.parametrize(
    ("after", "last", "count"),
    [(3, 10, 7), (10, 3, 0), (1000, (2 << 32) + 5, 5), ((2 << 32) + 5, (2 << 32) + 7, 2), ((2 << 32) + 5, 4 << 32, 0)],
)
def test_numbers_of_events_count_no_time_line(after: int, last: int, count: int) -> None:
    assert count_after(after, last) == count


def test_the_status_and_the_metrics_have_the_masters(rig: MasterRig) -> None:
    figures = _figures(rig.master)
    assert [one["name"] for one in figures["masters"]] == sorted([ME, "b", "c"])
    figures["store"]["seq"] = (2 << TIME_LINE_BITS) + 7
    text = fleet_metrics({**figures, "link": None})
    assert "saltlite_events_total 7\n" in text, "a promotion is no jump of the rate"
    assert 'saltlite_masters_up{master="b"} 1' in text
    assert 'saltlite_masters_up{master="c"} 0' in text
    assert 'saltlite_masters_sessions{master="b"} 2' in text
    assert "saltlite_masters_differences 0" in text
    assert "saltlite_master_has_lease" not in text
    link: dict[str, Any] = {
        **SessionRig().manager.figures(),
        "mworkers": 1,
        "uncommitted": 0,
        "lag_s": 0.0,
        "skipped": 0,
    }
    for lease in (False, True):
        answer = {**figures, "conflicts": 0, "minions": [], "link": {**link, "lease": lease}}
        answer["counts"] = {**figures["counts"], "pending": 0}
        assert f"saltlite_master_has_lease {int(lease)}" in fleet_metrics(answer)
        assert ("lease: " in _text(answer, Console(None, None, None))) is not lease
    rig.master.shared = None
    assert "masters" not in _figures(rig.master)


def test_each_minion_is_shown_with_its_master_where_there_are_several(rig: MasterRig) -> None:
    rig.add_keys("m4")
    rig.add_keys("m5", state=KeyState.PENDING)
    with rig.store.write() as tx:
        tx.release("b", {MinionId("m3"): "gone"}, NOW)
    for minion in ("m1", "m2"):
        rig.master.present[MinionId(minion)] = NOW
    at = {"m1": ME, "m2": "b", "m3": "b", "m4": ""}
    rows = rig.ask("minions").fields["minions"]
    assert {row["id"]: row["master"] for row in rows} == at
    question = rig.ask("status").question
    assert question is not None
    answer = question.fields(None)
    assert {row["id"]: row["master"] for row in answer["minions"]} == {**at, "m5": ""}
    head, *lines = _text(answer, Console(None, None, None)).rpartition("MINION")[2].splitlines()
    place = len("MINION") + head.index("MASTER")
    shown = {line.split()[0]: line[place:].split("  ")[0] for line in lines}
    rig.master.shared = None
    assert all("master" not in row for row in rig.ask("minions").fields["minions"])
    question = rig.ask("status").question
    assert question is not None
    assert "MASTER" not in _text(question.fields(None), Console(None, None, None))
    assert shown == {**at, "m5": ""}


def test_a_master_that_is_drained_takes_no_minions_until_that_is_undone(rig: MasterRig) -> None:
    assert rig.ask("master_drain", name="b").fields == {"name": "b", "state": "draining"}
    assert rig.ask("master_drain", name="b").fields["state"] == "draining"
    assert states(rig)["b"] == "draining"
    with pytest.raises(RefusedError, match=f"no other master is up that could take the minions of {ME}"):
        rig.ask("master_drain", name=ME)
    assert rig.ask("master_drain", name="b", ends=True).fields["state"] == "up"
    assert states(rig) == {ME: "up", "b": "up", "c": "fenced"}
    tags = [event.tag for event in rig.store.events()]
    assert [tag for tag in tags if tag.startswith("salt/master")] == [
        "salt/master/b/drained",
        "salt/master/b/drain ended",
    ]


def test_a_master_is_removed_once_it_has_stopped(rig: MasterRig) -> None:
    for name, sentence in ((ME, "is this master"), ("b", "drain it .saltlite master drain b., stop it")):
        with pytest.raises(RefusedError, match=sentence):
            rig.ask("master_remove", name=name)
    rig.ask("master_remove", name="c")
    assert sorted(states(rig)) == sorted([ME, "b"])


def test_a_master_whose_jobs_are_open_is_not_removed(rig: MasterRig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(masters, "OPEN_AT_ONCE", 1)
    with rig.store.write() as tx:
        tx.renew(replace(UP, name="c", start=2, state=MasterState.FENCED))
    theirs = job(1, signature=sign(JOB_PRIVATE, job().body))
    publish(rig.store, theirs, job(2))
    with rig.store.write() as tx:
        had_sessions(tx, [row(name, up=False, last_seen=rig.clock.wall()) for name in (WEB1, WEB2)])
    said = f"job {theirs.jid} of c is open on web1 and 1 more,.*saltlite job kill {theirs.jid}.*away for a day"
    with pytest.raises(RefusedError, match=said):
        rig.ask("master_remove", name="c")
    commit(rig.store, ret(theirs, WEB1), ret(theirs, WEB2))
    rig.ask("master_remove", name="c")
    assert sorted(states(rig)) == sorted([ME, "b"])


def test_a_minion_that_has_been_away_for_a_day_keeps_no_master(rig: MasterRig) -> None:
    with rig.store.write() as tx:
        tx.renew(replace(UP, name="c", start=2, state=MasterState.FENCED))
        had_sessions(tx, [row(WEB1, up=False, last_seen=rig.clock.wall())])
    publish(rig.store, job(1, (WEB1,), signature=sign(JOB_PRIVATE, job(1, (WEB1,)).body)))
    rig.clock.advance(masters.AWAY_S - 1.0)
    with pytest.raises(RefusedError, match="is open on web1,"):
        rig.ask("master_remove", name="c")
    rig.clock.advance(2.0)
    rig.ask("master_remove", name="c")
    assert sorted(states(rig)) == sorted([ME, "b"])


def test_masters_that_are_not_there_are_named(rig: MasterRig) -> None:
    for verb in ("master_drain", "master_remove"):
        with pytest.raises(NoTargetError, match=r"there is no master d: .*b, c.* share this store"):
            rig.ask(verb, name="d")
    with pytest.raises(RefusedError, match="c is fenced: only a master that is up can be drained"):
        rig.ask("master_drain", name="c")
    rig.master.shared = None
    for verb, fields in (("masters", {}), ("master_drain", {"name": "b"}), ("master_remove", {"name": "b"})):
        with pytest.raises(UsageError, match="shares its store with no other"):
            rig.ask(verb, **fields)


def test_only_who_has_the_right_drains_and_removes(rig: MasterRig) -> None:
    for verb, fields in (("masters", {}), ("master_drain", {"name": "b"}), ("master_remove", {"name": "b"})):
        with pytest.raises(RefusedError):
            handle_request(rig.master, Principal("eve", 1001), {"v": 1, "verb": verb, **fields})


# -- differences


def described(rig: MasterRig, folder: Path, name: str, more: str = "") -> SelfDescription:
    """What the master of that name says, whose files are in that folder."""
    for roots in ("srv/salt", "srv/pillar"):
        (folder / roots).mkdir(parents=True, exist_ok=True)
    (folder / "master").write_text(f"root_dir: {folder}\n{more}")
    store, clock = cast("SharedStore", rig.store), ManualClock(wall=rig.store.clock())
    said = SelfDescription(load_master(str(folder)).config, store, clock, name)
    said.renew()
    return said


def test_what_differs_between_masters_is_named(rig: MasterRig, tmp_path: Path) -> None:
    there, here = tmp_path / "b", tmp_path / "a"
    described(rig, here, ME)
    said = described(rig, there, "b")
    assert rig.ask("masters").fields["differences"] == []
    renewals = rig.store.last_seq()
    said.renew()
    assert rig.store.last_seq() == renewals
    (there / "srv/salt/top.sls").write_text("base: {}")
    described(rig, there, "b", "nodegroups: {web: 'G@role:web'}\npublisher_acl: {eve: ['.*']}\n")
    said = described(rig, there, "b")
    assert rig.ask("masters").fields["differences"] == [f"file_roots differ: b | {ME}"]
    (here / "srv/salt/top.sls").write_text("base: {}")
    for folder in (".git", "__pycache__"):
        (here / "srv/salt" / folder).mkdir()
        (here / "srv/salt" / folder / "index").write_text("of this machine")
    described(rig, here, ME)
    assert rig.ask("masters").fields["differences"] == []
    (there / "srv/salt/top.sls").write_text("base: []")
    os.utime(there / "srv/salt/top.sls", (1, 1))
    said.renew()
    assert rig.ask("masters").fields["differences"] == [f"file_roots differ: b | {ME}"]
    described(rig, there, "b", "nodegroups: {web: 'G@role:web'}\npublisher_acl: {eve: ['.*']}\n")
    with rig.store.write() as tx:
        tx.renew(replace(UP, name="b", version="2.0"))
    assert rig.ask("masters").fields["differences"] == [
        f"the versions differ: b | {ME}",
        f"access rules differ: b | {ME}",
        f"file_roots differ: b | {ME}",
        f"nodegroups differ: b | {ME}",
    ]


@pytest.mark.parametrize(
    ("option", "what"),
    [
        ("peer_run: {'.*': [manage.up]}", "access rules"),
        ("peer_run_as: alice", "access rules"),
        ("ext_pillar: [{cmd_yaml: cat x}]", "external pillars"),
        ("ext_pillar_first: true", "external pillars"),
        ("on_demand_ext_pillar: [libvirt]", "external pillars"),
    ],
)
def test_options_that_decide_what_minions_may_and_get_are_compared(
    rig: MasterRig, tmp_path: Path, option: str, what: str
) -> None:
    described(rig, tmp_path / "a", ME)
    described(rig, tmp_path / "b", "b", option + "\n")
    assert rig.ask("masters").fields["differences"] == [f"{what} differ: b | {ME}"]


@pytest.mark.parametrize("silent_s", [["x"], {"m1": "x"}, {"m9": 1.0}, {"m1": -1}, {"m1": float("nan")}, None])
def test_what_another_master_says_of_its_minions_is_checked(rig: MasterRig, silent_s: object) -> None:
    store, reactor = cast("SharedStore", rig.store), Delays()
    question = Question(lambda _number: {}, lambda _reply: {}, elsewhere=[MinionId("m1"), MinionId("m2")])
    answers: list[IpcMessage] = []

    def answer(reply: IpcMessage, *, known: bool = True) -> None:
        answers.append(reply)
        assert known

    OtherMasters(cast("Reactor", reactor), store, rig.clock, ME).ask(question, {"silent_s": {"m3": 1.0}}, answer)
    (asked,) = [event.seq for event in rig.store.events() if event.tag == f"salt/master/{ME}/asked"]
    with rig.store.write() as tx:
        for by, said in (("b", silent_s), ("c", {"m2": 2})):
            tx.put_event(f"salt/master/{by}/seen", {"by": by, "asked": asked, "silent_s": said}, NOW)
    rig.clock.advance(SEEN_S)
    reactor.run()
    assert answers == [{"silent_s": {"m3": 1.0, "m2": 2.0}}]


class Delays:
    """The delayed calls of a reactor."""

    def __init__(self) -> None:
        self._calls: list[Callable[[], None]] = []

    def call_later(self, _seconds: float, call: Callable[[], None]) -> None:
        self._calls.append(call)

    def run(self) -> None:
        while self._calls:
            self._calls.pop()()


def test_a_row_of_the_database_cannot_write_to_the_terminal_of_an_operator(rig: MasterRig) -> None:
    with rig.store.write() as tx:
        tx.renew(replace(UP, name="b\x1b[2J", version="2\x1b]0;x\x07", address="\x9b"))
    shown = masters_text(rig.ask("masters").fields, Console(None, None, None))
    assert "the versions differ: " in shown
    assert all(line.isprintable() for line in shown.splitlines())


def test_the_list_says_what_a_fenced_master_is_and_what_to_do(rig: MasterRig) -> None:
    shown = masters_text(rig.ask("masters").fields, Console(None, None, None)).splitlines()
    assert [line for line in shown if "has stopped, or is cut off from the database" in line] == shown[-1:]
    assert shown[-1].startswith("c is fenced: ")


def test_the_address_is_looked_up_without_a_codec(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The file of Python's codec for names may be closed to the master's user."""
    (tmp_path / "master").write_text(f"root_dir: {tmp_path}\nmaster_address: 127.0.0.1\n")
    asked: list[object] = []
    monkeypatch.setattr(socket, "getaddrinfo", lambda host, *_port, **_more: asked.append(host))
    assert address_problem(load_master(str(tmp_path)).config) == ""
    assert asked == [b"127.0.0.1"]


def test_a_clock_that_is_off_is_named(rig: MasterRig, tmp_path: Path) -> None:
    (tmp_path / "master").write_text(f"root_dir: {tmp_path}\n")
    store, clock = cast("SharedStore", rig.store), ManualClock(wall=rig.store.clock() - 60)
    SelfDescription(load_master(str(tmp_path)).config, store, clock, "b").renew()
    with rig.store.write() as tx:
        tx.describe_master(ME, "no JSON")
    (said,) = rig.ask("masters").fields["differences"]
    assert said == "the clock of b is 60 s behind the database's"


@pytest.mark.parametrize(
    ("run", "handshake", "boot", "incarnation", "asks"),
    [
        (4, 2, "boot", "disk", False),
        (5, 1, "boot", "disk", False),
        (4, 1, "boot", "disk", True),
        (3, 9, "boot", "disk", True),
        (1, 1, "boot", "another", False),
        (9, 1, "another", "disk", True),
    ],
)
def test_a_master_is_asked_about_its_session_unless_the_newcomer_is_a_later_one_of_the_same_start(
    rig: MasterRig,
    monkeypatch: pytest.MonkeyPatch,
    run: int,
    handshake: int,
    boot: str,
    incarnation: str,
    asks: bool,
) -> None:
    key = rig.store.holder(MinionId("m2"))
    assert key is not None
    with rig.store.write() as tx:
        known = row(key.id, up=True, master="b", boot_id="boot", incarnation="disk", run=4, handshake=1)
        tx.claim([replace(known, fingerprint=key.fingerprint)])
    hello = {"id": key.id, "boot": boot, "incarnation": incarnation, "order": [run, handshake]}
    ask = {"session": 8, "public": key.public, "address": "10.0.0.7", "hello": hello}
    before = rig.store.last_seq()
    writes: list[bool] = []
    now = rig.master.clock.wall()

    def wall() -> float:
        writes.append(rig.store._writing)
        return now

    monkeypatch.setattr(rig.master.clock, "wall", wall)
    assert ask_owners(rig.master, [ask]) == ({8} if asks else set())
    assert not any(writes), "the database may have to tell the time"
    assert [event.data["by"] for event in rig.store.events(before)] == ([ME] if asks else [])


@pytest.mark.parametrize("data", ['{"seq": "x"}', '{"seq": -1}', "[1]", "[" * 10_000, ""])
def test_how_far_readers_are_is_said_also_where_a_stranger_wrote_the_cursor(rig: MasterRig, data: str) -> None:
    with rig.store.write() as tx:
        tx.put_event("x", {}, NOW)
        tx.put_reader(ReaderRow("hooks", "b", 1, 1, data))
    assert _lag(rig.master, "hooks", "")["behind"] == 0
