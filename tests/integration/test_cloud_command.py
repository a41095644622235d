"""The command without a master: what it lists, asks and refuses."""

from __future__ import annotations

import io
import json
import os
import pty
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from saltlite.errors import CommandExecutionError, SaltInvocationError
from saltlite.loader.index import build_index
from saltlite.loader.loader import Loader
from saltlite.loader.search_path import search_layers
from tests.support.cloud import DRIVER, IMAGE, PROVIDER, run_cloud
from tests.support.fleet import Said


class Lab:
    """A configuration folder with the scripted driver, and no master."""

    def __init__(self, folder: Path, capture: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self._capture = capture
        (folder / "drivers").mkdir(mode=0o755)
        (folder / "machines").mkdir()
        shutil.copy(DRIVER, folder / "drivers")
        self.write("master", {"root_dir": str(folder / "root")})
        self.options()
        self.provider()
        self.profile()

    def write(self, name: str, options: dict[str, Any]) -> None:
        text = "".join(f"{key}: {json.dumps(value)}\n" for key, value in options.items())
        (self.folder / name).write_text(text)

    def options(self, **more: Any) -> None:
        self.write(
            "cloud", {"root_dir": str(self.folder / "root"), "cloud_dirs": [str(self.folder / "drivers")], **more}
        )

    def provider(self, **more: Any) -> None:
        given = {"driver": "scripted", "folder": str(self.folder / "machines"), **more}
        self.write("cloud.providers", {PROVIDER: {key: one for key, one in given.items() if one is not None}})

    def profile(self, **more: Any) -> None:
        given = {"provider": PROVIDER, "image": IMAGE, "size": "small", "minion": {"master": "m"}, **more}
        self.write("cloud.profiles", {"small": {key: one for key, one in given.items() if one is not None}})

    def machines(self, **rows: dict[str, Any]) -> None:
        (self.folder / "machines/machines.json").write_text(json.dumps(rows))

    def run(self, *words: str) -> Said:
        """`saltlite-cloud words`, in this process."""
        return run_cloud(self._capture, "-c", str(self.folder), "--out", "json", *words)

    def start(self, entry: str, *words: str, **streams: Any) -> subprocess.Popen[str]:
        """A command in a process of its own."""
        program = f"import sys; from saltlite.cli.main import {entry}; sys.exit({entry}())"
        argv = [sys.executable, "-c", program, "-c", str(self.folder), *words]
        return subprocess.Popen(argv, text=True, **streams)


@pytest.fixture
def lab(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Lab:
    return Lab(tmp_path, capfd)


def sentence(said: Said) -> str:
    """What stderr says, when it is no traceback."""
    assert "Traceback" not in said.err
    return said.err


def test_a_listing_takes_no_names_and_says_what_does(lab: Lab) -> None:
    said = lab.run("-F", "web1")
    assert said.code == 2
    assert "--full-query takes no words, and has 'web1': `--provider NAME` asks one provider" in said.err


def test_providers_and_profiles_are_listed_without_asking_anybody(lab: Lab) -> None:
    lab.provider(trouble="down")
    listed = lab.run("--list-providers").json()
    assert listed == {PROVIDER: {"scripted": {"written": f"{lab.folder}/cloud.providers:1"}}}
    lab.profile(ssh_password="hidden-password")
    listed = lab.run("--list-profiles", "all").json()
    assert listed[PROVIDER]["scripted"]["small"]["size"] == "small"
    assert "hidden-password" not in str(listed)


def test_a_required_setting_that_is_missing_is_named_with_its_file(lab: Lab) -> None:
    lab.provider(folder=None)
    said = lab.run("-Q")
    assert said.code == 2
    assert f"{lab.folder}/cloud.providers:1: provider {PROVIDER} lacks the setting 'folder'" in sentence(said)


def test_a_setting_of_a_profile_that_is_missing_is_named_with_its_file(lab: Lab) -> None:
    lab.profile(image=None)
    said = lab.run("-p", "small", "--no-deploy", "web1")
    assert said.code == 4
    assert f"{lab.folder}/cloud.profiles:1: profile small lacks the setting 'image'" in sentence(said)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("-p", "larg", "web1"), 2, "there is no profile 'larg': there are small"),
        (("-p", "small"), 2, "name the machines"),
        (("-p", "small", "a/b"), 2, "is not a name for a machine"),
        (("-p", "small", "a", "a"), 2, "is to be made twice"),
        (("-a", "show_instance", "nobody"), 4, "no provider has a machine nobody"),
        (("-d", "nobody", "-y"), 4, "no provider has a machine nobody"),
        (("-a", "show_image", "web1"), 4, "The show_image function must be called with -f or --function."),
        (("-f", "show_instance", PROVIDER), 4, "The show_instance action must be called with -a or --action."),
        (("-a", "create", "web1", "-y"), 4, "is not an action"),
        (("-a", "nothing_such", "web1", "-y"), 4, "has no nothing_such; it has"),
        (("-a", "show_instance", "web1", "a=1"), 4, "takes no settings"),
        (("-f", "show_image", "nobody"), 2, "there is no provider 'nobody'"),
        (("-Q", "-F"), 2, "say one of them"),
        (("web1",), 2, "say what to do"),
        (("-m", "/nowhere.map", "-y"), 2, "there is no such file"),
        (("--list-sizes", "nobody"), 2, "there is no provider 'nobody'"),
        (("--clean", "nobody"), 2, "nothing of nobody is unfinished"),
        (("-p", "small", "new1"), 7, "the master does not answer"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_sentence(lab: Lab, words: tuple[str, ...], code: int, said: str) -> None:
    lab.machines(web1={"state": "running"})
    found = lab.run(*words)
    assert (found.code, said in sentence(found)) == (code, True), found
    assert len(found.err.splitlines()) < 4
    assert lab.run("--unfinished").out == "{}\n"


@pytest.mark.parametrize(
    ("trouble", "said"),
    [("nonsense", "a list in place of a map of machines"), ("down", "OSError: connection refused by api with ***")],
)
def test_a_provider_that_is_down_or_talks_nonsense_does_not_keep_others_from_being_listed(
    lab: Lab, trouble: str, said: str
) -> None:
    bad = {"driver": "scripted", "folder": "/nowhere", "trouble": trouble, "api_key": "planted-key"}
    good = {"driver": "scripted", "folder": str(lab.folder / "machines")}
    lab.write("cloud.providers", {"bad": bad, PROVIDER: good})
    lab.machines(web1={"state": "running"})
    found = lab.run("-Q")
    assert found.code == 4
    assert said in sentence(found)
    assert set(found.json()[PROVIDER]["scripted"]) == {"web1"}


def test_a_size_that_there_is_not_is_said_and_nothing_is_made(lab: Lab) -> None:
    lab.profile(size="enormous")
    said = lab.run("-p", "small", "--no-deploy", "web1")
    assert (said.code, "there is no size 'enormous'" in sentence(said)) == (4, True)
    assert lab.run("-Q").json()[PROVIDER]["scripted"] == {}


def test_a_driver_that_there_is_not_is_said_with_those_that_there_are(lab: Lab) -> None:
    lab.write("cloud.providers", {"lab": {"driver": "ec3"}})
    said = lab.run("-Q")
    assert said.code == 2
    assert f"{lab.folder}/cloud.providers:1: provider lab: there is no driver 'ec3', but" in sentence(said)


def test_machines_without_a_master_can_be_made_bare_and_somebody_is_told_that_nobody_is_told(lab: Lab) -> None:
    said = lab.run("-p", "small", "--no-deploy", "web1")
    assert (said.code, said.json()["web1"]["state"]) == (0, "running")
    assert said.err.count("No events are fired") == 1


def test_a_machine_whose_key_could_not_be_deleted_stays_listed(lab: Lab) -> None:
    lab.machines(web1={"state": "running"})
    command = lab.start("main_cloud", "-d", "web1", "-y", stderr=subprocess.PIPE)
    _out, err = command.communicate(timeout=60)
    assert (command.returncode, "the key of its minion may still be accepted" in err, "Traceback" in err) == (
        4, True, False,
    )  # fmt: skip
    listed = lab.run("--unfinished")
    assert (listed.code, listed.json()["web1"]["what"]) == (4, "destroy")
    assert lab.run("--clean", "-y").code == 4


def test_a_bare_machine_is_made_and_destroyed_without_a_master(lab: Lab) -> None:
    assert lab.run("-p", "small", "--no-deploy", "web1").code == 0
    said = lab.run("-d", "web1", "-y")
    assert (said.code, said.json()) == (0, {"web1": {"destroyed": "web1"}})
    assert lab.run("--unfinished").code == 0


def test_a_time_that_is_none_is_refused_before_anything_is_made(lab: Lab) -> None:
    lab.profile(wait_for_minion="soon")
    said = lab.run("-p", "small", "--no-deploy", "web1")
    assert (said.code, "'soon' is not a duration" in sentence(said)) == (2, True)
    assert lab.run("-Q").json()[PROVIDER]["scripted"] == {}


def test_a_file_with_secrets_that_everybody_can_read_is_told_of(lab: Lab) -> None:
    lab.provider(api_key="planted-key")
    path = lab.folder / "cloud.providers"
    path.chmod(0o644)
    said = lab.run("--list-providers")
    assert (said.code, f"chmod 600 {path}" in said.err) == (0, True)
    path.chmod(0o640)
    assert lab.run("--list-providers").err == ""


def test_a_name_at_two_providers_is_asked_about(lab: Lab) -> None:
    (lab.folder / "other").mkdir()
    (lab.folder / "other/machines.json").write_text('{"web1": {"state": "running"}}')
    lab.machines(web1={"state": "stopped"})
    here, there = (str(lab.folder / name) for name in ("machines", "other"))
    lab.write(
        "cloud.providers",
        {PROVIDER: {"driver": "scripted", "folder": here}, "two": {"driver": "scripted", "folder": there}},
    )
    said = lab.run("-a", "show_instance", "web1")
    assert (said.code, "say which one is meant with --provider" in sentence(said)) == (4, True)
    one = lab.run("-a", "show_instance", "web1", "--provider", "two").json()
    assert one == {"two": {"scripted": {"web1": {"state": "running"}}}}


def test_a_machine_that_is_gone_leaves_its_name(lab: Lab) -> None:
    lab.machines(web1={"state": "terminated"})
    assert lab.run("-Q").json()[PROVIDER]["scripted"] == {}
    assert lab.run("-p", "small", "--no-deploy", "web1").code == 0


def test_what_was_listed_last_can_be_seen_without_asking(lab: Lab) -> None:
    lab.machines(web1={"state": "running", "admin_password": "planted-password"})
    assert lab.run("-F").code == 0
    lab.provider(trouble="down")
    found = lab.run("-Q", "--cached")
    assert (found.code, list(found.json()[PROVIDER]["scripted"])) == (0, ["web1"])
    assert "planted-password" not in found.out
    files = list((lab.folder / "root/var/cache").rglob("*.json"))
    assert files
    assert not any("planted-password" in path.read_text() for path in files)
    assert all(path.stat().st_mode & 0o077 == 0 for path in files)


def test_an_explanation_shows_who_said_what_and_no_secret(lab: Lab) -> None:
    lab.options(defaults={"size": "tiny"}, script="mine.sh")
    lab.profile(ssh_password="planted-password")
    rows = lab.run("-p", "small", "--explain").json()
    assert rows["size"] == {
        "value": "small",
        "from": f"profile small ({lab.folder}/cloud.profiles:1)",
        "over": [f"global ({lab.folder}/cloud:3)"],
    }
    assert rows["script"]["from"] == f"global ({lab.folder}/cloud:4)"
    assert rows["ssh_password"]["value"] == "***"
    rows = lab.run("-p", "small", "--explain", "--no-deploy").json()
    assert rows["deploy"] == {"value": False, "from": "command line"}


def test_what_destroys_asks_a_person_and_does_nothing_without_a_yes(lab: Lab) -> None:
    lab.machines(web1={"state": "running"})
    said = lab.run("-d", "web1")
    assert (said.code, "add -y" in sentence(said)) == (2, True)
    ours, theirs = pty.openpty()
    try:
        os.write(ours, b"n\n")
        code = lab.start("main_cloud", "-d", "web1", stdin=theirs, stdout=theirs, stderr=theirs).wait(60)
        shown = os.read(ours, 65536).decode()
    finally:
        os.close(ours)
        os.close(theirs)
    assert (code, "will be destroyed: web1" in shown) == (6, True)
    assert lab.run("-Q").json()[PROVIDER]["scripted"].keys() == {"web1"}


@pytest.mark.parametrize("folder", ["drivers", "root/var/cache/saltlite/cloud"])
def test_folders_that_others_may_write_to_are_refused(lab: Lab, folder: str) -> None:
    (lab.folder / folder).mkdir(parents=True, exist_ok=True)
    (lab.folder / folder).chmod(0o777)
    said = lab.run("--list-providers")
    assert (said.code, f"{lab.folder}/{folder}" in sentence(said)) == (6, True)


def test_a_minion_that_could_not_find_its_master_is_never_begun(lab: Lab) -> None:
    lab.profile(minion=None)
    said = lab.run("-p", "small", "web1")
    assert (said.code, "write `minion: {master: ADDRESS}`" in sentence(said)) == (2, True)
    assert lab.run("-Q").json()[PROVIDER]["scripted"] == {}


def test_drivers_of_file_roots_are_synced_and_then_used(lab: Lab) -> None:
    shutil.move(lab.folder / "drivers/scripted.py", lab.folder / "scripted.py")
    assert "there is no driver 'scripted'" in sentence(lab.run("-Q"))
    (lab.folder / "srv/_clouds").mkdir(parents=True)
    shutil.move(lab.folder / "scripted.py", lab.folder / "srv/_clouds")
    roots = {"root_dir": str(lab.folder / "root"), "file_roots": {"base": [str(lab.folder / "srv")]}}
    lab.write("master", roots)
    synced = lab.start("main_run", "--out", "json", "saltutil.sync_clouds", stdout=subprocess.PIPE)
    assert (json.loads(synced.communicate(timeout=60)[0]), synced.returncode) == (["clouds.scripted"], 0)
    lab.machines(web1={"state": "running"})
    assert set(lab.run("-Q").json()[PROVIDER]["scripted"]) == {"web1"}


def test_clean_asks_before_it_destroys_and_has_a_row_for_every_run(lab: Lab) -> None:
    lab.machines(web1={"state": "running"})
    folder = lab.folder / "root/var/cache/saltlite/cloud"
    folder.mkdir(parents=True, mode=0o700)
    begun = {"what": "create", "name": "web1", "provider": f"{PROVIDER}:scripted", "profile": "small", "pid": 0}
    records = [one for run in ("r1", "r2") for one in ({"run": run, **begun}, {"run": run, **_BEGUN})]
    (folder / "journal").write_text("".join(f"{json.dumps(one)}\n" for one in records))
    listed = lab.run("--unfinished").json()
    assert set(listed) == {"web1 (r1)", "web1 (r2)"}
    said = lab.run("--clean")
    assert (said.code, "will be destroyed, if they exist: web1 (" in sentence(said)) == (2, True)
    assert set(json.loads((lab.folder / "machines/machines.json").read_text())) == {"web1"}
    assert lab.run("--clean", "-y").code == 0
    assert (lab.folder / "machines/machines.json").read_text() == "{}"
    assert lab.run("--unfinished").out == "{}\n"


_BEGUN = {"what": "begin", "step": "make-machine"}


def module_of(lab: Lab) -> Loader:
    opts = {"id": "m", "cloud.config_dir": str(lab.folder)}
    return Loader(build_index(search_layers(opts)), opts, {"kernel": "Linux"}, {})


def test_the_execution_module_asks_the_command(lab: Lab) -> None:
    lab.machines(web1={"id": "1", "image": "i", "size": "s", "state": "running"})
    functions = module_of(lab)
    assert functions["cloud.has_instance"]("web1") is True
    assert functions["cloud.get_instance"]("web2") is None
    assert functions["cloud.query"]()[PROVIDER]["scripted"]["web1"]["state"] == "running"
    assert IMAGE in functions["cloud.list_images"](PROVIDER)[PROVIDER]["scripted"]


def test_what_the_command_refuses_is_what_the_execution_module_says(lab: Lab) -> None:
    functions = module_of(lab)
    with pytest.raises(CommandExecutionError, match="there is no profile 'nosuch'"):
        functions["cloud.profile"]("nosuch", "web1")
    with pytest.raises(SaltInvocationError, match="'a b' cannot be the name of a setting"):
        functions["cloud.action"]("stop", "web1", **{"a b": "c"})
    with pytest.raises(CommandExecutionError, match="destroy is not an action here"):
        functions["cloud.action"]("destroy", "web1")
    with pytest.raises(CommandExecutionError, match="userdata_file"):
        functions["cloud.function"]("show_image", PROVIDER, userdata_file="/etc/shadow")
    with pytest.raises(SaltInvocationError, match="cannot be the name of a machine"):
        functions["cloud.action"]("stop", "web1,userdata_file=/etc/shadow")
    with pytest.raises(CommandExecutionError, match="--explain"):
        functions["cloud.destroy"]("--explain")


def test_without_providers_the_execution_module_says_which_file_lacks(lab: Lab) -> None:
    (lab.folder / "cloud.providers").unlink()
    with pytest.raises(KeyError, match=r"there is no .*/cloud.providers on this minion"):
        module_of(lab)["cloud.query"]


@pytest.mark.parametrize("words", [("web1", "--no-deploy"), ("--explain",)])
def test_a_mistyped_setting_is_refused_with_the_near_name(lab: Lab, words: tuple[str, ...]) -> None:
    lab.profile(ssh_usrname="me", troubel="x", of_my_own=1)
    said = lab.run("-p", "small", *words)
    assert said.code == 2
    assert f"{lab.folder}/cloud.profiles:1: there is no setting 'ssh_usrname': did you mean ssh_username?" in said.err
    assert "there is no setting 'troubel': did you mean trouble?" in sentence(said)
    assert "of_my_own" not in said.err
    assert lab.run("-Q").json()[PROVIDER]["scripted"] == {}
    lab.profile(szie="x", of_my_own=1)
    assert "there is no setting 'szie': did you mean size?" in sentence(lab.run("-p", "small", *words))
    lab.profile(of_my_own=1)
    lab.provider(foldr="x")
    assert "cloud.providers:1: there is no setting 'foldr': did you mean folder?" in lab.run("-p", "small", "a").err


MAP = """{% set small = ["web1", "web2"] %}
small:
{% for name in small %}
  - {{ name }}: {tags: {{ ["a", name] | json }}}
{% endfor %}
{% include "more.jinja" %}
"""


def test_a_map_may_be_a_template(lab: Lab) -> None:
    path = lab.folder / "shop.map"
    path.write_text(MAP)
    (lab.folder / "more.jinja").write_text("  - web3\n")
    said = lab.run("-m", str(path), "-y", "--no-deploy")
    assert said.code == 0, said
    made = said.json()
    assert {name: one["extra"]["tags"] for name, one in made.items()} == {
        "web1": ["a", "web1"], "web2": ["a", "web2"], "web3": None,
    }  # fmt: skip
    path.write_text("small:\n  - {{ nobody }}\n")
    assert f"{lab.folder}/shop.map:2: Jinja: 'nobody' is undefined" in lab.run("-m", str(path), "-y").err
    path.write_text('small:\n{% include "/etc/passwd" %}\n')
    assert "there is no file '/etc/passwd'" in lab.run("-m", str(path), "-y").err


def test_a_hard_map_destroys_what_it_does_not_name_where_that_is_allowed(lab: Lab) -> None:
    path = lab.folder / "shop.map"
    path.write_text("small: [web1]\n")
    lab.machines(old1={"state": "running"}, gone={"state": "terminated"})
    refused = lab.run("-m", str(path), "-H", "-y", "--no-deploy")
    assert (refused.code, "allow it with enable_hard_maps: true" in sentence(refused)) == (6, True)
    assert (lab.run("-Q", "-H").code, lab.run("-d", "-m", str(path), "-H", "-y").code) == (2, 2)
    lab.options(enable_hard_maps=True)
    asked = lab.run("-m", str(path), "-H", "--no-deploy")
    assert "web1 (small). These machines will be destroyed: old1 (my-cloud-provider:scripted)." in asked.err
    done = lab.run("-m", str(path), "-H", "-y", "--no-deploy")
    # There is no master, which would have the key of its minion.
    assert "old1: the machine is destroyed, but the key of its minion may still be accepted" in done.err
    assert set(lab.run("-Q").json()[PROVIDER]["scripted"]) == {"web1"}


def test_a_hard_map_destroys_nothing_after_a_machine_was_not_made(lab: Lab) -> None:
    path = lab.folder / "shop.map"
    path.write_text("small: [web1]\n")
    lab.machines(old1={"state": "running"})
    lab.options(enable_hard_maps=True)
    lab.profile(trouble="refuses")
    done = lab.run("-m", str(path), "-H", "-y", "--no-deploy")
    assert done.code == 4
    assert "no machine was destroyed, because not every machine of the map was made" in sentence(done)
    assert set(lab.run("-Q").json()[PROVIDER]["scripted"]) == {"old1"}


def test_a_hard_map_destroys_a_name_at_the_provider_whose_machine_it_is(lab: Lab) -> None:
    (lab.folder / "other").mkdir()
    (lab.folder / "other/machines.json").write_text('{"old1": {"state": "running"}, "web1": {"state": "running"}}')
    lab.machines(old1={"state": "running"})
    here, there = (str(lab.folder / name) for name in ("machines", "other"))
    lab.write(
        "cloud.providers",
        {PROVIDER: {"driver": "scripted", "folder": here}, "two": {"driver": "scripted", "folder": there}},
    )
    profile = {"image": IMAGE, "size": "small", "minion": {"master": "m"}}
    lab.write("cloud.profiles", {"small": {"provider": PROVIDER, **profile}, "far": {"provider": "two", **profile}})
    (lab.folder / "shop.map").write_text("small: [web1]\nfar: [web2]\n")
    lab.options(enable_hard_maps=True)
    done = lab.run("-m", str(lab.folder / "shop.map"), "-H", "-y", "--no-deploy")
    assert "say which one is meant" not in sentence(done)
    assert set(done.json()) == {"web1", "web2"}
    listed = lab.run("-Q").json()
    assert [set(listed[alias]["scripted"]) for alias in (PROVIDER, "two")] == [{"web1"}, {"web2"}]


def test_what_machines_were_deployed_with_is_shown_on_request(lab: Lab) -> None:
    said = lab.run("-p", "small", "--no-deploy", "--show-deploy-args", "web1")
    assert said.json()["web1"]["deploy_kwargs"] == {}


class Keyring(dict[tuple[str, str], str]):
    """As the package keyring: service, user -> password."""

    def get_password(self, service: str, user: str) -> str | None:
        return self.get((service, user))

    def set_password(self, service: str, user: str, password: str) -> None:
        self[service, user] = password


def test_the_password_of_a_provider_may_be_in_the_keyring(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    ring = Keyring()

    def store(typed: str) -> Said:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(typed.encode())))
        return lab.run("--set-password", "me", PROVIDER)

    lab.provider(user="me", password="use_keyring", trouble="down")
    monkeypatch.setitem(sys.modules, "keyring", None)
    said = lab.run("--list-providers")
    assert (said.code, "need the Python package keyring" in sentence(said)) == (2, True)
    monkeypatch.setitem(sys.modules, "keyring", ring)
    said = lab.run("--list-providers")
    assert "the keyring has no password of me for my-cloud-provider: `saltlite cloud --set-password me" in said.err
    lab.provider()
    stored = store("planted-password\n")
    assert stored.code == 0, stored
    assert "planted-password" not in stored.out + stored.err
    assert store("\n").code == 2
    assert ring == {(PROVIDER, "me"): "planted-password"}
    lab.provider(user="me", password="use_keyring", api_key="planted-password", trouble="down")
    said = lab.run("-Q")
    # The password was read: it is a secret now, wherever it stands.
    assert "connection refused by api with ***" in sentence(said)
    assert "planted-password" not in said.out + said.err


@pytest.mark.parametrize(
    "secret", ["password=planted-secret", "install_index=https://me:planted-secret@index.example/simple"]
)
def test_a_secret_on_the_command_line_is_refused_with_its_places(lab: Lab, secret: str) -> None:
    said = lab.run("-b", "127.0.0.1", "web1", secret)
    assert said.code == 2
    assert f"{secret.partition('=')[0]}: other users can read the command line" in sentence(said)
    assert f"under `defaults` in {lab.folder}/cloud (chmod 600)" in said.err
    assert "planted-secret" not in said.out + said.err


def test_paths_of_keys_and_public_keys_are_no_secrets_of_the_command_line(lab: Lab) -> None:
    said = lab.run("-b", "127.0.0.1", "web1", "private_key=/nowhere", "ssh_host_key=ssh-ed25519 AAAA", "ssh_port=x")
    assert (said.code, "ssh_port=x: it must be a whole number" in sentence(said)) == (2, True)


def test_drivers_see_the_options_that_they_pass_on(lab: Lab) -> None:
    """Those of `deploy_script` which Salt's drivers read from `__opts__`."""
    (lab.folder / "drivers/tells.py").write_text(
        "def create(vm_):\n    return {}\n\ndef opts(kwargs=None, call=None):\n"
        "    return [__opts__[name] for name in ('start_action', 'parallel', 'keep_tmp')]\n"
    )
    lab.write("cloud.providers", {"mine": {"driver": "tells"}})
    assert lab.run("-f", "opts", "mine").json()["mine"]["tells"] == [None, False, False]
    assert lab.run("-f", "opts", "mine", "-P", "-k").json()["mine"]["tells"] == [None, True, True]
