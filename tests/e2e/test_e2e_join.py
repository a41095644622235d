"""How a minion gets in, and how it is put out again."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from saltlite.model.keys import fingerprint
from saltlite.wire.noise import public_of
from tests.support.fleet import BIN, ME, WAIT_S, Fleet, run_daemon, wait_until, write_config

pytestmark = pytest.mark.e2e

UNKNOWN = "aaaaaaaa.aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"


def test_a_minion_accepted_by_hand_is_up_at_once(fleet: Fleet) -> None:
    fleet.start_master()
    fleet.start_minion("a", fleet=fleet.fleet_id())
    fleet.wait_key("a", "pending")
    fleet.wait_log("a", "waits to be accepted")
    said = fleet.cli("key", "accept", "a", "-y")
    assert said.code == 0, said
    fleet.wait_up("a")
    assert fleet.cli("a", "test.ping", "--out", "json").json() == {"a": True}


def test_the_minion_shows_the_fingerprint_that_key_list_shows(fleet: Fleet) -> None:
    fleet.start_master()
    fleet.start_minion("a", fleet=fleet.fleet_id())
    fleet.wait_key("a", "pending")
    key = (fleet.root("a") / "etc/saltlite/pki/minion/minion.key").read_bytes()
    shown = fingerprint(public_of(key))
    assert [row["fingerprint"] for row in fleet.key_rows()] == [shown]
    fleet.wait_log("a", shown)


def test_saltlite_key_takes_the_options_of_salt_key(fleet: Fleet) -> None:
    fleet.start_master()
    fleet.start_minion("a", fleet=fleet.fleet_id())
    fleet.wait_key("a", "pending")

    def typed(*words: str) -> tuple[int, Any]:
        line = [str(BIN / "saltlite-key"), "-c", str(fleet.folder / "master"), *words, "--out", "json"]
        done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=WAIT_S)
        assert done.stderr == ""
        return done.returncode, json.loads(done.stdout)

    others: dict[str, list[str]] = {"minions_denied": [], "minions_rejected": []}
    assert typed("-L") == (0, others | {"minions": [], "minions_pre": ["a"]})
    assert typed("-a", "a", "-y") == (0, {"minions_pre": ["a"]})
    fleet.wait_up("a")
    assert typed("-L") == (0, others | {"minions": ["a"], "minions_pre": []})
    shown = load_pem_public_key(typed("-p", "a")[1]["minions"]["a"].encode())
    assert isinstance(shown, X25519PublicKey)
    key = (fleet.root("a") / "etc/saltlite/pki/minion/minion.key").read_bytes()
    assert shown.public_bytes_raw() == public_of(key)
    assert typed("-f", "a") == (0, {"minions": {"a": str(fingerprint(public_of(key)))}})
    assert typed("-d", "a", "-y") == (0, {"minions": ["a"]})


def test_a_join_token_in_the_configuration_or_in_a_file_lets_in(fleet: Fleet, tmp_path: Path) -> None:
    fleet.start_master()
    file = tmp_path / "token"
    file.touch(mode=0o600)
    file.write_text(fleet.token() + "\n")
    fleet.start_minion("a", join_token=fleet.token())
    fleet.start_minion("b", join_token_file=str(file))
    fleet.wait_up("a", "b")
    assert fleet.keys() == {"a": ["accepted"], "b": ["accepted"]}


def test_a_fleet_that_came_by_token_is_remembered_without_it(fleet: Fleet) -> None:
    fleet.start_master()
    fleet.join("a")
    fleet.daemons["a"].stop()
    wait_until(lambda: "a" not in fleet.up(), "a is away")
    fleet.start_minion("a", join_token=None)
    fleet.wait_up("a")


def test_a_preaccepted_fingerprint_lets_in(fleet: Fleet) -> None:
    fleet.start_master()
    pki = fleet.root("a") / "etc/saltlite/pki/minion"
    pki.mkdir(parents=True, mode=0o700)
    (pki / "minion.key").touch(mode=0o600)
    (pki / "minion.key").write_bytes(bytes(range(32)))
    said = fleet.cli("key", "preaccept", "a", fingerprint(public_of(bytes(range(32)))))
    assert said.code == 0, said
    fleet.start_minion("a", fleet=fleet.fleet_id())
    fleet.wait_up("a")


def test_keys_that_wait_are_told_of_to_whoever_finds_nobody(fleet: Fleet) -> None:
    fleet.start_master()
    assert "there is no key yet" in fleet.cli("key", "list").err
    fleet.start_minion("web1", fleet=fleet.fleet_id())
    fleet.wait_key("web1", "pending")
    said = fleet.cli("w*", "test.ping")
    assert said.code == 3
    assert said.err.endswith(
        "nothing was published; 1 key that it fits waits to be accepted: saltlite key list pending\n"
    )
    assert fleet.cli("db*", "test.ping").err.endswith("nothing was published\n")


def test_the_first_fleet_is_trusted_only_where_the_configuration_says_so(fleet: Fleet) -> None:
    fleet.start_master()
    fleet.start_minion("a", trust_on_first_use=True)
    fleet.wait_key("a", "pending")
    pin = fleet.root("a") / "etc/saltlite/pki/minion/fleet.pin"
    wait_until(pin.exists, "the fleet is pinned")
    assert pin.read_text().strip() == fleet.fleet_id()
    refused = fleet.start_minion("b")
    assert refused.ended() == 2, "its unit does not start it again"
    assert "knows no fleet" in refused.log()
    assert "join_token" in refused.log()
    assert len(refused.log().splitlines()) == 1, refused.log()


def test_a_token_that_does_not_count_leaves_the_key_pending(fleet: Fleet) -> None:
    fleet.start_master()
    used = fleet.token("--uses", "1")
    fleet.start_minion("first", join_token=used)
    fleet.wait_up("first")
    tokens = {
        "unknown": f"slj1.{fleet.fleet_id().replace('-', '')}.{UNKNOWN}",
        "used": used,
        "expired": fleet.token("--expires", "0.001"),
        "for-other-ids": fleet.token("--id", "web*"),
    }
    for name, token in tokens.items():
        fleet.start_minion(name, join_token=token)
    for name in tokens:
        fleet.wait_key(name, "pending")
    why = {row["id"]: row["how"] for row in fleet.key_rows() if row["id"] in tokens}
    assert why == dict.fromkeys(tokens, "first contact; its join token was not accepted")
    assert fleet.cli("*", "test.ping", "--out", "json").json() == {"first": True}


def test_a_second_key_with_the_same_id_is_a_conflict_and_the_first_goes_on(fleet: Fleet) -> None:
    fleet.start_master()
    fleet.join("a")
    fleet.start_minion("other", id="a", fleet=fleet.fleet_id())
    fleet.wait_key("a", "accepted", "conflict")
    fleet.wait_log("other", "another key has this minion's id")
    assert "1 in conflict with an accepted one: saltlite key list conflict" in fleet.cli("status").out
    listed = fleet.cli("key", "list", "conflict")
    assert "`saltlite key revoke a` and then `saltlite key accept a --fingerprint" in listed.err
    assert fleet.cli("a", "test.ping", "--out", "json").json() == {"a": True}
    fleet.daemons["a"].stop()
    wait_until(lambda: not fleet.up(), "nobody is up")


def test_a_rejected_key_gets_nothing_and_a_deleted_one_comes_back_as_pending(fleet: Fleet) -> None:
    fleet.start_master()
    fleet.start_minion("a", fleet=fleet.fleet_id())
    fleet.wait_key("a", "pending")
    assert fleet.cli("key", "reject", "a", "-y").code == 0
    fleet.wait_log("a", "its key is rejected")
    assert fleet.keys() == {"a": ["rejected"]}
    assert fleet.cli("a", "test.ping").code == 3
    assert fleet.cli("key", "delete", "a", "-y").code == 0
    # The minion was asked to stay away for long; started anew, it presents its key again.
    fleet.daemons["a"].stop()
    fleet.restart_minion("a")
    fleet.wait_key("a", "pending")


def test_a_key_deleted_while_its_minion_is_connected_comes_back_as_pending(fleet: Fleet) -> None:
    fleet.start_master()
    fleet.join("a")
    assert fleet.cli("key", "delete", "a", "-y").code == 0
    fleet.wait_key("a", "pending")
    fleet.wait_log("a", "deleted on the master")


def test_nothing_reaches_a_minion_after_its_key_was_revoked(fleet: Fleet) -> None:
    fleet.start_master()
    fleet.join("a", "b")
    running = fleet.publish("a", "test.sleep", "60")
    fleet.wait_state(running, "a", "running")
    said = fleet.cli("key", "revoke", "a", "-y")
    assert said.code == 0, said
    assert fleet.states(running) == {"a": "revoked"}
    assert fleet.cli("*", "test.ping", "--out", "json").json() == {"b": True}
    refused = fleet.cli("a", "test.ping")
    assert (refused.code, refused.out) == (3, "")
    fleet.wait_log("a", "its key is revoked")
    assert fleet.up() == {"b"}
    again = fleet.cli("key", "accept", "a", "-y")
    assert again.code != 0
    assert "revoked" in again.err
    assert fleet.cli("key", "delete", "a", "-y").code == 0
    fleet.daemons["a"].stop()
    fleet.restart_minion("a")
    fleet.wait_key("a", "pending")
    assert fleet.cli("key", "accept", "a", "-y").code == 0
    fleet.wait_up("a")


def test_the_cli_ends_when_the_key_of_the_last_open_minion_is_revoked(fleet: Fleet) -> None:
    fleet.start_master()
    fleet.join("a")
    with fleet.start_cli("a", "test.sleep", "60") as waiting:
        wait_until(lambda: fleet.running_jobs("a"), "the job runs")
        assert fleet.cli("key", "revoke", "a", "-y").code == 0
        out, err = waiting.communicate(timeout=60)
    assert (waiting.returncode, out) == (5, ""), err
    assert "revoked" in err


def test_a_minion_of_another_fleet_is_not_answered(fleet: Fleet) -> None:
    fleet.start_master()
    fleet.start_master("other")
    fleet.start_minion("a", fleet=fleet.fleet_id("other"))
    fleet.wait_log("a", "backoff")
    assert fleet.keys() == {}


def test_a_token_of_another_fleet_than_the_pinned_one_stops_the_minion(fleet: Fleet) -> None:
    fleet.start_master()
    fleet.start_master("other")
    folder = fleet.folder / "a"
    options = {"root_dir": str(folder / "root"), "id": "a", "user": ME, "fleet": fleet.fleet_id("other")}
    write_config(folder, "minion", options | {"join_token": fleet.token()})
    said = run_daemon("saltlite-minion", folder)
    assert said.code == 2
    assert "belongs to" in said.err
    assert len(said.err.splitlines()) == 1, said.err


def test_a_minion_with_capitals_works_and_one_that_differs_by_case_only_is_a_conflict(fleet: Fleet) -> None:
    fleet.start_master()
    fleet.join("Web-A1")
    assert fleet.cli("Web-*", "test.ping", "--out", "json").json() == {"Web-A1": True}
    assert fleet.cli("-L", "Web-A1", "grains.get", "id", "--out", "json").json() == {"Web-A1": "Web-A1"}
    assert fleet.cli("web-a1", "test.ping").code == 3, "targets are compared with their case"
    fleet.start_minion("web-a1", join_token=fleet.token())
    fleet.wait_key("web-a1", "conflict")
    refused = fleet.cli("key", "accept", "web-a1", "-y")
    assert (refused.code, "Web-A1 has an accepted key already" in refused.err) == (6, True)
    assert fleet.keys() == {"Web-A1": ["accepted"], "web-a1": ["conflict"]}
