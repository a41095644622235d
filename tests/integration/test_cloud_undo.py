"""What is taken back when a create fails, by this command or by a later one: our machine, and no other of its name."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from saltlite.cloud.program import app, lifecycle
from saltlite.cloud.program.lifecycle import CreateFailed, Creation, destroy
from saltlite.cloud.program.program import Program
from saltlite.cloud.rules.flow import Unfinished
from saltlite.errors import SaltliteError
from tests.support.fleet import wait_until

DRIVER = """
import json, os
from saltlite.cloud.api import driver as events
from saltlite.cloud.api.exceptions import SaltCloudExecutionFailure

def __virtual__():
    return "told"

def _path():
    return os.path.join(__opts__["providers"]["lab"]["told"]["folder"], "machines.json")

def list_nodes(call=None):
    with open(_path()) as file:
        return json.load(file)

def _write(machines):
    with open(_path(), "w") as file:
        json.dump(machines, file)

def create(vm_):
    names = {"vm_": vm_, "write": _write, "nodes": list_nodes, "Failure": SaltCloudExecutionFailure}
    exec(vm_["does"], {**vars(events), **names})
    return list_nodes()[vm_["name"]]

def destroy(name, call=None):
    machines = list_nodes()
    del machines[name]
    _write(machines)
    return {"destroyed": name}
"""
SAYS_CREATING = "tell('creating', 'starting create', vm_);"
SAYS_REQUESTING = f"{SAYS_CREATING} tell('requesting', 'requesting instance', vm_);"
NAMESAKE = "write({**nodes(), 'web1': {'id': 'of-somebody', 'state': 'running'}});"
OURS = "write({**nodes(), 'web1': {'id': 'ours', 'state': 'running'}}); made(vm_, 'ours');"
FAILS = "raise Failure('it failed')"
BREAKS = """
with asking_for(vm_):
    error = Failure('no answer'); error.unclear = True; raise error
"""
REFUSES = f"""
{NAMESAKE}
with asking_for(vm_):
    raise Failure('it was refused')
"""


class Client:
    """The master: it has these keys, and keeps what it was asked."""

    def __init__(self) -> None:
        self.keys: list[dict[str, Any]] = []
        self.asked: list[str] = []

    def close(self) -> None:
        pass

    def call(self, verb: str, **fields: Any) -> dict[str, Any]:
        self.asked.append(verb)
        if verb == "token_create":
            return {"token": f"slj1.{'A' * 40}.abcd2345.{'b' * 32}"}
        if verb == "key_change":
            self.keys = [row for row in self.keys if row["fingerprint"] not in fields["fingerprints"]]
        return {"keys": self.keys}


class Lab:
    """A provider whose driver does what its profile says, in this process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        drivers = folder / "drivers"
        drivers.mkdir(mode=0o755)
        (drivers / "told.py").write_text(DRIVER)
        self._write("master", {"root_dir": str(folder / "root")})
        self._write("cloud", {"root_dir": str(folder / "root"), "cloud_dirs": [str(drivers)]})
        self._write("cloud.providers", {"lab": {"driver": "told", "folder": str(folder)}})
        self.machines()
        self.client = Client()
        self.said: list[str] = []

    def _write(self, name: str, options: dict[str, Any]) -> None:
        (self.folder / name).write_text("".join(f"{key}: {json.dumps(value)}\n" for key, value in options.items()))

    def machines(self, **ids: str) -> None:
        """The provider has these."""
        rows = {name: {"id": identity, "state": "running"} for name, identity in ids.items()}
        (self.folder / "machines.json").write_text(json.dumps(rows))

    def there(self) -> dict[str, str]:
        """Name -> id of what the provider has."""
        return {name: one["id"] for name, one in json.loads((self.folder / "machines.json").read_text()).items()}

    def program(self, does: str = "", **profile: Any) -> Program:
        given = {"provider": "lab", "does": does, "deploy": False, "minion": {"master": "m"}, **profile}
        self._write("cloud.profiles", {"small": given})
        client: Any = self.client
        return app.open_program(str(self.folder), client, lambda _name, text: self.said.append(text))

    def make(self, does: str, **profile: Any) -> Any:
        program = self.program(does, **profile)
        return Creation(program, program.machine("web1", program.catalogue.profile("small"))).make()

    def left(self) -> list[Unfinished]:
        """What is unfinished, although this process, which began it, is alive."""
        return [one for one, _alive in self.program().journal.everything()]

    def die_after(self, does: str, **profile: Any) -> None:
        """A command dies right there."""
        child = os.fork()
        if child == 0:
            self.make(f"{does}\nimport os; os._exit(9)", **profile)
        os.waitpid(child, 0)


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    monkeypatch.setattr(lifecycle, "LOOK_AGAIN_S", 0.01)
    monkeypatch.setattr(lifecycle, "LISTED_WITHIN_S", 0.2)
    return Lab(tmp_path)


