"""How an MWorker answers a minion that fetches its pillar, and what it keeps of it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from saltlite.auth.acl import Principal
from saltlite.errors import RefusedError, SaltliteError, UsageError
from saltlite.master.handlers.documents import answer_pillar, handle_pillar_show
from saltlite.master.handlers.operator_verbs import carry_out
from saltlite.master.processes.context import HandlerConfig, Master, MasterIdentity
from saltlite.model.ids import MinionId
from saltlite.model.keys import fingerprint
from saltlite.pillar.compiler import MemoryPillarFiles
from saltlite.pillar.evaluation import (
    PILLAR_EVERY_S,
    PILLARS_AT_ONCE,
    PILLARS_MEMORY,
    Evaluation,
    EvaluationRequest,
    Evaluator,
    MemoryEvaluator,
    Pillars,
)
from saltlite.platform.daemon import ManualClock
from saltlite.targeting.banks import GRAINS, PILLAR
from saltlite.targeting.fleet import DataQuery
from saltlite.testing.banks import MemoryCache
from saltlite.testing.memory_store import MemoryStore
from saltlite.wire.codec import decode_document, document_digest, encode_document
from saltlite.wire.limits import CHUNK, MIB
from saltlite.wire.messages import Message, Sender, check
from tests.support.inventory import inventory
from tests.support.keys import NOW, certificate

WEB1, DB1 = MinionId("web1"), MinionId("db1")
ROOT = Principal("root", 0)
TOP = {"base": {"web*": ["web"], "role:db": [{"match": "grain"}, "db"]}}
FILES = {"top.sls": TOP, "web.sls": {"password": "sesame"}, "db.sls": {"db": True}}


def master(
    files: Mapping[str, Any] = FILES,
    *,
    cached: bool = True,
    cache: MemoryCache | None = None,
    evaluator: Evaluator | None = None,
) -> Master:
    signed = certificate(NOW)
    who = MasterIdentity(fingerprint(signed.fleet_public), signed, bytes(32))
    made_of = MemoryPillarFiles({"base": files})
    pillars = Pillars(made_of, evaluator or MemoryEvaluator(made_of), cached=cached)
    config = HandlerConfig(5.0, 60.0, frozenset({0}))
    registry, banks = inventory(cache=cache)
    link: Any = None  # nothing here is said to it
    return Master(MemoryStore(), ManualClock(wall=NOW), who, config, link, registry, banks, pillars)


def ask(one: Master, minion: MinionId = WEB1, *, sha256: bytes = b"", offset: int = 0) -> Message:
    message = {"t": "doc_get", "n": 1, "kind": "pillar", "sha256": sha256, "offset": offset, "nonce": b""}
    said: list[Message] = []
    answer_pillar(one, minion, message, said.append)
    (answer,) = said
    return check(dict(answer), Sender.MASTER, accepted=True)


def shown(one: Master, minion: str) -> dict[str, Any]:
    """What an operator is shown."""
    answer = handle_pillar_show(one, ROOT, {"id": minion})
    made: list[Callable[[], dict[str, Any]]] = []
    assert answer.later is not None
    answer.later.begin(made.append)
    return made[0]()


def know(one: Master, minion: MinionId, grains: dict[str, Any]) -> str:
    """The master has these grains; their digest."""
    digest = document_digest(encode_document(grains))
    one.banks.bank(GRAINS).put(minion, grains, digest)
    return digest


def test_a_minion_gets_what_is_for_its_own_id_and_grains() -> None:
    one = master()
    digest = know(one, DB1, {"id": "web1", "role": "db"})
    said = ask(one, DB1)
    assert decode_document(said["data"]) == {"db": True}
    assert said["names"] == [digest]
    assert decode_document(ask(one, WEB1)["data"]) == {"password": "sesame"}


def test_the_answer_says_that_no_grains_are_known() -> None:
    assert ask(master(), WEB1)["names"] == [""]


def test_without_a_top_file_the_pillar_is_empty_and_nothing_is_looked_at_or_kept() -> None:
    one = master({})
    said = ask(one)
    assert decode_document(said["data"]) == {}
    assert said["names"] == []
    assert one.banks.bank(PILLAR).keys() == []


def test_targets_find_the_pillar_that_was_given_last() -> None:
    one = master()
    ask(one)
    assert one.banks.bank(PILLAR).get(WEB1) == {"password": "sesame"}
    one.pillars.files = MemoryPillarFiles({})
    ask(one)
    assert one.banks.bank(PILLAR).get(WEB1) == {}


def test_without_minion_data_cache_no_pillar_is_kept() -> None:
    one = master(cached=False)
    assert decode_document(ask(one)["data"]) == {"password": "sesame"}
    assert one.banks.bank(PILLAR).keys() == []
    with pytest.raises(UsageError, match="minion_data_cache is false"):
        one.fleet.pillar(DataQuery("password:sesame"))


def test_a_full_disk_keeps_no_pillar_from_its_minion(caplog: pytest.LogCaptureFixture) -> None:
    cache = MemoryCache(lambda: NOW)
    one = master(cache=cache)
    cache.full = True
    assert decode_document(ask(one)["data"]) == {"password": "sesame"}
    assert "targets by pillar do not see web1 as it is now" in caplog.text


def test_a_large_pillar_is_made_once_and_given_piece_by_piece() -> None:
    made: list[str] = []

    def big(_seen: Mapping[str, Any]) -> dict[str, str]:
        made.append("made")
        return {str(number): "x" * 1000 for number in range(200)}

    one = master({"top.sls": {"base": {"*": ["big"]}}, "big.sls": big})
    first = ask(one)
    data = bytearray(first["data"])
    while len(data) < first["size"]:
        data += ask(one, sha256=first["sha256"], offset=len(data))["data"]
    assert hashlib.sha256(data).digest() == first["sha256"]
    assert made == ["made"]
    assert ask(one, sha256=first["sha256"], offset=CHUNK)["state"] == "absent"


def test_no_minion_gets_a_piece_of_what_was_made_for_another() -> None:
    one = master({"top.sls": {"base": {"web1": ["big"]}}, "big.sls": {"key": "x" * 2 * CHUNK}})
    first = ask(one, WEB1)
    assert ask(one, DB1, sha256=first["sha256"], offset=CHUNK)["state"] == "absent"


def test_pillars_on_their_way_fill_no_more_memory_than_the_limit() -> None:
    one = master({"top.sls": {"base": {"*": ["big"]}}, "big.sls": {str(n): "x" * (MIB - 99) for n in range(20)}})
    digests = [ask(one, MinionId(f"m{number}"))["sha256"] for number in range(4)]
    assert PILLARS_MEMORY < 4 * 20 * MIB
    states = [
        ask(one, MinionId(f"m{number}"), sha256=digest, offset=CHUNK)["state"] for number, digest in enumerate(digests)
    ]
    assert states == ["absent", "ok", "ok", "ok"]


def test_a_minion_that_fetches_without_end_is_told_to_wait_and_nobody_else_is() -> None:
    one = master()
    clock = one.clock
    assert isinstance(clock, ManualClock)
    assert {ask(one)["state"] for _ in range(PILLARS_AT_ONCE)} == {"ok"}
    assert (ask(one)["state"], ask(one, DB1)["state"]) == ("busy", "ok")
    clock.advance(PILLAR_EVERY_S)
    assert ask(one)["state"] == "ok"


def test_mistakes_are_logged_without_values_and_given_to_the_minion(caplog: pytest.LogCaptureFixture) -> None:
    said = ask(master({"top.sls": {"base": {"*": ["gone", "ok"]}}, "ok.sls": {"password": "sesame"}}))
    assert "'gone'" in decode_document(said["data"])["_errors"][0]
    assert "the pillar of web1 is not whole" in caplog.text
    assert "sesame" not in caplog.text


def test_a_pillar_that_cannot_travel_is_refused_with_a_sentence(caplog: pytest.LogCaptureFixture) -> None:
    nested: Any = {}
    for _ in range(100):
        nested = {"x": nested}
    said = ask(master({"top.sls": {"base": {"*": ["deep"]}}, "deep.sls": nested}))
    assert (said["state"], said["names"]) == ("refused", ["the master cannot send it: its log says why"])
    assert "the pillar of web1 cannot be sent" in caplog.text


def test_an_operator_is_shown_the_pillar_of_any_id_and_where_it_comes_from() -> None:
    one = master()
    know(one, DB1, {"role": "db"})
    said = shown(one, "db1")
    assert said == {"pillar": {"db": True}, "top": {"base": ["db"]}, "mistakes": []}
    assert one.banks.bank(PILLAR).keys() == []


def test_nobody_else_is_shown_a_pillar() -> None:
    with pytest.raises(RefusedError):
        carry_out(master(), Principal("eve", 1000), "pillar_show", {"id": "web1"})
    with pytest.raises(UsageError):
        handle_pillar_show(master(), ROOT, {"id": "../web1"})


class Slow:
    """An evaluator that answers when the test says so."""

    def __init__(self) -> None:
        self.asked: list[tuple[EvaluationRequest, Callable[[Evaluation], None]]] = []

    def evaluate(self, wanted: EvaluationRequest, done: Callable[[Evaluation], None]) -> None:
        self.asked.append((wanted, done))


ENDED = Evaluation(problem="it was ended in base/loop.sls: it took more than 5 s", ended=True, file="base/loop.sls")


def test_nothing_waits_for_a_pillar_that_is_being_made_and_one_that_was_ended_is_told_of() -> None:
    slow = Slow()
    one = master(evaluator=slow)
    know(one, WEB1, {"role": "x"})
    said: list[Message] = []
    answer_pillar(
        one, WEB1, {"t": "doc_get", "n": 7, "kind": "pillar", "sha256": b"", "offset": 0, "nonce": b""}, said.append
    )
    assert not said, "the MWorker goes on"
    ((wanted, done),) = slow.asked
    assert (wanted.asker, wanted.minion, wanted.grains) == ("minion web1", "web1", {"role": "x"})
    done(ENDED)
    assert (said[0]["n"], said[0]["state"], said[0]["names"]) == (7, "busy", [ENDED.problem])
    (event,) = one.store.events()
    assert (event.tag, event.data["file"], event.data["id"]) == ("salt/pillar/web1/ended", "base/loop.sls", "web1")
    assert one.banks.bank(PILLAR).keys() == []


def test_an_operator_is_told_why_a_pillar_cannot_be_shown() -> None:
    slow = Slow()
    answer = handle_pillar_show(master(evaluator=slow), ROOT, {"id": "web1"})
    made: list[Callable[[], dict[str, Any]]] = []
    assert answer.later is not None
    answer.later.begin(made.append)
    ((wanted, done),) = slow.asked
    assert (wanted.asker, wanted.names) == ("user root", True)
    done(ENDED)
    with pytest.raises(SaltliteError, match=r"the pillar of web1 cannot be shown: it was ended in base/loop\.sls"):
        made[0]()


def test_without_a_top_file_nobody_is_asked() -> None:
    slow = Slow()
    one = master({}, evaluator=slow)
    assert ask(one)["state"] == "ok"
    assert handle_pillar_show(one, ROOT, {"id": "web1"}).fields == {"pillar": {}, "top": {}, "mistakes": []}
    assert slow.asked == []
