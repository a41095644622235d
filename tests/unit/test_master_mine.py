"""The mine: what minions leave with the master, what is sent again, and who reads it."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from saltlite.auth.acl import Granted, Principal, read_rules
from saltlite.errors import CommandExecutionError, RefusedError
from saltlite.master.handlers import mine
from saltlite.master.handlers.documents import answer
from saltlite.master.handlers.mine import FUNCTIONS_MAX, NAME_MAX
from saltlite.master.handlers.operator_verbs import handle_request
from saltlite.master.handlers.registration import forget
from saltlite.master.processes import context
from saltlite.master.processes.fleet import Mines
from saltlite.minion.jobs.rpc_client import MasterRequests
from saltlite.model.ids import MinionId
from saltlite.model.keys import KeyState
from saltlite.plugins.modules import mine as module
from saltlite.salt.utils import args as salt_args
from saltlite.salt.utils import mine as salt_mine
from saltlite.targeting.banks import MINE, MINE_MAX, MINE_TIMES
from saltlite.targeting.fleet import Budget
from saltlite.wire.messages import Message
from tests.support.master import ROOT, MasterRig


class Site(MasterRig):
    """Minions that ask as their functions do; `asked` notes how many bytes each request had."""

    def __init__(self, **config: Any) -> None:
        super().__init__("web1", "web2", "db1", **config)
        self.asked: list[int] = []

    def master_of(self, minion: str) -> MasterRequests:
        site = self

        class Requests:
            def request(self, message: Message) -> Message:
                site.asked.append(len(message["data"]))
                found: list[Message] = []
                answer(site.master, site.documents, MinionId(minion), message, found.append)
                return found[0]

        return MasterRequests(Requests())

    def get(self, reader: str, tgt: str = "*", fun: str = "ip", tgt_type: str = "glob", **fields: Any) -> Any:
        master = self.master_of(reader)
        asked = {"tgt": tgt, "tgt_type": tgt_type, "functions": [fun], **fields}
        return {owner: master.decoded(body) for owner, body in master.ask("mine_get", asked)["values"][fun].items()}


@pytest.fixture
def site() -> Site:
    return Site()


class Minion:
    """The module `mine` on one minion, with functions that return what a test sets."""

    def __init__(self, site: Site, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.values: dict[str, Any] = {}
        self.context: dict[str, Any] = {}
        self.config: dict[str, Any] = {}
        self._site, self._name, self._patch = site, name, monkeypatch

    def call(self, fun: str, *args: Any, **kwargs: Any) -> Any:
        def value(name: str) -> Any:
            def function(*args: Any, **_kwargs: Any) -> Any:
                if isinstance(self.values[name], Exception):
                    raise self.values[name]
                return [self.values[name], *args] if args else self.values[name]

            return function

        functions = {name: value(name) for name in self.values}
        functions["config.merge"] = lambda _name, default: self.config or default
        functions["grains.get"] = lambda _name: self._name
        utils = {
            "args.clean_kwargs": salt_args.clean_kwargs,
            "mine.parse_function_definition": salt_mine.parse_function_definition,
        }
        for dunder, thing in {
            "__salt__": functions, "__utils__": utils, "__context__": self.context,
            "__master__": self._site.master_of(self._name),
        }.items():  # fmt: skip
            self._patch.setattr(module, dunder, thing, raising=False)
        return getattr(module, fun)(*args, **kwargs)


@pytest.fixture
def web1(site: Site, monkeypatch: pytest.MonkeyPatch) -> Minion:
    return Minion(site, "web1", monkeypatch)


def test_what_a_minion_sends_others_read_with_their_functions(site: Site, web1: Minion) -> None:
    web1.values["ip"] = ["10.0.0.1"]
    assert web1.call("send", "ip") is True
    assert site.get("db1") == {"web1": ["10.0.0.1"]}
    assert site.get("db1", "db*") == {}
    assert web1.call("get", "*", "ip") == {"web1": ["10.0.0.1"]}
    assert web1.call("get", "*", "ip,other") == {"ip": {"web1": ["10.0.0.1"]}}
    assert web1.call("get", "*", "ip", exclude_minion=True) == {}
    assert (web1.call("send", "absent"), web1.context) == (False, {"retcode": 1})
    assert site.get("db1", fun="absent") == {}


def test_the_configured_functions_are_called_with_their_arguments_and_a_broken_one_keeps_its_value(
    site: Site, web1: Minion
) -> None:
    assert web1.call("update") is None
    web1.values.update({"a.b": 1, "c.d": 2})
    web1.config = {"a.b": ["x"], "own": [{"mine_function": "c.d"}], "absent": []}
    assert web1.call("update") is True
    assert web1.context["retcode"] == 1
    assert (site.get("db1", fun="a.b"), site.get("db1", fun="own")) == ({"web1": [1, "x"]}, {"web1": 2})
    assert web1.call("valid") == {"a.b": ["x"], "own": {"c.d": []}}
    web1.values["a.b"] = CommandExecutionError("broken")
    web1.call("update")
    assert site.get("db1", fun="a.b") == {"web1": [1, "x"]}
    web1.call("update", clear=True, mine_functions=["c.d"])
    assert (site.get("db1", fun="a.b"), site.get("db1", fun="c.d")) == ({}, {"web1": 2})


def test_a_value_that_did_not_change_is_not_sent_again_and_nothing_is_rewritten(site: Site, web1: Minion) -> None:
    web1.values["ip"] = "x" * 50_000
    web1.call("send", "ip")
    cursor = site.master.banks.bank(MINE).changes("").cursor
    site.asked.clear()
    web1.call("send", "ip")
    assert len(site.asked) == 1
    assert site.asked[0] < 200
    assert site.master.banks.bank(MINE).changes(cursor).keys == frozenset()


def test_the_age_of_a_value_is_the_time_since_it_was_confirmed(site: Site, web1: Minion) -> None:
    web1.values["ip"] = 1
    web1.call("send", "ip")
    site.clock.advance(100)
    assert (site.get("db1", max_age=99), site.get("db1", max_age=101)) == ({}, {"web1": 1})
    web1.call("send", "ip")
    assert site.get("db1", max_age=1) == {"web1": 1}
    found = handle_request(
        site.master, ROOT, {"v": 1, "verb": "mine_get", "tgt": "*", "tgt_type": "glob", "functions": ["ip"]}
    )
    assert found.fields["values"] == {"ip": {"web1": [1, 0.0]}}


def test_only_the_minions_that_a_value_allows_read_it_and_a_wrong_target_allows_none(site: Site, web1: Minion) -> None:
    web1.values["ip"] = 1
    web1.call("send", "ip", allow_tgt="web2,db9", allow_tgt_type="list")
    assert (site.get("web2"), site.get("db1")) == ({"web1": 1}, {})
    web1.call("send", "ip", allow_tgt="and and", allow_tgt_type="compound")
    assert (site.get("web2"), site.get("db1")) == ({}, {})
    web1.call("send", "ip")
    assert site.get("db1") == {"web1": 1}
    with pytest.raises(CommandExecutionError, match="no target type"):
        web1.call("send", "ip", allow_tgt="*", allow_tgt_type="nonsense")


def test_a_value_whose_target_is_costly_hides_no_value_of_another(
    site: Site, web1: Minion, monkeypatch: pytest.MonkeyPatch
) -> None:
    costly = " or ".join(f"E@w.*{number}" for number in range(100))
    monkeypatch.setattr(mine, "ALLOWED_STEPS", 2_000)
    web2 = Minion(site, "web2", monkeypatch)
    for minion, target in ((web1, costly), (web2, "db* or web*")):
        minion.values["ip"] = 1
        minion.call("send", "ip", allow_tgt=target, allow_tgt_type="compound")
    assert site.get("db1") == {"web2": 1}
    # The steps of all owners together count for the reader, whose request then fails.
    monkeypatch.setattr(context, "Budget", lambda: Budget(1_000))
    with pytest.raises(CommandExecutionError, match="too long to look up"):
        site.get("db1")


def test_a_minion_deletes_its_own_values_only(site: Site, web1: Minion, monkeypatch: pytest.MonkeyPatch) -> None:
    web2 = Minion(site, "web2", monkeypatch)
    for minion in (web1, web2):
        minion.values.update({"ip": 1, "os": 2})
        minion.call("update", mine_functions=["ip", "os"])
    web1.call("delete", "ip")
    assert (site.get("db1"), site.get("db1", fun="os")) == ({"web2": 1}, {"web1": 2, "web2": 2})
    web2.call("flush")
    assert site.get("db1", fun="os") == {"web1": 2}
    forget(site.master, MinionId("web1"))
    assert site.get("db1", fun="os") == {}
    assert site.master.banks.bank(MINE_TIMES).get("web1") is None


def test_a_minion_that_reads_the_mine_cannot_search_pillars(site: Site) -> None:
    for target, kind in (("role:*", "pillar"), ("role:x", "pillar_pcre"), ("I@role:* or db1", "compound")):
        with pytest.raises(CommandExecutionError, match="patterns of pillar"):
            site.get("db1", target, tgt_type=kind)


def offered(name: str, body: bytes, allow: Any = "", kind: Any = "glob") -> dict[str, Any]:
    return {"offers": {name: [hashlib.sha256(body).digest(), allow, kind]}, "values": {name: body}, "clear": False}


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        (offered("x" * (NAME_MAX + 1), b"\x01"), "printable characters"),
        (offered("a\nb", b"\x01"), "printable characters"),
        (offered("a", b"\x01", 7), "allow_tgt is a target"),
        (offered("a", b"\x01", "x" * 5000), "allow_tgt is a target"),
        ({"offers": [], "values": {}, "clear": False}, "as maps"),
        (
            {"offers": {f"f{n}": [b"d", "", "glob"] for n in range(FUNCTIONS_MAX + 1)}, "values": {}, "clear": False},
            f"at most {FUNCTIONS_MAX} values",
        ),
    ],
)
def test_what_is_no_mine_is_refused_with_a_sentence(site: Site, fields: dict[str, Any], words: str) -> None:
    with pytest.raises(CommandExecutionError, match=words):
        site.master_of("web1").ask("mine_put", fields)
    assert site.master.banks.bank(MINE).get("web1") is None


def test_a_value_whose_digest_is_another_is_not_stored(site: Site) -> None:
    fields = offered("ip", b"\x01")
    fields["values"]["ip"] = b"\x02"
    assert site.master_of("web1").ask("mine_put", fields)["wanted"] == ["ip"]
    assert site.get("db1") == {}


def test_a_mine_has_so_many_bytes_and_a_value_one_request(site: Site, web1: Minion) -> None:
    count = MINE_MAX // 50_000
    for number in range(count):
        site.master_of("web1").ask("mine_put", offered(f"f{number}", bytes([number]) * 50_000))
    with pytest.raises(CommandExecutionError, match=f"at most {MINE_MAX} bytes"):
        site.master_of("web1").ask("mine_put", offered("more", b"\xc4" + b"x" * 50_000))
    web1.values["large"] = "x" * 70_000
    assert web1.call("send", "large") is False
    assert site.get("db1", fun="large") == {}


def test_a_minion_whose_key_is_revoked_stores_nothing(site: Site) -> None:
    site.add_keys("web1", state=KeyState.REVOKED)
    with pytest.raises(CommandExecutionError, match="not accepted any more"):
        site.master_of("web1").ask("mine_put", offered("ip", b"\x01"))


def test_operators_read_the_mine_in_pages_and_users_need_the_right(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("saltlite.master.handlers.mine.PAGE_BYTES", 0)
    for minion in ("db1", "web1", "web2"):
        site.master_of(minion).ask("mine_put", offered("ip", b"\x01", "nobody", "list"))
    request = {"v": 1, "verb": "mine_get", "tgt": "*", "tgt_type": "glob", "functions": ["ip"]}
    found, after, more = {}, "", True
    while more:
        page = handle_request(site.master, ROOT, {**request, "after": after}).fields
        assert len(page["values"]["ip"]) == 1
        found.update(page["values"]["ip"])
        after, more = page["last"], page["more"]
    assert {minion: value for minion, (value, _age) in found.items()} == {"db1": 1, "web1": 1, "web2": 1}
    users = Granted(publisher=read_rules({"amy": ["test.*"], "bob": ["@runner"]}, "publisher_acl"))
    guarded = Site(granted=users)
    assert handle_request(guarded.master, Principal("bob", 1001), request).fields["values"] == {"ip": {}}
    with pytest.raises(RefusedError, match=r"mine\.get"):
        handle_request(guarded.master, Principal("amy", 1000), request)


def test_mines_that_were_read_are_held_in_bounded_memory_and_follow_changes(site: Site) -> None:
    site.master_of("web1").ask("mine_put", offered("ip", b"\x01"))
    mines = Mines(site.master.banks, memory=300)
    mines.follow()
    first = mines.of("web1")
    assert mines.of("web1") is first
    site.master_of("web1").ask("mine_put", offered("ip", b"\x02"))
    mines.follow()
    assert mines.of("web1")["ip"].data == b"\x02"
    held = mines.of("web1")
    mines.of("web2")
    assert mines.of("web1") is not held
