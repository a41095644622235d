"""What a minion refuses to install, and that nothing is left or changed then; and how a trial of a version ends."""

from __future__ import annotations

import errno
import io
import json
import os
import pwd
import sys
import tarfile
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from saltlite import __version__
from saltlite.config.minion import MinionConfig
from saltlite.errors import CommandExecutionError, StartupError
from saltlite.files import upgrade
from saltlite.files.upgrade import VersionInstaller
from saltlite.master.processes.identity import ed25519_public
from saltlite.minion.processes import start
from saltlite.model.files import FileAddress
from saltlite.model.keys import fingerprint
from saltlite.platform import versions
from saltlite.wire.signatures import BUNDLE_DOMAIN, sign

SEED, OTHER = b"s" * 32, b"o" * 32
NEXT = "99.1"


def a_bundle() -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name in ("wheels/pip-1-py3-none-any.whl", "wheels/../../escaped.whl", "/etc/escaped.whl"):
            entry = tarfile.TarInfo(name)
            entry.size = 4
            archive.addfile(entry, io.BytesIO(b"none"))
    return packed.getvalue()


class Master:
    """Serves one bundle."""

    def __init__(self, bundle: bytes | None) -> None:
        self.bundle = bundle

    def fetch(self, address: FileAddress, dest: str) -> bool:
        if self.bundle is not None:
            Path(dest).write_bytes(self.bundle)
        return self.bundle is not None


def installed(
    folder: Path, *, served: bytes | None = b"", version: str = NEXT, seed: bytes = SEED, **changes: Any
) -> Any:
    """What a minion of the fleet of SEED does with a bundle that the holder of `seed` has signed."""
    for name in ("pki", "data"):
        (folder / name).mkdir(exist_ok=True)
    pin = folder / "pki/fleet.pin"
    pin.touch(0o600)
    pin.write_text(f"{fingerprint(ed25519_public(SEED))}\n")
    bundle = a_bundle()
    manifest = json.dumps({"version": version, "sha256": sha256(bundle).hexdigest(), "size": len(bundle)})
    signature = sign(seed, BUNDLE_DOMAIN, manifest.encode()).hex()
    given = {"manifest": manifest, "key": ed25519_public(seed).hex(), "signature": signature} | changes
    source = Master(bundle if served == b"" else served)
    return VersionInstaller(source, str(folder / "data"), str(folder / "pki")).install("area", **given, within_s=5)


def full(_path: str) -> os.statvfs_result:
    return os.statvfs_result((4096, 4096, 100, 9, 9, 100, 100, 100, 0, 255))


REFUSALS: list[tuple[dict[str, Any], str]] = [
    ({"seed": OTHER}, "signed by another fleet than that of this minion"),
    ({"manifest": "{}"}, "The manifest was altered: the key of the fleet did not sign it."),
    ({"signature": "00" * 64}, "The manifest was altered"),
    ({"key": "zz"}, "The bundle cannot be verified"),
    (
        {"served": a_bundle()[:-512] + b"x" * 512},
        "The bundle was altered: it is not the one that the",
    ),
    ({"served": None}, "The bundle is gone from the master: start the upgrade again."),
    ({"version": "0.0.1"}, f"This minion has saltlite {__version__}, and the bundle is of the older 0.0.1."),
    ({"version": f"{__version__}rc1"}, f"The bundle is of '{__version__}rc1', which is no release of saltlite."),
    ({"version": "../99.1"}, "The bundle is of '../99.1', which is no release of saltlite."),
    ({}, "Installing the new version failed: "),
]


@pytest.mark.parametrize(("changes", "sentence"), REFUSALS, ids=[row[1] for row in REFUSALS])
def test_a_refusal_is_a_sentence_and_leaves_nothing(tmp_path: Path, changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(CommandExecutionError) as raised:
        installed(tmp_path, **changes)
    assert sentence in str(raised.value)
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_file()) == ["fleet.pin"]
    assert not list(tmp_path.glob("versions/*"))


def test_a_full_disk_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "statvfs", full)
    monkeypatch.setattr(upgrade, "ROOM", 100)
    with pytest.raises(CommandExecutionError, match=r"versions needs \d+ MiB of free space, and has 0\."):
        installed(tmp_path)
    assert not list(tmp_path.glob("versions/*"))


def test_a_folder_of_another_user_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "versions").mkdir()
    (tmp_path / "versions").chmod(0o777)
    with pytest.raises(CommandExecutionError, match="others may write to it"):
        installed(tmp_path)


def test_the_version_that_runs_is_not_installed_again(tmp_path: Path) -> None:
    done = installed(tmp_path, version=__version__)
    assert done == {"was": __version__, "version": __version__, "state": "current"}