@pytest.mark.parametrize(
    ("does", "stays"),
    [
        (f"{SAYS_CREATING} {NAMESAKE} {FAILS}", {"web1": "of-somebody"}),
        (f"{SAYS_REQUESTING}{REFUSES}", {"web1": "of-somebody"}),
        (f"{SAYS_REQUESTING} {OURS} {FAILS}", {}),
        (f"{SAYS_REQUESTING} {OURS} write({{'x': {{'id': 'ours'}}}}); {FAILS}", {}),
        (f"{SAYS_REQUESTING} {OURS} {NAMESAKE} {FAILS}", {"web1": "of-somebody"}),
        (f"{OURS} raise KeyError('a driver that fires nothing')", {}),
        (f"write({{'web1': {{'id': 'ours'}}}}); {FAILS}", {}),
    ],
)
def test_what_a_failed_create_destroys_is_its_own_machine(lab: Lab, does: str, stays: dict[str, str]) -> None:
    with pytest.raises(CreateFailed):
        lab.make(does)
    assert lab.there() == stays


def test_a_machine_that_is_listed_late_is_destroyed(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lifecycle, "LISTED_WITHIN_S", 10.0)
    looks: list[str] = []
    program = lab.program(f"{SAYS_REQUESTING}{BREAKS}")
    making = Creation(program, program.machine("web1", program.catalogue.profile("small")))

    def appear(_name: str, text: str) -> None:
        looks.append(text)
        if "is not listed yet" in text:
            lab.machines(web1="ours")

    monkeypatch.setattr(program, "_say", appear)
    with pytest.raises(CreateFailed):
        making.make()
    assert any("is not listed yet" in text for text in looks)
    assert (lab.there(), lab.left()) == ({}, [])


def test_a_machine_that_may_be_made_stays_listed_as_unfinished(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CreateFailed, match="is not listed yet"):
        lab.make(f"{SAYS_REQUESTING}{BREAKS}")
    (one,) = lab.left()
    with pytest.raises(CreateFailed, match="is working on"):
        lab.make(OURS)
    monkeypatch.setattr(lifecycle, "LISTED_WITHIN_S", -1.0)
    monkeypatch.setattr(lifecycle, "CERTAIN_AFTER_S", -1.0)
    assert lifecycle.clean(lab.program(), one) == "the half-made machine is rolled back"
    assert lab.left() == []


def test_a_name_whose_last_machine_is_half_made_is_refused_until_that_is_taken_back(lab: Lab) -> None:
    lab.die_after(f"{SAYS_REQUESTING} {OURS}")
    with pytest.raises(CreateFailed, match="cloud --clean web1"):
        lab.make(OURS)
    (one,) = lab.program().journal.unfinished()
    lifecycle.clean(lab.program(), one)
    assert lab.there() == {}
    assert lab.make(OURS)["id"] == "ours"


