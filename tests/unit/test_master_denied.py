"""Who is no operator is refused by every verb before the store is asked anything (S9): a refusal costs nothing."""

from __future__ import annotations

from typing import Any, NoReturn, cast

import pytest

from saltlite.auth.acl import Principal
from saltlite.errors import RefusedError
from saltlite.master.handlers.operator_verbs import VERBS, handle_request
from saltlite.master.processes.context import HandlerConfig, Master, MasterIdentity
from saltlite.model.keys import fingerprint
from saltlite.platform.daemon import ManualClock
from tests.support.inventory import inventory
from tests.support.keys import FLEET_PUBLIC, JOB_PRIVATE, NOW, certificate

GOOD: dict[str, Any] = {
    "operation": "envs",
    "action": "accept",
    "after": 0,
    "area": "0" * 32,
    "bank": "grains",
    "banks": ["grains"],
    "calls": [["test.ping", [], {}]],
    "data": b"",
    "expires_s": 60,
    "fingerprint": fingerprint(bytes(32)),
    "fingerprints": [],
    "fun": "test.ping",
    "functions": ["grains"],
    "funs": ["test.ping"],
    "id": "web1",
    "id_glob": "*",
    "ids": [],
    "jid": "20260131235959123456",
    "kind": "minion",
    "machine": "web1",
    "minion": "web1",
    "mode": 0o644,
    "new_id": "web9",
    "offset": 0,
    "path": "file",
    "pattern": "*",
    "prefix": "",
    "request_id": "0" * 32,
    "srn": "dummy:d1",
    "tag": "app/up",
    "target": "web1",
    "tgt": "(a+)+$",
    "tgt_type": "pcre",
    "token_id": "abcdefgh",
    "name": "m2",
    "tokens": [],
    "type": "dummy",
    "uses": 1,
    "what": "creating",
}
"""A value for each field that a verb needs."""

WITH_EVENT_DATA = {"cloud_event", "event_send", "hook"}
"""Verbs whose field `data` is a map, not bytes."""

FOR_ANYBODY = {"login", "logout", "whoami", "acl_explain", "event_views"}
"""Verbs by which somebody becomes who has rights, or asks which he has."""


class Untouched:
    """A store, or a link, that nobody may ask."""

    def __getattr__(self, name: str) -> NoReturn:
        raise AssertionError(f"{name} was asked for")


@pytest.mark.parametrize("verb", sorted(set(VERBS) - FOR_ANYBODY))
def test_somebody_who_is_no_operator_is_refused_before_anything_is_looked_at(verb: str) -> None:
    nothing = cast("Any", Untouched())
    who = MasterIdentity(fingerprint(FLEET_PUBLIC), certificate(NOW), JOB_PRIVATE)
    master = Master(
        nothing, ManualClock(wall=NOW), who, HandlerConfig(5.0, 60.0, frozenset({0})), nothing, *inventory()
    )
    values = GOOD | {"data": {}} if verb in WITH_EVENT_DATA else GOOD
    request = {"v": 1, "verb": verb, **{field: values[field] for field in VERBS[verb].needs}}
    with pytest.raises(RefusedError):
        handle_request(master, Principal("mallory", 1000), request)
