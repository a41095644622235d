"""The runners `manage`, `key`, `cache`, `config`, `survey` and `test`, over a master that a test plays."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from saltlite.salt.cache import Cache
from tests.support.api import CONFIG, JID, Client, row, run

MINIONS = {"minions": [row("a", "up"), row("b", "away"), row("c", "never"), row("d", "up")]}


# --- manage


@pytest.mark.parametrize(
    ("fun", "found"),
    [
        ("list_state", "ad"),
        ("present", "ad"),
        ("alived", "ad"),
        ("allowed", "ad"),
        ("joined", "abd"),
        ("list_not_state", "bc"),
        ("not_present", "bc"),
        ("not_alived", "bc"),
        ("not_allowed", "bc"),
        ("not_joined", "c"),
    ],
)
def test_minions_are_listed_by_their_session(fun: str, found: str) -> None:
    client = Client(minions=MINIONS)
    assert run(client, f"manage.{fun}").value == list(found)
    assert run(client, f"manage.{fun}", subset=["c", "d"]).value == [one for one in found if one in "cd"]
    assert run(client, f"manage.{fun}", show_ip=True).value == dict.fromkeys(found, "")


def test_a_subset_is_a_list() -> None:
    assert "subset is a list" in run(Client(minions=MINIONS), "manage.present", subset="web1").value


def test_other_targets_are_matched_by_the_master() -> None:
    client = Client(minions=MINIONS, match={"minions": ["a", "b"]})
    assert run(client, "manage.status", "os:Debian", "grain").value == {"up": ["a"], "down": ["b"]}
    assert client.asked[0] == ("match", {"tgt": "os:Debian", "tgt_type": "grain"})


def test_limits_of_salt_for_waiting_are_taken() -> None:
    assert run(Client(minions=MINIONS), "manage.up", timeout=5, gather_job_timeout=10).value == ["a", "d"]


KEYS = [
    {"id": "a", "fingerprint": "SHA256:a", "state": "accepted"},
    {"id": "b", "fingerprint": "SHA256:b", "state": "accepted"},
    {"id": "c", "fingerprint": "SHA256:c", "state": "accepted"},
    {"id": "c", "fingerprint": "SHA256:c2", "state": "conflict"},
    {"id": "new1", "fingerprint": "SHA256:n1", "state": "pending"},
    {"id": "new2", "fingerprint": "SHA256:n2", "state": "pending"},
    {"id": "old", "fingerprint": "SHA256:o", "state": "rejected"},
    {"id": "gone", "fingerprint": "SHA256:g", "state": "revoked"},
]


def rig(refused: str = "") -> Client:
    """A master with these keys, which refuses to change any with that sentence."""

    def change(action: str, fingerprints: list[str]) -> dict[str, Any]:
        rows = [{"id": key["id"], "reason": refused} for key in KEYS if key["fingerprint"] in fingerprints]
        return {"changed": [], "refused": rows} if refused else {"changed": rows, "refused": []}

    own = {"master": {"fingerprint": "SHA256:own"}}
    return Client(minions=MINIONS, key_list={"keys": KEYS}, key_finger=own, key_change=change)


def changed(client: Client) -> list[tuple[str, list[str]]]:
    return [(said["action"], said["fingerprints"]) for verb, said in client.asked if verb == "key_change"]


def test_keys_of_minions_that_are_down_are_removed_where_it_is_said() -> None:
    client = rig()
    assert run(client, "manage.down").value == ["b", "c"]
    assert changed(client) == []
    assert run(client, "manage.down", "b", removekeys=True).value == ["b"]
    assert changed(client) == [("delete", ["SHA256:b"])]


@pytest.mark.parametrize("given", ["yes", 1, "b"])
def test_no_key_is_removed_by_a_word_that_is_not_true(given: Any) -> None:
    client = rig()
    assert run(client, "manage.down", removekeys=given).retcode == 1
    assert changed(client) == []


# --- key


@pytest.mark.parametrize(
    ("fun", "args", "found"),
    [
        ("list", ["accepted"], {"minions": ["a", "b", "c"]}),
        ("list", ["un"], {"minions_pre": ["new1", "new2"]}),
        ("list", ["den"], {"minions_denied": ["c"]}),
        ("list", ["new*"], {"minions_pre": ["new1", "new2"]}),
        ("list", ["a,new2"], {"minions": ["a"], "minions_pre": ["new2"]}),
        ("list", ["nosuch"], {}),
        ("glob_match", ["c"], {"minions": ["c"], "minions_denied": ["c"]}),
        ("name_match", ["old"], {"minions_rejected": ["old"]}),
        ("finger", ["new1"], {"minions_pre": {"new1": "SHA256:n1"}}),
        ("finger", ["new1,o*"], {"minions_pre": {"new1": "SHA256:n1"}, "minions_rejected": {"old": "SHA256:o"}}),
        ("finger_master", [], {"local": {"master.pub": "SHA256:own"}}),
    ],
)
def test_keys_are_listed_under_the_names_of_salt(fun: str, args: list[str], found: dict[str, Any]) -> None:
    outcome = run(rig(), f"key.{fun}", *args)
    assert (outcome.value, outcome.out) == (found, "key")


def test_all_keys_are_listed_with_empty_lists_and_the_master() -> None:
    everything = {
        "minions": ["a", "b", "c"],
        "minions_pre": ["new1", "new2"],
        "minions_rejected": ["old"],
        "minions_denied": ["c"],
        "minions_revoked": ["gone"],
        "local": ["master.pub"],
    }
    assert run(rig(), "key.list_all").value == everything
    assert run(rig(), "key.list", "all").value == everything
    assert run(rig(), "key.finger", "*").value["local"] == {"master.pub": "SHA256:own"}


@pytest.mark.parametrize(
    ("fun", "given", "asked", "told"),
    [
        ("accept", {"match": "new*"}, ("accept", ["n1", "n2"]), {"minions": ["new1", "new2"]}),
        ("accept", {"match": "new1,new2,old"}, ("accept", ["n1", "n2"]), {"minions": ["new1", "new2"]}),
        ("accept", {"match": "*", "include_rejected": True}, ("accept", ["n1", "n2", "o"]), None),
        ("accept", {"match": "c", "include_denied": True}, ("accept", ["c2"]), {"minions": ["c"]}),
        ("accept_dict", {"match": {"minions_pre": ["new1"]}}, ("accept", ["n1"]), {"minions": ["new1"]}),
        ("reject", {"match": "new1"}, ("reject", ["n1"]), {"minions_rejected": ["new1"]}),
        ("reject", {"match": "a", "include_accepted": True}, ("reject", ["a"]), {"minions_rejected": ["a"]}),
        ("reject_dict", {"match": {"minions": ["a"]}}, ("reject", ["a"]), {"minions_rejected": ["a"]}),
        ("revoke", {"match": "b"}, ("revoke", ["b"]), {"minions_revoked": ["b"]}),
        ("delete", {"match": "c"}, ("delete", ["c", "c2"]), {}),
        ("delete_dict", {"match": {"minions_denied": ["c"]}}, ("delete", ["c2"]), {}),
        ("accept", {"match": "a"}, None, {}),
        ("delete", {"match": "nosuch"}, None, {}),
        ("delete", {"match": "[a"}, None, {}),
        ("accept", {"match": "--all"}, None, {}),
        ("accept", {"match": "new1\n"}, None, {}),
    ],
    ids=str,
)
def test_keys_are_changed_as_by_the_wheel(fun: str, given: dict[str, Any], asked: Any, told: Any) -> None:
    client = rig()
    value = run(client, f"key.{fun}", **given).value
    wanted = [] if asked is None else [(asked[0], [f"SHA256:{one}" for one in asked[1]])]
    assert changed(client) == wanted
    assert told is None or value == told


@pytest.mark.parametrize(
    ("fun", "given", "text"),
    [
        ("accept", {"match": ["a"]}, "'match' takes text, and was given a list"),
        ("accept_dict", {"match": "new1"}, "`match` is a map of lists"),
        ("finger", {"match": "*", "hash_type": "md5"}, "sha256 only"),
        ("accept", {"match": "new1"}, "new1: it is held"),
    ],
)
def test_a_change_that_cannot_be_made_says_why(fun: str, given: dict[str, Any], text: str) -> None:
    outcome = run(rig("it is held"), f"key.{fun}", **given)
    assert outcome.retcode == 1
    assert text in outcome.value


# --- cache


def cached(**of: Any) -> Client:
    """A master whose answers have two minions each."""

    def page(bank: str, tgt: str, tgt_type: str, after: str = "", names: bool = False, key: str = "") -> dict[str, Any]:
        rest = {one: None if names else value for one, value in sorted(of.items()) if one > after}
        if key:
            rest = {one: value for one, value in rest.items() if one == key}
        values = dict(list(rest.items())[:2])
        return {"values": values, "more": len(rest) > 2, "last": max(values, default="")}

    return Client(cached=page, cache_clear={"cleared": 1})


def test_what_is_cached_is_gathered_from_all_pages() -> None:
    of: dict[str, Any] = {f"m{number}": {"id": number} for number in range(5)}
    assert run(cached(**of), "cache.grains", "*").value == of
    assert run(cached(**of), "cache.pillar").value == of
    assert run(cached(**of), "cache.list", "grains").value == list(of)
    assert run(cached(**of), "cache.fetch", "grains", "m3").value == {"id": 3}
    assert run(cached(**of), "cache.fetch", "grains", "nosuch").value == {}


def test_values_of_ones_own_are_kept_in_banks(tmp_path: Path) -> None:
    def value(fun: str, *args: Any) -> Any:
        outcome = run(Client(), f"cache.{fun}", *args, cachedir=str(tmp_path))
        assert outcome.retcode == 0, outcome.value
        return outcome.value

    assert (value("list", "app/hosts"), value("fetch", "app/hosts", "web1")) == ([], {})
    assert value("flush", "app/hosts", "web1") is False
    value("store", "app/hosts", "web2", "text")
    value("store", "app/hosts", "web1", {"rack": 4})
    assert value("list", "app/hosts") == ["web1", "web2"]
    assert value("list", "app") == ["hosts"]
    assert value("fetch", "app/hosts", "web1") == {"rack": 4}
    assert Cache({}, f"{tmp_path}/banks").fetch("app/hosts", "web2") == "text"
    assert value("flush", "app/hosts", "web1") is True
    assert value("list", "app/hosts") == ["web2"]
    assert value("flush", "app") is True
    assert value("list", "app") == []


@pytest.mark.parametrize(
    ("fun", "args", "text"),
    [
        ("store", ["grains", "web1", {}], "holds what minions send"),
        ("store", ["app", "a/b", 1], "a key is a name without a slash"),
        ("store", ["app", "../x", 1], "a key is a name without a slash"),
        ("fetch", ["../minions", "x"], "leads out of"),
        ("list", ["/"], "A bank is a path"),
        ("flush", ["."], "A bank is a path"),
        ("flush", ["app", " "], "The key is empty"),
    ],
)
def test_banks_and_keys_stay_in_their_folder(tmp_path: Path, fun: str, args: list[Any], text: str) -> None:
    (tmp_path / "minions").mkdir()
    (tmp_path / "minions/x.p").write_bytes(b"\x01")
    outcome = run(Client(), f"cache.{fun}", *args, cachedir=str(tmp_path))
    assert (outcome.retcode, text in outcome.value) == (1, True), outcome.value


def test_a_bank_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "banks").write_text("")
    outcome = run(Client(), "cache.store", "app", "k", 1, cachedir=str(tmp_path))
    assert "cannot be used: [Errno 20] Not a directory" in outcome.value
    assert "There is no place for values" in run(Client(), "cache.store", "app", "k", 1).value


@pytest.mark.parametrize(
    ("fun", "args", "asked"),
    [
        ("clear_grains", ["web*"], (["grains"], "web*", "glob")),
        ("clear_pillar", ["a,b", "list"], (["pillar"], "a,b", "list")),
        ("clear_all", ["*"], (["grains", "pillar"], "*", "glob")),
        ("flush", ["pillar", "a"], (["pillar"], "a", "list")),
        ("flush", ["grains"], (["grains"], "*", "glob")),
    ],
)
def test_what_is_cached_is_cleared(fun: str, args: list[str], asked: tuple[Any, ...]) -> None:
    client = cached()
    assert run(client, f"cache.{fun}", *args).value is True
    assert client.asked == [("cache_clear", dict(zip(("banks", "tgt", "tgt_type"), asked, strict=True)))]


@pytest.mark.parametrize(
    ("fun", "args"),
    [("clear_grains", []), ("clear_pillar", [""]), ("clear_all", []), ("flush", ["grains", ""]), ("flush", ["x", " "])],
)
def test_nothing_is_cleared_without_a_target(fun: str, args: list[str]) -> None:
    client = cached()
    assert run(client, f"cache.{fun}", *args).value is not True
    assert client.asked == []


# --- config


@pytest.mark.parametrize(
    ("given", "value"),
    [
        ({"key": "timeout"}, 5.0),
        ({"key": "file_roots:base"}, ["/srv/one", "/srv/two"]),
        ({"key": "file_roots:base:1"}, "/srv/two"),
        ({"key": "file_roots:base:7"}, ""),
        ({"key": "file_roots,base,0", "delimiter": ","}, "/srv/one"),
        ({"key": "file_roots:base", "delimiter": ""}, ""),
        ({"key": "nosuch"}, ""),
        ({"key": "timeout:more", "default": "none"}, "none"),
        ({"key": "hooks:h:fun"}, "a.b"),
    ],
    ids=str,
)
def test_options_are_found_inside_of_each_other(given: dict[str, Any], value: Any) -> None:
    assert run(Client(), "config.get", **given).value == value


# --- survey


def test_minions_are_put_together_by_what_they_answer() -> None:
    client = Client(cmd={"a": {"x": 1, "y": 2}, "b": "no", "c": {"y": 2, "x": 1}, "d": {"x": 1, "y": 3}})
    pools = run(client, "survey.hash", "*", "test.arg", 1, tgt_type="glob", two=2).value
    assert client.asked == [("cmd", {"args": ("*", "test.arg", (1,), {"two": 2}, "glob")})]
    text = '{\n    "x": 1,\n    "y": 2\n}'
    assert pools[0] == {"pool": ["a", "c"], "result": text}
    assert [one["pool"] for one in pools[1:]] == [["b"], ["d"]]
    least_first = run(client, "survey.hash", "*", "test.arg", survey_sort="up").value
    assert [one["pool"] for one in least_first] == [["b"], ["d"], ["a", "c"]]


def test_answers_are_compared_line_by_line_with_those_of_the_first_pool() -> None:
    client = Client(cmd={"a": "one\ntwo", "b": "one\ntwo", "c": "one\n2"})
    first, other = run(client, "survey.diff", "*", "cmd.run", "cat x").value
    assert first == {"pool": ["a", "b"], "result": "one\ntwo"}
    assert other["diff"] == "--- a\n+++ c\n@@ -2 +2 @@\n-two\n+2"


@pytest.mark.parametrize("value", [{1: "a", "b": 2}, {None: 1, True: 2}, [b"\xff"], "ünï\n"], ids=str)
def test_any_answer_can_be_compared(value: Any) -> None:
    (pool,) = run(Client(cmd={"a": value, "b": value}), "survey.diff", "*", "x.y").value
    assert pool["pool"] == ["a", "b"]


def test_nobody_is_surveyed_where_nobody_answers() -> None:
    assert run(Client(cmd={}), "survey.diff", "*", "x.y").value == []
    assert run(Client(cmd={}), "survey.hash", "*", "x.y", survey_sort="left").retcode == 1


# --- test


def test_arguments_come_back() -> None:
    assert run(Client(), "test.arg", 1, "two", three=3).value == {"args": [1, "two"], "kwargs": {"three": 3}}
    assert run(Client(), "test.raw_arg", three=3).value["kwargs"]["__pub_jid"] == JID
    assert run(Client(), "test.metasyntactic", locality="uk").value == ["wibble", "wobble", "wubble", "flob"]
    assert run(Client(), "test.metasyntactic", locality="de").value is None
    assert run(Client(), "test.sleep", 0).value is True
    assert run(Client(), "test.get_opts").value == CONFIG


def test_events_of_progress_are_named_for_the_runner() -> None:
    client = Client(event_send={})
    assert run(client, "test.stream", count=3, interval=0).value is True
    said = [fields["data"]["message"] for _verb, fields in client.asked]
    assert said == ["Runner is 25% done", "Runner is 50% done", "Runner is 75% done"]
    assert {fields["tag"] for _verb, fields in client.asked} == {f"run/{JID}/progress"}
    assert run(client, "test.stream", count=0).retcode == 1


# --- network


@contextmanager
def woken(count: int) -> Iterator[tuple[int, list[str]]]:
    """A port of loopback, and the hardware addresses in the packets that it got, at the end."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        sock.settimeout(60)
        macs: list[str] = []
        yield sock.getsockname()[1], macs
        for _ in range(count):
            packet = sock.recv(200)
            assert packet == b"\xff" * 6 + packet[6:12] * 16
            macs.append(packet[6:12].hex(":"))