def test_clean_destroys_no_machine_that_has_the_name_since(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.die_after(f"{SAYS_REQUESTING} {OURS}")
    lab.machines(web1="healthy")
    (one,) = lab.program().journal.unfinished()
    assert one.create.identity == "ours"
    monkeypatch.setattr(lifecycle, "LISTED_WITHIN_S", -1.0)
    monkeypatch.setattr(lifecycle, "CERTAIN_AFTER_S", -1.0)
    lifecycle.clean(lab.program(), one)
    assert lab.there() == {"web1": "healthy"}


def test_a_destroy_closes_what_a_dead_command_has_left_of_the_machine(lab: Lab) -> None:
    lab.die_after(f"{SAYS_REQUESTING} {OURS}")
    program = lab.program()
    destroy(program, program.driver(program.catalogue.provider("lab")), "web1")
    assert program.journal.everything() == []


def test_clean_of_a_destroy_leaves_the_machine_that_has_the_name_since(lab: Lab) -> None:
    program = lab.program()
    program.journal.begin("destroy", "1", name="web1", provider="lab:told", minion_id="web1", id="old")
    lab.machines(web1="new")
    lab.client.keys = [{"id": "web1", "fingerprint": "f", "state": "accepted", "how": "by hand"}]
    (one,) = lab.left()
    assert "another (new)" in lifecycle.clean(program, one)
    assert (lab.there(), len(lab.client.keys), lab.left()) == ({"web1": "new"}, 1, [])


def test_a_full_disk_on_the_master_does_not_keep_a_create_from_being_taken_back(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = lab.program(f"{SAYS_REQUESTING} {OURS} {FAILS}")
    write: Callable[..., None] = program.journal.write

    def fails(run: str, what: str, **fields: Any) -> None:
        if what in ("failed", "undone", "over"):
            raise SaltliteError("the journal cannot be written")
        write(run, what, **fields)

    monkeypatch.setattr(program.journal, "write", fails)
    with pytest.raises(CreateFailed, match=r"it failed\n.*the journal cannot be written"):
        Creation(program, program.machine("web1", program.catalogue.profile("small"))).make()
    assert lab.there() == {}


def test_the_key_of_a_minion_that_only_has_the_name_stays_and_is_told_of(lab: Lab) -> None:
    lab.machines(web1="found")
    lab.client.keys = [{"id": "web1", "fingerprint": "f", "state": "accepted", "how": "by hand"}]
    program = lab.program()
    destroy(program, program.driver(program.catalogue.provider("lab")), "web1")
    assert (lab.there(), len(lab.client.keys)) == ({}, 1)
    assert "a key of web1 stays" in lab.said[-1]


def test_a_machine_that_was_kept_takes_its_key_with_it_when_it_is_destroyed(lab: Lab) -> None:
    with pytest.raises(CreateFailed, match="the machine is kept"):
        lab.make(f"{SAYS_REQUESTING} {OURS} {FAILS}", deploy=True, destroy_on_failure=False)
    lab.client.keys = [{"id": "web1", "fingerprint": "f", "state": "accepted", "how": "by its token"}]
    program = lab.program()
    destroy(program, program.driver(program.catalogue.provider("lab")), "web1")
    assert (lab.there(), lab.client.keys) == ({}, [])


def test_a_destroy_deletes_the_key_that_joined_by_the_token_of_a_dead_command(lab: Lab) -> None:
    lab.die_after(f"{SAYS_REQUESTING} {OURS}", deploy=True)
    (one,) = lab.program().journal.unfinished()
    how = f"join token {one.token_id} of an operator"
    lab.client.keys = [
        {"id": "web1", "fingerprint": "ours", "state": "accepted", "how": how, "first_seen": 0},
        {"id": "web1", "fingerprint": "other", "state": "accepted", "how": "by hand", "first_seen": 0},
    ]
    program = lab.program()
    destroy(program, program.driver(program.catalogue.provider("lab")), "web1")
    assert [row["fingerprint"] for row in lab.client.keys] == ["other"]
    assert program.journal.everything() == []


def test_a_listing_that_misses_a_machine_does_not_forget_which_minion_is_on_it(lab: Lab) -> None:
    lab.machines(web1="ours")
    program = lab.program()
    program.cache.put("lab:told", "web1", {"id": "ours"}, minion_id="other.example", id="ours")
    program.cache.put_all("lab:told", {})
    lab.client.keys = [{"id": "other.example", "fingerprint": "f", "state": "accepted", "how": "by its token"}]
    destroy(program, program.driver(program.catalogue.provider("lab")), "web1")
    assert lab.client.keys == []


def test_a_setting_of_the_deployment_that_is_wrong_is_said_before_anything_is_made(lab: Lab) -> None:
    with pytest.raises(SaltliteError, match="install"):
        lab.make(OURS, deploy=True, install="by-magic")
    assert (lab.there(), lab.client.asked, lab.left()) == ({}, [], [])


def test_a_driver_refuses_settings_before_there_is_a_token(lab: Lab) -> None:
    driver = lab.folder / "drivers/told.py"
    driver.write_text(
        f"{DRIVER}\ndef validate(vm_):\n"
        "    if vm_.get('size') == 'huge':\n        raise SaltCloudExecutionFailure('there is no size huge')\n"
    )
    with pytest.raises(SaltliteError, match="there is no size huge"):
        lab.make(OURS, size="huge", deploy=True)
    assert lab.client.asked == []
    assert lab.left() == []
    assert lab.there() == {}
    assert lab.make(OURS, size="small")["id"] == "ours"


def test_a_full_listing_takes_what_its_driver_omits_from_the_short_one(lab: Lab) -> None:
    driver = lab.folder / "drivers/told.py"
    driver.write_text(
        f"{DRIVER}\ndef list_nodes_full(call=None):\n"
        "    return {name: {'id': None, 'cpus': 2} for name in list_nodes()}\n"
    )
    lab.machines(web1="i-1")
    program = lab.program()
    full = program.driver(program.catalogue.provider("lab")).machines_full()
    # Neither says what its image is, so nothing is made up.
    assert full == {"web1": {"id": "", "cpus": 2, "state": "running"}}


def test_a_child_whose_parent_was_killed_rolls_back_and_is_no_defect(
    lab: Lab, capfd: pytest.CaptureFixture[str]
) -> None:
    ready, go = os.pipe(), os.pipe()
    goes_on = f"import os; os.write({ready[1]}, b'x'); os.read({go[0]}, 1); cloud().progress('web1', 'goes on')"
    parent = os.fork()
    if parent == 0:
        program = lab.program(f"{OURS} from saltlite.cloud.api.port import cloud; {goes_on}")
        vm_ = program.machine("web1", program.catalogue.profile("small"))
        app.at_once(["web1"], lambda _name: Creation(program, vm_).make(), program, 2)
        os._exit(0)
    os.read(ready[0], 1)
    os.kill(parent, signal.SIGKILL)
    os.waitpid(parent, 0)
    os.write(go[1], b"g")
    wait_until(lambda: lab.left() == [], "the child has rolled back")
    assert lab.there() == {}
    assert "defect" not in capfd.readouterr().err
