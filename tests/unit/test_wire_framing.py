"""Messages between the processes of one daemon: an encoder that is used again is not changed by earlier messages."""

from __future__ import annotations

from collections import UserDict
from typing import Any

import pytest

from saltlite.wire.framing import PACK_BYTES, pack, packed, unpack


def test_a_value_that_cannot_be_encoded_leaves_nothing_in_the_next_message() -> None:
    refused: dict[str, Any] = {"t": "refused", "items": ["written before the error", object()]}
    with pytest.raises(TypeError):
        pack(refused)
    for number in range(3):
        assert unpack(pack({"t": "next", "n": number})) == {"t": "next", "n": number}


def test_a_message_that_is_encoded_while_another_one_is_under_way_changes_neither() -> None:
    class Nested(UserDict[str, Any]):
        pass

    class Encoding(dict[str, Any]):
        def items(self) -> Any:
            assert unpack(pack({"t": "inner"})) == {"t": "inner"}
            return super().items()

    with pytest.raises(TypeError):
        packed(Nested(t="no plain value"))
    assert unpack(packed({"before": 1, "value": Encoding(t="outer"), "after": 2})) == {
        "before": 1,
        "value": {"t": "outer"},
        "after": 2,
    }


def test_the_buffer_of_a_large_message_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[Any] = []
    monkeypatch.setattr("saltlite.wire.framing._packers", kept)
    pack({"t": "large", "data": bytes(PACK_BYTES)})
    assert not kept
    pack({"t": "small"})
    pack({"t": "small"})
    assert len(kept) == 1