def test_machines_are_woken_by_their_hardware_addresses(tmp_path: Path) -> None:
    maclist = tmp_path / "macs"
    maclist.write_text("# the lab\n08-00-27-13-69-77\n\n080027136978 # rack 2\n")
    with woken(3) as (port, macs):
        assert run(Client(), "network.wol", "08:00:27:13:69:01", "127.0.0.1", port).value is True
        listed = run(Client(), "network.wollist", str(maclist), "127.0.0.1", port).value
        assert listed == ["08-00-27-13-69-77", "080027136978"]
    assert macs == ["08:00:27:13:69:01", "08:00:27:13:69:77", "08:00:27:13:69:78"]
    assert "cannot be read: No such file" in run(Client(), "network.wollist", f"{maclist}.gone").value
    assert "is not a hardware address" in run(Client(), "network.wol", "08:00").value


def test_minions_are_woken_by_their_cached_grains() -> None:
    grains = {"hwaddr_interfaces": {"lo": "00:00:00:00:00:01", "eth0": "08:00:27:00:00:01", "no": "00:00:00:00:00:00"}}
    with woken(1) as (port, macs):
        client = cached(web1=grains, web2={})
        assert run(client, "network.wolmatch", "web*", bcast="127.0.0.1", destport=port).value == ["08:00:27:00:00:01"]
    assert macs == ["08:00:27:00:00:01"]
    assert client.asked[0][1] == {"bank": "grains", "tgt": "web*", "tgt_type": "glob"}
