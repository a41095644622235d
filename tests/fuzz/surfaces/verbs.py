"""Requests of clients on the master's Unix socket: the real handlers on a real store."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from saltlite.client.connection import decode_message
from saltlite.errors import SaltliteError
from saltlite.master.handlers.events import EventStream
from saltlite.master.handlers.jobs import JobFollower
from saltlite.master.handlers.operator_verbs import VERBS, handle_request
from saltlite.master.processes.context import Answer, Watch
from saltlite.wire import codec
from saltlite.wire.framing import pack
from tests.fuzz.readers import show_everywhere
from tests.fuzz.site import BOB, JID, ROOT, STRANGER, Site
from tests.fuzz.surface import mutate_bytes, mutate_value, packed, unpacked

WHO = (ROOT, BOB, STRANGER)
REQUEST = "0" * 31 + "1"
TARGETS = (
    "*", "web1", "web[12]", "G@os:Debian", "G@os:Deb* and not web2", "E@web.*", "P@os:D.*", "I@nested:key:1", "J@a:b",
    "N@webs", "N@both", "L@web1,db1", "S@127.0.0.1", "S@10.0.0.0/8", "dummy:*", "dummy:a", "M@web1", "T@dummy",
    "not web1", "( web1 or db1 ) and G@n:1", "((((web1))))", "G@roles:*", "G@a:b:c:d:*", "R@x", "web1,db1",
)  # fmt: skip
KINDS = ("glob", "list", "pcre", "grain", "grain_pcre", "pillar", "compound", "nodegroup", "ipcidr", "srn", "range")
WORDS = (
    *TARGETS, *KINDS, *VERBS, "test.ping", "pkg.install", "state.apply", "a.b.c", "grains", "pillar", "resource_grains",
    JID, "accepted", "rejected", "accept", "reject", "revoke", "delete", "web*", "bob", "root", "pam", "app/x", "base",
    "functions", "minions", "targets", "jobs", "envs", "files", "returned", "size", "wait_ms", "failhard", "10%",
    "json_file",
    {"size": 1}, {"__kwarg__": True, "a": 1}, [["test.ping", [], {}]], [["test.ping", [1], {"a": 1}]], ["web1"], 0.5,
)  # fmt: skip
FIELDS: dict[str, Any] = {
    "consent": ["remove", "reboot"],
    "untyped": True,
    "request_id": REQUEST, "tgt": "*", "tgt_type": "glob", "calls": [["test.ping", [1, "a"], {"k": 2}]], "jid": JID,
    "after": 0, "pattern": "*", "tag": "app/x", "fun": "test.ping", "funs": ["test.ping"],
    "action": "accept", "fingerprints": ["0" * 64], "id": "web1", "fingerprint": "0" * 64, "uses": 1, "expires_s": 60,
    "id_glob": "web*", "token_id": "abcdefgh", "machine": "vm1", "what": "creating", "path": "a/b", "ids": ["web1"],
    "bank": "grains", "banks": ["grains"], "operation": "files", "type": "dummy", "srn": "dummy:a", "minion": "web2",
    "kind": "targets", "prefix": "w", "user": "bob", "args": [], "kwargs": {}, "area": "x", "offset": 0, "data": b"x",
    "mode": 420, "backend": "pam", "username": "bob", "password": "x", "explain": "web1", "names": True, "env": "base",
    "batch": {"size": 1, "wait_ms": 0, "failhard": False}, "metadata": {"a": 1}, "origin": "me", "ret": "json_file",
    "module_executors": ["direct_call"], "executor_opts": {"a": 1}, "runner": JID, "once": True, "since": 0,
    "until": 2e9, "state": "returned", "limit": 5, "before": JID, "whole": True, "retcode": 0, "duration_ms": 5,
    "function": "test.ping", "states": ["accepted"], "groups": ["wheel"], "subset": 1, "follow": True, "deliver_ms": 9,
    "run_ms": 9, "public": True, "planned": True, "sort": "id", "returns": True, "key": "web1", "new_id": "web9",
    "functions": ["test.ping"], "runners": ["test.arg"], "search": "web", "success": True,
    "tokens": ["0" * 64], "brief": True, "grouped": True, "target": "web1", "name": "m2", "ends": True,
    "permitted": True,
}  # fmt: skip

WITH_EVENT_DATA = {"cloud_event", "event_send", "hook", "wheel_event"}
"""Verbs whose field `data` is a map, not bytes."""


class Verbs:
    """The first byte says who asks, the rest is the request in msgpack."""

    def __init__(self, folder: Path) -> None:
        self._site = Site(folder)

    def seeds(self) -> Sequence[bytes]:
        found = []
        for name, verb in VERBS.items():
            fields = FIELDS | {"data": {"a": 1}} if name in WITH_EVENT_DATA else FIELDS
            request = {"v": 1, "verb": name, **{field: fields[field] for field in verb.needs}}
            found.append(b"\0" + packed(request))
            found += [b"\0" + packed({**request, field: fields[field]}) for field in verb.takes]
        for number, target in enumerate(TARGETS):
            request = {"v": 1, "verb": "match", "tgt": target, "tgt_type": "compound", "explain": "web1"}
            found.append(bytes((number % len(WHO),)) + packed(request))
        return found

    def run(self, data: bytes) -> None:
        if not data:
            return
        self._site.fresh()
        principal = WHO[data[0] % len(WHO)]
        try:
            request = codec.decode(data[1:], codec.LOCAL)
            answer = handle_request(self._site.master, principal, request)
        except SaltliteError as error:
            _told({"ok": False, "exit": error.exit_code, "error": str(error)})
            return
        self._finish(answer)

    def mutate(self, data: bytes, rng: random.Random) -> bytes:
        request = unpacked(data[1:])
        if rng.random() < 0.1 or not isinstance(request, dict):
            return data[:1] + mutate_bytes(data[1:], rng)
        return bytes((rng.randrange(3),)) + packed(mutate_value(request, rng, WORDS))

    def close(self) -> None:
        self._site.close()

    def _finish(self, answer: Answer) -> None:
        _told({"ok": True, **answer.fields})
        try:
            if answer.question is not None:
                answer.question.message(1)
                _told({"ok": True, **answer.question.fields(None)})
            if answer.login is not None:
                _told({"ok": True, **answer.login.fields(("wheel",))})
        except SaltliteError:
            pass
        if answer.follow is None:
            return
        master = self._site.master
        wanted = answer.follow
        stream = EventStream(master, wanted) if isinstance(wanted, Watch) else JobFollower(master, wanted)
        for _ in range(3):
            news = stream.news()
            if news is None:
                return
            _told(news)


def _told(message: dict[str, Any]) -> None:
    """What the client is sent it can read and show."""
    show_everywhere(decode_message(pack(message)))
