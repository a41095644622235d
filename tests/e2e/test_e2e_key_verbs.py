"""Verbs of keys and join tokens on a fleet: rename, list, revoke."""

from __future__ import annotations

import json

import pytest

from tests.support.fleet import Fleet, wait_until, write_config

pytestmark = pytest.mark.e2e


def test_a_renamed_minion_works_under_its_new_id_with_its_key_and_not_under_the_old_one(fleet: Fleet) -> None:
    fleet.start_master()
    fleet.join("a", "b")
    (key,) = [row["fingerprint"] for row in fleet.key_rows() if row["id"] == "a"]
    waits = fleet.publish("a", "test.sleep", "600")
    fleet.wait_state(waits, "a", "running")
    assert (fleet.cli("key", "rename", "a", "b", "-y").code, fleet.cli("key", "rename", "zz", "y", "-y").code) == (2, 2)
    assert fleet.keys() == {"a": ["accepted"], "b": ["accepted"]}
    said = fleet.cli("key", "rename", "a", "www1", "-y")
    assert (said.code, said.out) == (0, f"www1: accepted {key}\n")
    assert "set `id: www1`" in said.err
    assert fleet.states(waits) == {"a": "revoked"}
    assert fleet.keys() == {"b": ["accepted"], "www1": ["accepted"]}

    # Under the old id it is refused, and says what to do.
    fleet.wait_log("a", "needs its new id in its configuration")
    assert fleet.cli("*", "test.ping", "-t", "15", "--out", "json").json() == {"b": True}
    fleet.daemons["a"].stop()
    file = fleet.folder / "a" / "minion"
    options = dict(line.split(": ", 1) for line in file.read_text().splitlines())
    write_config(
        fleet.folder / "a", "minion", {name: json.loads(text) for name, text in options.items()} | {"id": "www1"}
    )
    fleet.restart_minion("a")
    wait_until(lambda: fleet.up() == {"b", "www1"}, "the renamed minion is up")
    assert fleet.cli("*", "grains.get", "id", "--out", "json").json() == {"b": "b", "www1": "www1"}
    assert [row["fingerprint"] for row in fleet.key_rows() if row["id"] == "www1"] == [key]


def test_join_tokens_are_listed_and_a_revoked_one_lets_nobody_in(fleet: Fleet) -> None:
    fleet.start_master()
    none = fleet.cli("key", "token", "list")
    assert (none.code, none.out, none.err) == (0, "", "saltlite: no join token can be used\n")
    good, leaked = fleet.token("--uses", "2", "--id", "web*"), fleet.token()
    rows = {row["id"]: row for row in fleet.cli("key", "token", "list", "--out", "json").json()["tokens"]}
    ids = [token.split(".")[2] for token in (good, leaked)]
    assert rows.keys() == set(ids)
    assert (rows[ids[0]]["uses_left"], rows[ids[0]]["id_glob"]) == (2, "web*")
    listed = fleet.cli("key", "token", "list").out
    assert listed.splitlines()[0].split() == ["ID", "FOR", "USES", "LEFT", "EXPIRES", "IN", "MADE", "BY"]
    assert not any(token.split(".")[3] in listed for token in (good, leaked))

    refused = fleet.cli("key", "token", "revoke", leaked)
    assert (refused.code, "name it by its id" in refused.err, leaked in refused.err) == (2, True, False)
    assert fleet.cli("key", "token", "revoke", ids[1]).out == f"{ids[1]}: revoked\n"
    assert fleet.cli("key", "token", "revoke", ids[1]).code == 3
    fleet.start_minion("thief", join_token=leaked)
    fleet.wait_key("thief", "pending")
    fleet.start_minion("web1", join_token=good)
    fleet.wait_up("web1")
