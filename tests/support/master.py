"""A master without processes for tests: handlers over twins in memory, with minions that send documents."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, cast

from saltlite.auth.acl import Principal
from saltlite.master.handlers.documents import DocumentBuffer, answer_document, handle_digests
from saltlite.master.handlers.operator_verbs import handle_request
from saltlite.master.processes.context import Answer, HandlerConfig, Master, MasterIdentity
from saltlite.model.events import Event
from saltlite.model.ids import MinionId
from saltlite.model.keys import KeyState, fingerprint
from saltlite.platform.daemon import ManualClock
from saltlite.resources.registry.admission import RegistrationRules
from saltlite.resources.registry.registry import MemoryRows, Registry
from saltlite.targeting.banks import Banks
from saltlite.testing.banks import MemoryCache
from saltlite.testing.memory_store import MemoryStore, MemoryStoreDisk
from saltlite.wire.codec import document_digest, encode_document
from saltlite.wire.limits import CHUNK
from tests.support.inventory import inventory
from tests.support.keys import FLEET_PUBLIC, JOB_PRIVATE, NOW, certificate
from tests.support.store import key

ROOT = Principal("root", 0)


class NotedLink:
    """A link process that does nothing, and notes what it was told."""

    def __init__(self) -> None:
        self.wanted: list[tuple[str, str]] = []
        self.published: list[Any] = []

    def fetch(self, minion: str, what: str) -> None:
        self.wanted.append((minion, what))

    def publish(self, job: Any, parts: Any) -> None:
        self.published.append((job, parts))

    def decided(self, session: int, state: str, minion: str, gone: Any = ()) -> None:
        """Verdicts are read from the store here."""


class Shared:
    """What all MWorkers of a master share."""

    def __init__(self) -> None:
        self.disk = MemoryStoreDisk(store_id="0" * 32)
        self.rows = MemoryRows()
        self.cache = MemoryCache(lambda: NOW)

    def inventory(self) -> tuple[Registry, Banks]:
        """The registry and the banks of one MWorker."""
        return inventory(self.rows, self.cache)


class MasterRig:
    """One MWorker of a master whose minions are these; another one of the same master shares its `shared`."""

    def __init__(
        self, *minions: str, rules: RegistrationRules | None = None, shared: Shared | None = None, **config: Any
    ) -> None:
        self.shared = Shared() if shared is None else shared
        self.store = MemoryStore(self.shared.disk)
        self.clock = ManualClock(wall=NOW)
        self.link = NotedLink()
        self.master = Master(
            self.store,
            self.clock,
            MasterIdentity(fingerprint(FLEET_PUBLIC), certificate(NOW), JOB_PRIVATE),
            HandlerConfig(5.0, 60.0, frozenset({0}), resources=rules or RegistrationRules(), **config),
            cast("Any", self.link),
            *self.shared.inventory(),
        )
        self.documents = DocumentBuffer(self.clock)
        self._numbers = 0
        self.add_keys(*minions)

    def add_keys(self, *minions: str, state: KeyState = KeyState.ACCEPTED) -> None:
        """Keys of minions in a state."""
        with self.store.write() as tx:
            for minion in minions:
                tx.put_key(key(MinionId(minion), state))

    def ask(self, verb: str, **fields: Any) -> Answer:
        """An operator's request."""
        return handle_request(self.master, ROOT, {"v": 1, "verb": verb, **fields})

    def send(self, minion: str, kind: str, data: bytes) -> Mapping[str, Any]:
        """A minion sends a document, piece by piece: what it is told at the end."""
        said: Mapping[str, Any] = {}
        digest, offset = hashlib.sha256(data).digest(), 0
        while not said or (said["state"] == "ok" and not said["sha256"]):
            self._numbers += 1
            piece = {"t": "doc_put", "n": self._numbers, "kind": kind, "size": len(data), "sha256": digest}
            piece |= {"offset": offset, "data": data[offset : offset + CHUNK]}
            said = answer_document(self.master, self.documents, MinionId(minion), piece)
            offset = said["size"]
        return said

    def register(self, minion: str, resources: Mapping[str, Sequence[Any]], **more: Any) -> Mapping[str, Any]:
        """A minion registers these resources (type -> ids)."""
        return self.send(minion, "resources", encode_document({"resources": resources, **more}))

    def give_up(self, minion: str, resources: Mapping[str, Sequence[Any]]) -> None:
        """A minion registers these alone, and an operator confirms that it misses the others for good."""
        self.register(minion, resources)
        row = self.master.registrations.of(MinionId(minion))
        if row is not None and row.missing:
            self.ask("resource_confirm", minion=minion)

    def grains(self, minion: str, **grains: Any) -> Mapping[str, Any]:
        """A minion sends its grains."""
        return self.send(minion, "grains", encode_document(grains))

    def holds(self, minion: str, *, grains: bytes = b"", resources: bytes = b"") -> list[tuple[str, str]]:
        """A minion says by digests what it holds: what it is asked for."""
        self.link.wanted.clear()
        said = {"grains": _digest(grains), "resources": _digest(resources)}
        handle_digests(self.master, MinionId(minion), said)
        return list(self.link.wanted)

    def owned(self, minion: str) -> dict[str, list[str]]:
        """Type -> ids of what the minion manages."""
        return self.master.registry.get_resources_for_minion(minion)

    def event(self, tag: str) -> None:
        """Store an event."""
        with self.store.write() as store:
            store.put_event(tag, {}, self.clock.wall())

    def events(self, prefix: str) -> list[Event]:
        """The events whose tag begins so."""
        return [event for event in self.store.events() if event.tag.startswith(prefix)]


def _digest(data: bytes) -> str:
    return document_digest(data) if data else ""