# -- the trial


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The command lines of the programs that this process would have become."""
    found: list[list[str]] = []
    monkeypatch.setattr(os, "execv", lambda _path, argv: found.append(argv))
    return found


def no_room(*_args: object, **_more: object) -> int:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def chosen(folder: Path, **changes: Any) -> str:
    data = folder / "data"
    data.mkdir(exist_ok=True)
    trial = {"tree": "99.1-x", "version": NEXT, "begun": False}
    state = {"base": __version__, "command": [], "current": "", "trial": trial, "last": None, **changes}
    (data / versions.FILE).write_text(json.dumps(state))
    return str(data)


def test_a_data_dir_that_others_may_write_to_chooses_no_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, started: list[list[str]]
) -> None:
    def refuse(path: str, _uid: int, _gid: int) -> None:
        raise StartupError(path)

    monkeypatch.setattr(start, "private_dir", refuse)
    config = MinionConfig(data_dir=chosen(tmp_path), user=pwd.getpwuid(os.geteuid()).pw_name)
    with pytest.raises(StartupError):
        start.run_minion(config, {})
    assert started == []


def test_a_trial_begins_once_and_the_second_start_goes_back(tmp_path: Path, started: list[list[str]]) -> None:
    data = chosen(tmp_path)
    versions.enter(data)
    place = tmp_path / "versions/99.1-x/bin"
    assert started == [[str(place / "python"), str(place / "saltlite-minion"), *sys.argv[1:]]]
    begun = versions.read_state(data)
    assert begun is not None
    assert begun["trial"]["begun"] is True
    versions.enter(data)
    assert len(started) == 1
    state = versions.read_state(data)
    assert state is not None
    assert (state["trial"], state["current"]) == (None, "")
    assert (state["last"]["outcome"], state["last"]["reason"]) == ("rolled back", versions.ENDED)


@pytest.mark.parametrize(
    "changes",
    [{}, {"trial": {"tree": "99.1-x", "version": NEXT, "begun": True}}, {"base": "0.0.1"}],
    ids=["begins", "goes back", "package"],
)
def test_a_full_disk_keeps_no_minion_from_starting(
    tmp_path: Path,
    started: list[list[str]],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    changes: dict[str, Any],
) -> None:
    data = chosen(tmp_path, **changes)
    before = versions.read_state(data)
    for name in ("open", "unlink"):
        monkeypatch.setattr(os, name, no_room)
    versions.enter(data)
    assert started == []
    assert "No space left on device" in caplog.text
    assert versions.read_state(data) == before


def test_a_trial_that_no_process_watches_is_rolled_back_by_the_new_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial = {"tree": "99.1-x", "version": NEXT, "begun": True, "within": 5}
    data = chosen(tmp_path, trial=trial, command=["saltlite-minion", "-c", "etc"])
    assert (versions.trial_s(data), versions.give_up_own(data)) == (None, False), "the base is in no trial"
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "versions/99.1-x"))
    assert versions.trial_s(data) == 5.0
    with monkeypatch.context() as full_disk:
        full_disk.setattr(os, "open", no_room)
        versions.confirm(data)
        assert versions.give_up_own(data), "the base finds a trial that has begun"
    assert versions.give_up_own(data)
    state = versions.read_state(data)
    assert state is not None
    assert (state["trial"], state["current"], state["last"]["outcome"]) == (None, "", "rolled back")
    assert state["last"]["reason"] == "it was not connected within 5s"
    assert not versions.give_up_own(data)
    became: list[list[str]] = []
    monkeypatch.setattr(os, "closerange", lambda _first, _end: None)
    monkeypatch.setattr(os, "waitpid", lambda _pid, _options: (0, 0))
    monkeypatch.setattr(os, "execvp", lambda _file, argv: became.append(argv))
    versions.start_base(data)
    assert became == [["saltlite-minion", "-c", "etc"]]


def test_a_trial_goes_back_to_the_upgrade_before_it(tmp_path: Path, started: list[list[str]]) -> None:
    data = chosen(tmp_path, current="98-y", trial={"tree": "99.1-x", "version": NEXT, "begun": True})
    versions.enter(data)
    assert "versions/98-y/bin/saltlite-minion" in started[0][1]


def test_a_new_version_confirms_itself_when_it_has_a_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = chosen(tmp_path, trial={"tree": "99.1-x", "version": NEXT, "begun": True})
    versions.confirm(data)
    before = versions.read_state(data)
    assert before is not None
    assert before["trial"] is not None, "the base confirms nothing"
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "versions/99.1-x"))
    versions.confirm(data)
    state = versions.read_state(data)
    assert state is not None
    assert (state["current"], state["trial"], state["last"]["outcome"]) == ("99.1-x", None, "upgraded")


def test_a_package_of_another_version_takes_over(tmp_path: Path, started: list[list[str]]) -> None:
    data = chosen(tmp_path, base="0.0.1", current="99.1-x", trial=None)
    versions.enter(data)
    assert started == []
    assert versions.read_state(data) is None


def test_a_version_that_cannot_be_started_is_gone_back_from(tmp_path: Path) -> None:
    data = chosen(tmp_path)
    versions.enter(data)
    state = versions.read_state(data)
    assert state is not None
    assert state["last"]["reason"] == "it cannot be started: No such file or directory"
    versions.enter(data)  # and it is the end of it


DAMAGED: list[dict[str, Any]] = [
    *({"current": tree} for tree in ("../../evil", "..", 7)),
    *({"trial": trial} for trial in (7, {"tree": "/evil"}, {"begun": True})),
]


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"base": 1}']
    + [json.dumps({"base": __version__, "current": "", "trial": None, **changes}) for changes in DAMAGED],
)
def test_a_damaged_file_is_no_choice(tmp_path: Path, started: list[list[str]], text: str) -> None:
    (tmp_path / versions.FILE).write_text(text)
    versions.enter(str(tmp_path))
    assert started == []
