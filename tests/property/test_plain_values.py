"""One law for doors and readers: what is taken can be read by everybody, and what is not costs its sender only."""

from __future__ import annotations

import datetime
import json
from dataclasses import replace
from typing import Any

import msgpack  # type: ignore[import-untyped]  # the package ships no type information
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from saltlite.client.connection import decode_message, decode_value
from saltlite.errors import ProtocolError, UsageError
from saltlite.loader.encode import decode_return, encode_return
from saltlite.master.handlers.events import answer_event
from saltlite.model.events import matches
from saltlite.model.ids import MinionId
from saltlite.model.plain import DEPTH_MAX, KEY_MAX, is_plain_key, with_text_keys
from saltlite.plugins.returners._plain import plain
from saltlite.testing.memory_store import MemoryStore, MemoryStoreDisk
from saltlite.wire import codec
from saltlite.wire.codec import decode_document, encode_document
from saltlite.wire.framing import pack
from tests.fuzz.readers import read_everywhere, show_everywhere
from tests.support.master import MasterRig

unhurried = settings(deadline=None, max_examples=150)

texts = st.one_of(st.text(max_size=12), st.sampled_from(["\ud800", "\u202e", "\x85", "\0", "k" * (KEY_MAX + 1), "1"]))
keys = st.one_of(
    texts,
    st.integers(-3, 3),
    st.sampled_from([None, True, False, 2**63, 2**64 - 1, 2**64, -(2**63) - 1, 1.5, float("nan")]),
    st.binary(max_size=4),
)
leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    texts,
    st.binary(max_size=12),
    st.datetimes(),
    st.dates(),
    st.frozensets(st.integers(0, 3), max_size=3),
    st.sampled_from([object(), 1j]),
)
values = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.tuples(inner, inner),
        st.dictionaries(keys, inner, max_size=4),
        inner.map(lambda one: _wrapped(one, 90)),
    ),
    max_leaves=12,
)
maps = st.dictionaries(keys, values, max_size=4)


def _wrapped(value: Any, levels: int) -> Any:
    for _ in range(levels):
        value = {"in": value}
    return value


