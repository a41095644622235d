"""What the cloud program asks the master about the keys of minions: those of one id, not those of the fleet."""

from __future__ import annotations

from typing import Any

import pytest

from saltlite.cloud.api.exceptions import SaltCloudSystemExit
from saltlite.cloud.program.master import MinionKeys
from saltlite.master.handlers.operator_verbs import handle_request
from tests.support.master import ROOT, MasterRig


class Asked:
    """The verbs of a master with two minions, and how many keys each answer had."""

    def __init__(self) -> None:
        self._master = MasterRig("web1", "web2").master
        self.keys: list[int] = []

    def __call__(self, verb: str, **fields: Any) -> dict[str, Any]:
        answer = handle_request(self._master, ROOT, {"v": 1, "verb": verb, **fields}).fields
        if verb == "key_list":
            self.keys.append(len(answer["keys"]))
        return answer


def test_a_token_needs_only_the_keys_of_its_own_id() -> None:
    asked = Asked()
    assert MinionKeys(asked).make_token("web3", 60.0)
    with pytest.raises(SaltCloudSystemExit, match="has accepted a key for web1 already"):
        MinionKeys(asked).make_token("WEB1", 60.0)
    assert asked.keys == [0, 1]


def test_a_machine_whose_name_is_no_id_has_no_keys() -> None:
    asked = Asked()
    assert not MinionKeys(asked).has_any("no id/at all")
    assert MinionKeys(asked).has_any("web2")
    assert asked.keys == [0, 1]
