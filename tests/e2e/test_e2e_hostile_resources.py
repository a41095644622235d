"""An accepted minion that lies about resources: each lie is refused with a reason and an event, and harms nobody else.

The hostile minion speaks the protocol itself. The honest minion `ma` manages two dummies.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from saltlite.model.ids import parse_jid
from saltlite.model.keys import fingerprint
from saltlite.wire import codec
from saltlite.wire.codec import document_digest, encode_document
from saltlite.wire.limits import CHUNK
from saltlite.wire.noise import public_of
from tests.e2e.test_e2e_hostile import Stranger
from tests.support.fleet import Fleet, wait_until

pytestmark = pytest.mark.e2e

OURS = {"dummy:d1": "ma", "dummy:d2": "ma"}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    folder = tmp_path_factory.mktemp("resources")
    pillar = folder / "pillar"
    pillar.mkdir()
    (pillar / "top.sls").write_text("base:\n  ma:\n    - ma\n")
    (pillar / "ma.sls").write_text("resources:\n  dummy:\n    resource_ids: [d1, d2]\n")
    fleet = Fleet(folder)
    try:
        fleet.start_master(pillar_roots={"base": [str(pillar)]})
        fleet.join("ma")
        wait_until(lambda: owners(fleet) == OURS, "ma has registered")
        yield fleet
    finally:
        fleet.close()


def owners(fleet: Fleet) -> dict[str, str]:
    with fleet.client() as client:
        return {row["srn"]: row["minion"] for row in client.call("resource_list")["resources"]}


def grains_of(fleet: Fleet, kind: str, name: str) -> Any:
    with fleet.client() as client:
        return client.call("resource_grains", type=kind, id=name)["grains"]


def events(fleet: Fleet, tag: str) -> list[Mapping[str, Any]]:
    with fleet.store() as store:
        return [event.data for event in store.events(0, 10**6) if event.tag == tag]


class HostileMinion(Stranger):
    """An accepted minion `mx` that sends any message."""

    def said(self, verb: str) -> Any:
        """The next message of that kind; what else the master says is left."""
        while (message := self.heard())["t"] != verb:
            pass
        return message

    def put(self, kind: str, data: bytes) -> Any:
        """Send a document; what the master says at its end."""
        offset, n = 0, 0
        while True:
            n += 1
            piece = {"t": "doc_put", "n": n, "kind": kind, "size": len(data), "offset": offset}
            piece |= {"sha256": hashlib.sha256(data).digest(), "data": data[offset : offset + CHUNK]}
            self.send(self.seal(piece))
            said = self.said("response")
            if said["state"] != "ok" or said["sha256"]:
                return said
            offset = said["size"]

    def register(self, resources: Mapping[str, Sequence[Any]], **more: Any) -> tuple[str, list[str]]:
        """State and reasons that a registration is answered with."""
        said = self.put("resources", encode_document({"resources": resources, **more}))
        return said["state"], said["names"]


@pytest.fixture
def hostile(site: Fleet) -> Iterator[HostileMinion]:
    with HostileMinion(site, "mx") as stranger:
        key = fingerprint(public_of(stranger.private))
        assert site.cli("key", "preaccept", "mx", key).code == 0
        try:
            assert stranger.prove() == "accepted"
            yield stranger
        finally:
            assert site.cli("key", "delete", "mx", "-y").code == 0


@pytest.fixture(autouse=True)
def unharmed(site: Fleet) -> Iterator[None]:
    """After each test `ma` has what it had, and it answers."""
    yield
    assert owners(site) == OURS
    assert site.cli("--out", "json", "-C", "T@dummy or ma", "test.ping").json() == {"d1": True, "d2": True, "ma": True}


def test_resources_of_another_minion_stay_with_it(site: Fleet, hostile: HostileMinion) -> None:
    state, reasons = hostile.register({"dummy": ["d1", "x1"]}, grains={"dummy:d1": {"hacked": True}})
    assert (state, reasons) == ("ok", ["dummy:d1 is managed by ma, and stays so"])
    assert owners(site) == {**OURS, "dummy:x1": "mx"}
    assert "hacked" not in grains_of(site, "dummy", "d1")
    conflict = {"id": "mx", "count": 1, "owned_by": {"ma": 1}, "resources": ["dummy:d1"]}
    assert conflict in events(site, "resource/conflict/mx")


def test_a_resource_called_like_a_minion_is_not_registered(site: Fleet, hostile: HostileMinion) -> None:
    _state, reasons = hostile.register({"dummy": ["ma", "mx"]})
    assert reasons == [f"dummy:{name} has the id of a minion: give the resource another id" for name in ("ma", "mx")]
    assert site.cli("--out", "json", "ma", "test.ping").json() == {"ma": True}


@pytest.mark.parametrize("bad", ["../../etc/passwd", "a/b", "..", "", "a\0b", "*", "a b", 7, None])
def test_an_id_that_cannot_be_one_refuses_the_whole_registration(site: Fleet, hostile: HostileMinion, bad: Any) -> None:
    state, reasons = hostile.register({"dummy": ["fine", bad]})
    assert state == "refused"
    assert "is not a resource id" in reasons[0]
    assert events(site, "resource/refused/mx")[-1]["reasons"] == reasons
    folder = site.root("master") / "var/cache/saltlite/master/banks/resource_grains"
    assert all(path.parent == folder for path in folder.rglob("*"))


def test_grains_of_invented_resources_are_found_by_nobody(site: Fleet, hostile: HostileMinion) -> None:
    grains = {"dummy:x1": {"role": "mine"}, "dummy:ghost": {"role": "mine"}, "../../x": {"role": "mine"}}
    _state, reasons = hostile.register({"dummy": ["x1"]}, grains=grains)
    assert len(reasons) == 2
    with site.client() as client:
        assert client.call("match", tgt="role:mine", tgt_type="grain")["resources"] == {"mx": ["dummy:x1"]}


def test_a_million_ids_are_refused_and_nobody_waits_for_it(site: Fleet, hostile: HostileMinion) -> None:
    state, reasons = hostile.register({"dummy": [f"x{n:x}" for n in range(1_000_000)]})
    assert (state, reasons) == (
        "refused",
        ["it registers 1000000 resources, and resource_quota of the master allows 100000"],
    )
    with site.client() as client:
        assert client.call("resource_stats")["refused"]["mx"]["reasons"] == reasons


def test_the_grains_of_a_minion_do_not_make_it_another(site: Fleet, hostile: HostileMinion) -> None:
    assert hostile.put("grains", encode_document({"id": "ma", "salt_resources": {"dummy": ["d1"]}}))["state"] == "ok"
    with site.client() as client:
        assert client.call("match", tgt="id:ma", tgt_type="grain")["minions"] == ["ma"]
        assert client.call("match", tgt="T@dummy and M@mx", tgt_type="compound")["resources"] == {}


GRAINS_BAD = {
    "deep": encode_document({"a": 1})[:1] + b"\xa1a" + b"\x91" * 60 + b"\x01",
    "no map": codec.encode([1, 2, 3]),
    "no msgpack": b"\xc1" * 64,
    "an extension": b"\x81\xa1a\xd4\x01\x00",
    "names that are no text": b"\x81\x01\x02",
}


@pytest.mark.parametrize("data", GRAINS_BAD.values(), ids=GRAINS_BAD.keys())
def test_grains_that_are_none_are_refused_with_a_reason(site: Fleet, hostile: HostileMinion, data: bytes) -> None:
    said = hostile.put("grains", data)
    assert said["state"] == "refused"
    assert said["names"]
    assert hostile.put("grains", encode_document({"fine": True}))["state"] == "ok"


def test_a_return_for_a_resource_of_another_minion_is_not_stored(site: Fleet, hostile: HostileMinion) -> None:
    jid = site.publish("d1", "test.sleep", "1")
    row = ["dummy:d1", "returned", 0, codec.encode("forged"), 0, 0, ""]
    for part in (f"{jid}-1.0", f"{jid}-1.1"):
        body = codec.encode([row])
        forged = {"state": "returned", "code": 0, "size": len(body), "start_ms": 0, "dur_ms": 0, "reason": ""}
        hostile.send(hostile.seal({"t": "return", "jid": part, "body": body, **forged}))
        assert part in hostile.said("return_ack")["jids"]
    site.wait_state(jid, "dummy:d1", "returned")
    with site.store() as store:
        assert [(ret.id, ret.body) for ret in store.returns(parse_jid(jid))] == [("dummy:d1", b"\xc3")]
    assert events(site, "resource/refused/mx")[-1]["srns"] == ["dummy:d1"]


def test_an_end_of_a_part_of_another_minion_moves_nothing(site: Fleet, hostile: HostileMinion) -> None:
    jid = site.publish("d1", "test.sleep", "1")
    end = {"state": "interrupted", "code": 1, "size": 0, "start_ms": 0, "dur_ms": 0, "reason": "gone"}
    hostile.send(hostile.seal({"t": "return", "jid": f"{jid}-1", "body": b"", **end}))
    hostile.said("return_ack")
    assert site.wait_state(jid, "dummy:d1", "returned", "interrupted") == "returned"


def test_who_says_another_digest_again_and_again_is_asked_and_nothing_else_happens(
    site: Fleet, hostile: HostileMinion
) -> None:
    for number in range(50):
        digest = document_digest(str(number).encode())
        hostile.send(hostile.seal({"t": "digest", "grains": digest, "resources": digest}))
    while hostile.said("fetch")["what"] != "grains":
        pass
    assert hostile.register({})[0] == "ok"


def test_everything_of_a_minion_goes_with_its_key(site: Fleet) -> None:
    with HostileMinion(site, "mx") as stranger:
        key = fingerprint(public_of(stranger.private))
        assert site.cli("key", "preaccept", "mx", key).code == 0
        assert stranger.prove() == "accepted"
        stranger.register({"dummy": ["x1"]}, grains={"dummy:x1": {"role": "mine"}})
        assert owners(site) == {**OURS, "dummy:x1": "mx"}
        assert site.cli("key", "revoke", "mx", "-y").code == 0
        assert owners(site) == OURS
        with site.client() as client:
            assert client.call("match", tgt="role:mine", tgt_type="grain")["resources"] == {}
    assert site.cli("key", "delete", "mx", "-y").code == 0