def _as_sent(value: Any) -> bytes | None:
    """The bytes that a client makes of it, None for what it cannot send."""
    try:
        data: bytes = msgpack.packb(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return data


@unhurried
@given(data=maps)
def test_an_event_that_is_taken_is_read_by_everybody_and_one_that_is_not_is_its_senders_error(data: Any) -> None:
    rig = MasterRig("web1")
    sent = _as_sent({"v": 1, "verb": "event_send", "tag": "app/x", "data": data})
    if sent is None:
        return
    before = rig.store.last_seq()
    try:
        request = codec.decode(sent, codec.LOCAL)
        rig.ask("event_send", tag="app/x", data=request["data"])
    except (UsageError, ProtocolError):
        assert rig.store.last_seq() == before
        return
    (event,) = rig.store.events(before)
    assert event.damage == ""
    told = decode_message(pack({"events": [{"seq": 1, "tag": event.tag, "data": event.data, "at": event.at}]}))
    read_everywhere(told["events"])
    assert matches(event.data, {"_user": "root"})


@unhurried
@given(data=maps)
def test_an_event_of_a_minion_is_taken_and_readable_or_refused(data: Any) -> None:
    rig = MasterRig("web1")
    sent = _as_sent(data)
    if sent is None or len(sent) > 32 * 1024:
        return
    message = {"t": "event", "n": 1, "tag": "app/x", "data": sent, "jid": ""}
    said = answer_event(rig.master, MinionId("web1"), message)
    assert said["state"] in ("ok", "refused")
    for event in rig.events("minion/"):
        assert event.damage == ""
        show_everywhere(event.data)


@unhurried
@given(value=values)
def test_whatever_a_function_returns_every_reader_shows_something(value: Any) -> None:
    body = encode_return(value)
    codec.decode(body, codec.RETURN)  # the returner's reader
    assert decode_return(body) is not NotImplemented
    show_everywhere(decode_value(body))


@unhurried
@given(content=maps)
def test_grains_and_pillar_of_any_kind_are_documents_that_are_read_or_are_refused(content: Any) -> None:
    try:
        document = decode_document(encode_document(content))
    except ProtocolError:
        return
    assert len(document) == len(content), "an entry was lost to another"
    show_everywhere(decode_message(pack({"grains": document})))


@unhurried
@given(content=st.dictionaries(keys, st.integers(0, 9), max_size=6))
def test_text_keys_lose_no_entry(content: Any) -> None:
    found = with_text_keys(content, lambda item: item)
    assert sorted(found.values()) == sorted(content.values())
    assert all(found[key] == item for key, item in content.items() if type(key) is str)


def test_values_of_yaml_and_of_functions_are_made_plain_as_the_law_says() -> None:
    moment = datetime.datetime(2027, 1, 15, 8, 0, tzinfo=datetime.UTC)
    made = {"t": moment, "s": {2, 1}, 2**64: 10**30, None: 1, True: 2, b"k": 3, "1": "text", 1.5: b"\xff", 7: 10**5000}
    expected = {
        "t": "2027-01-15T08:00:00+00:00",
        "s": [1, 2],
        "18446744073709551616": str(10**30),
        "None": 1,
        "True": 2,
        "k": 3,
        "1": "text",
        "1.5": b"\xff",
        7: hex(10**5000),
    }
    assert decode_return(encode_return(made)) == decode_document(encode_document(made)) == expected


def test_keys_that_become_one_text_stay_apart_in_documents_returns_and_json() -> None:
    twins = {None: 1, "None": 2, b"None": 3}
    for found in (decode_document(encode_document(twins)), decode_return(encode_return(twins))):
        assert sorted(found.values()) == [1, 2, 3]
    assert with_text_keys({1: "a", "1": "b"}, str) == {"1": "b", "1 (2)": "a"}


def test_a_key_that_is_too_long_is_refused_at_doors_and_cut_in_returns() -> None:
    long = "k" * (KEY_MAX + 1)
    with pytest.raises(ProtocolError, match="characters"):
        codec.decode(msgpack.packb({"a": {long: 1}}), codec.LOCAL)
    ((key, _),) = decode_return(encode_return({long: 1})).items()
    assert is_plain_key(key)
    assert key.endswith("characters are missing]")


@pytest.mark.parametrize(
    "data",
    [
        msgpack.packb({None: 1}),
        msgpack.packb({b"k": 1}),
        msgpack.packb({True: 1}),
        msgpack.packb({1.5: 1}),
        msgpack.packb([1]),
        b"\xc1",
        b"",
        msgpack.packb(_wrapped(1, DEPTH_MAX + 1)),
        msgpack.packb({"t": msgpack.Timestamp(1)}),
        b"\x82\xa1a\x01\xa1a\x02",
        b"\x81\xa1a\xa1\xff",
    ],
)
def test_an_event_that_cannot_be_read_is_named_and_the_next_ones_are_read(data: bytes) -> None:
    disk = MemoryStoreDisk(store_id="0" * 32)
    store = MemoryStore(disk)
    with store.write() as tx:
        tx.put_event("a", {"n": 1}, 1.0)
        tx.put_event("b", {"n": 2}, 1.0)
        tx.put_event("c", {"n": 3}, 1.0)
    rows = disk.tables.events
    seq = sorted(rows)[1]
    rows[seq] = replace(rows[seq], data=data)
    read = store.events()
    assert [event.seq for event in read] == sorted(rows)
    assert [bool(event.damage) for event in read] == [False, True, False]
    assert read[1].data == {}


def test_a_returner_writes_a_line_of_json_whatever_the_event_holds() -> None:
    line = json.dumps(plain({"data": {1: b"\xff", "1": float("nan"), None: [True]}}), ensure_ascii=False).encode()
    assert json.loads(line) == {"data": {"1": "nan", "1 (2)": "\\xff", "null": [True]}}
