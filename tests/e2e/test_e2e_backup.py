"""The move of a master to another host, as `saltlite help operations` describes it: no minion and no job is lost."""

from __future__ import annotations

import shutil

import pytest

from tests.support.fleet import Fleet, wait_until

pytestmark = pytest.mark.e2e


def test_after_a_move_the_minions_are_back_and_no_job_is_lost(fleet: Fleet) -> None:
    fleet.start_master()
    fleet.join("a", "b")
    ended = fleet.publish("a", "test.ping")
    fleet.wait_state(ended, "a", "returned")
    fleet.daemons["b"].stop()
    wait_until(lambda: fleet.up() == {"a"}, "b is away")
    waits = fleet.publish("b", "test.echo", "delivered after the move")
    runs = fleet.publish("a", "cmd.run", f"while [ ! -e '{fleet.folder}/go' ]; do sleep 0.1; done; echo done")
    fleet.wait_state(runs, "a", "running")
    token = fleet.token("--uses", "1")
    before = fleet.keys(), fleet.fleet_id()

    online = fleet.cli("backup", str(fleet.folder / "online"))
    assert (online.code, "plain text" in online.err) == (0, True)
    passphrase = fleet.folder / "passphrase"
    passphrase.write_text("correct horse battery\n")
    fleet.daemons["master"].stop()
    backup = str(fleet.folder / "backup")
    assert fleet.cli("backup", backup, "--passphrase-file", str(passphrase)).code == 0
    shutil.rmtree(fleet.folder / "master")
    (fleet.folder / "go").touch()  # the job ends while there is no master

    restored = fleet.cli("restore", backup, "--passphrase-file", str(passphrase))
    assert restored.code == 0, restored.err
    (fleet.folder / "master").chmod(0o755)
    fleet.restart_master()
    assert (fleet.keys(), fleet.fleet_id()) == before
    fleet.wait_up("a")
    fleet.wait_state(runs, "a", "returned")
    fleet.restart_minion("b")
    fleet.wait_state(waits, "b", "returned")
    shown = {jid: fleet.cli("job", "show", jid, "--returns", "--out", "json").json() for jid in (ended, runs, waits)}
    assert "True" in str(shown[ended])
    assert "done" in str(shown[runs])
    assert "delivered after the move" in str(shown[waits])
    assert fleet.cli("*", "test.ping", "--out", "json").json() == {"a": True, "b": True}

    # The join token that was made before the move still works, once.
    fleet.start_minion("c", join_token=token)
    fleet.wait_up("a", "b", "c")


def test_a_backup_of_a_running_master_is_as_good(fleet: Fleet) -> None:
    fleet.start_master()
    fleet.join("a")
    jid = fleet.publish("a", "test.ping")
    fleet.wait_state(jid, "a", "returned")
    assert fleet.cli("backup", str(fleet.folder / "backup")).code == 0
    refused = fleet.cli("restore", str(fleet.folder / "backup"), "--replace")
    assert (refused.code, "stop it first" in refused.err) == (6, True)
    later = fleet.publish("a", "test.ping")
    fleet.wait_state(later, "a", "returned")
    fleet.daemons["master"].kill_whole()
    assert fleet.cli("restore", str(fleet.folder / "backup"), "--replace").code == 0
    fleet.restart_master()
    fleet.wait_up("a")
    assert fleet.states(jid) == {"a": "returned"}
    assert "there is no job" in fleet.cli("job", "show", later).err  # it was published after the backup
    assert fleet.cli("a", "test.ping", "--out", "json").json() == {"a": True}
