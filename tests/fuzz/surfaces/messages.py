"""What minions and strangers send: frames into the manager, and what comes of them in an MWorker."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from saltlite.loader.encode import encode_return
from saltlite.master.handlers.delivery import handle_pull
from saltlite.master.handlers.documents import FOR_FILES, answer
from saltlite.master.handlers.events import EventStream
from saltlite.master.handlers.keys import handle_decide, handle_suspect
from saltlite.master.handlers.results import Reported, TransientStates, store_reports, store_transient_states
from saltlite.master.processes import link_channel as ipc
from saltlite.master.processes.context import Watch
from saltlite.master.protocol.effects import Decide, MinionReport, Pull, Suspect
from saltlite.model.ids import MinionId
from saltlite.model.job import TargetState
from saltlite.model.keys import Fingerprint
from saltlite.wire import codec, messages
from saltlite.wire.codec import encode_document
from saltlite.wire.frames import PLAINTEXT_MAX
from saltlite.wire.framing import pack, unpack
from saltlite.wire.messages import SegmentRow, encode_segment, response_message
from tests.fuzz.readers import read_everywhere
from tests.fuzz.site import JID, Site
from tests.fuzz.surface import mutate_bytes, mutate_value, packed, unpacked
from tests.support.keys import FUNCTIONS
from tests.support.memory_fleet import MESSAGES, Peer, SessionRig

HOSTILE = codec.Limits(depth=1000, map=2**20, array=2**20, string=2**20, binary=2**20, containers=2**20, total=2**20)
EVENTS = ({"a": 1}, {1: 2, "1": 3, "n": {"x": [b"\xff", 2**64 - 1, float("nan")]}}, {"env": "\u202eprod"})
KEYS = ("t", "jid", "state", "reason", "body", "n", "kind", "data", "tag", "path", "env", "after", "offset", "size")
WORDS = (JID, JID + "-1", JID + "-1-1", "web1", "dummy:a", "returned", "running", "grains", "resources", "pillar",
    "read", "find", "envs", "base", "top.txt", "app/x", "salt/job", "test.ping()", "a.b(c:int=3)", *KEYS)  # fmt: skip


class Messages:
    """The input is a list: maps are messages in an accepted session, bytes frames of a stranger, [bytes] plaintexts."""

    def __init__(self, folder: Path) -> None:
        self._site = Site(folder)
        self._sit_down()

    def _sit_down(self) -> None:
        """A manager with an honest minion. Handshakes take longer than anything else here, so it serves many inputs."""
        self._table = SessionRig()
        self._other = self._table.join("other")
        self._guest = self._table.join("web1")

    def seeds(self) -> Sequence[bytes]:
        minions = [name for name, verb in messages.VERBS.items() if verb.sender is messages.Sender.MINION]
        plain = [packed([{"t": name, **MESSAGES[name]}]) for name in minions]
        documents = [
            _document("grains", encode_document({"os": "Debian", "roles": ["a"], 1: {"b": [1.5, None]}})),
            _document(
                "resources", encode_document({"resources": {"dummy": ["a", "c"]}, "grains": {"dummy:a": {"x": 1}}})
            ),
        ]
        segment = encode_segment([SegmentRow("dummy:a", TargetState.RETURNED, 0, b"\xc3", 1, 2)])
        returned = {**MESSAGES["return"], "t": "return", "jid": JID}
        answers = [
            {**returned, "body": body, "size": len(body)} for body in (encode_return({"a": [1]}), segment, b"\xc1\xff")
        ]
        events = [{"t": "event", **MESSAGES["event"], "data": packed(data)} for data in EVENTS]
        functions = {**FUNCTIONS, "functions": ["test.ping()", "a.b(c:int=3, *args)"]}
        rig = SessionRig()
        stranger = Peer(rig, "stranger")
        stranger.hello()
        frames = [b"\x02\x01" + b"x" * 80, b"\x02\x04" + b"s" * 60, b""]
        return [*plain, *map(packed, documents), packed(answers), *(packed([event]) for event in events),
                packed([functions]), packed(frames), packed([[b"\x81\xa1t\xa2hb"]])]  # fmt: skip

    def run(self, data: bytes) -> None:
        if self._site.fresh():
            self._sit_down()
        items = unpacked(data)
        if not isinstance(items, list):
            items = [data, [data]]
        rig = self._table
        if not self._guest.alive:
            self._guest = rig.join("web1")
        peer, stranger = self._guest, Peer(rig, "stranger")
        rig.take()
        rig.done.clear()
        for item in items[:8]:
            if isinstance(item, dict):
                peer.raw(_sealed(peer, packed(item)))
            elif isinstance(item, list) and item and isinstance(item[0], bytes):
                peer.raw(_sealed(peer, item[0]))
            elif isinstance(item, bytes):
                stranger.raw(item)
        before = self._site.store.last_seq()
        rig.manager.send_files()
        effects = rig.take()
        reports = [effect for effect in effects if isinstance(effect, MinionReport)]
        if reports:
            self._store(unpack(pack(ipc.reports(1, reports))))
        for effect in effects:
            self._one(effect)
        for ask in list(rig.manager.files.due()):
            self._answer(unpack(pack(ipc.request(ask))))
        assert self._other.alive
        if self._site.store.last_seq() != before:
            self._watch(before)

    def mutate(self, data: bytes, rng: random.Random) -> bytes:
        items = unpacked(data)
        if rng.random() < 0.1 or not isinstance(items, list):
            return mutate_bytes(data, rng)
        changed = mutate_value(items, rng, WORDS)
        if rng.random() < 0.3 and isinstance(changed, list):
            for item in changed:
                if isinstance(item, dict) and isinstance(item.get("data"), bytes):
                    _inner(item, rng)
        return packed(changed)

    def close(self) -> None:
        self._site.close()

    def _store(self, message: Mapping[str, Any]) -> None:
        transient = TransientStates()
        reported = [Reported(MinionId(one), Fingerprint(key), said, body) for one, key, said, body in message["items"]]
        store_reports(self._site.master, reported, transient)
        store_transient_states(self._site.master, transient)

    def _one(self, effect: object) -> None:
        master = self._site.master
        match effect:
            case Decide():
                handle_decide(master, unpack(pack(ipc.decide(effect))))
            case Suspect():
                handle_suspect(master, unpack(pack(ipc.suspect(effect))))
            case Pull():
                handle_pull(master, unpack(pack(ipc.pull(effect.id, None, effect.since))))

    def _answer(self, ask: Mapping[str, Any]) -> None:
        site, minion, message = self._site, MinionId(ask["id"]), ask["message"]
        if message["t"] not in FOR_FILES:
            answers: list[Mapping[str, Any]] = []
            answer(site.master, site.documents, minion, message, answers.append)
            (said,) = answers
        elif message["t"] == "file_put":
            arrival = site.uploads.put(minion, message)
            said = arrival if isinstance(arrival, Mapping) else arrival.step() or response_message(message["n"], "busy")
        else:
            (said,) = site.service.ask([message])
        # The minion has to take the answer.
        messages.check(codec.decode(codec.encode(said)), messages.Sender.MASTER, accepted=True)

    def _watch(self, after: int) -> None:
        """Everybody who reads events can read what was stored."""
        stream = EventStream(self._site.master, Watch("*", after))
        news = stream.news()
        if news is not None:
            read_everywhere(unpack(pack(news))["events"])


def _sealed(peer: Peer, plaintext: bytes) -> bytes:
    assert peer.session is not None
    return peer.session.seal(plaintext[:PLAINTEXT_MAX])  # no larger frame can be made


def _document(kind: str, data: bytes) -> list[dict[str, Any]]:
    digest = hashlib.sha256(data).digest()
    piece = {"t": "doc_put", "n": 1, "kind": kind, "size": len(data), "sha256": digest, "offset": 0, "data": data}
    return [piece]


def _inner(item: dict[str, Any], rng: random.Random) -> None:
    """Another document, or other data of an event, with the digest that it then has."""
    value = unpacked(item["data"])
    data = packed(mutate_value(value, rng, WORDS))
    item["data"] = data
    if item.get("t") in ("doc_put", "file_put"):
        item |= {"size": len(data), "sha256": hashlib.sha256(data).digest(), "offset": 0}
