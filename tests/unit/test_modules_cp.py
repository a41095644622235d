"""`cp` as a user calls it, with Salt's names, arguments and returns; behind it a file server of this machine."""

from __future__ import annotations

import errno
import hashlib
import os
import pwd
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from saltlite.files.client import FileClient
from saltlite.loader.call import Outcome, call
from saltlite.loader.index import build_index
from saltlite.loader.loader import Loader
from saltlite.loader.search_path import search_layers
from tests.support.files import Served


class Caller:
    """Calls functions as a job does."""

    def __init__(self, folder: Path) -> None:
        self.served = Served(folder)
        opts = {"cachedir": str(self.served.cache), "extension_modules": str(self.served.extmods)}
        self._loader = Loader(
            build_index(search_layers({})), opts, {}, {}, more={"__file_client__": self.served.client}
        )

    def outcome(self, fun: str, *args: Any, **kwargs: Any) -> Outcome:
        return call(self._loader, fun, args, kwargs)

    def __call__(self, fun: str, *args: Any, **kwargs: Any) -> Any:
        outcome = self.outcome(fun, *args, **kwargs)
        assert outcome.retcode == 0, outcome.value
        return outcome.value


@pytest.fixture
def cp(tmp_path: Path) -> Caller:
    cp = Caller(tmp_path)
    for path in ("a", "etc/apache2/conf/x", "etc/apache2/y", "etc/z"):
        cp.served.put(path, path)
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/only").write_text("dev")
    return cp


def test_get_file_gives_the_path_or_an_empty_text(cp: Caller, tmp_path: Path) -> None:
    assert cp("cp.get_file", "salt://a", f"{tmp_path}/dest") == f"{tmp_path}/dest"
    assert cp("cp.get_file", "salt://a", str(tmp_path)) == f"{tmp_path}/a"
    missing = cp.outcome("cp.get_file", "salt://no", f"{tmp_path}/no")
    assert (missing.value, missing.retcode, missing.warnings) == ("", 1, ("there is no file salt://no",))
    assert cp("cp.get_file", "salt://only?saltenv=dev", f"{tmp_path}/only") == f"{tmp_path}/only"
    assert cp("cp.get_file", "salt://only", f"{tmp_path}/only2", "dev") == f"{tmp_path}/only2"


def test_get_file_makes_folders_only_when_it_is_told(cp: Caller, tmp_path: Path) -> None:
    refused = cp.outcome("cp.get_file", "salt://a", f"{tmp_path}/new/dest")
    assert (refused.retcode, "makedirs=True" in refused.value) == (1, True)
    assert cp("cp.get_file", "salt://a", f"{tmp_path}/new/dest", makedirs=True) == f"{tmp_path}/new/dest"


@pytest.mark.parametrize(
    ("path", "files"),
    [
        ("salt://etc/apache2", ["apache2/conf/x", "apache2/y"]),
        ("salt://etc/apache2/", ["conf/x", "y"]),
        ("salt://etc", ["etc/apache2/conf/x", "etc/apache2/y", "etc/z"]),
    ],
)
def test_get_dir_keeps_the_folder_s_name_unless_there_is_a_slash(
    cp: Caller, tmp_path: Path, path: str, files: list[str]
) -> None:
    assert cp("cp.get_dir", path, f"{tmp_path}/to") == [f"{tmp_path}/to/{name}" for name in files]
    assert all((tmp_path / "to" / name).is_file() for name in files)


def test_what_is_not_there_cannot_be_copied(cp: Caller, tmp_path: Path) -> None:
    missing = cp.outcome("cp.get_dir", "salt://no", f"{tmp_path}/to")
    assert (missing.value, missing.retcode) == ([], 1)
    for path, dest in (("salt://no", ""), ("salt://no", f"{tmp_path}/to"), (f"{tmp_path}/none", "")):
        missing = cp.outcome("cp.get_url", path, dest)
        assert (missing.value, missing.retcode) == ("", 1)


def test_copies_are_kept_by_environment_and_found_without_the_master(cp: Caller) -> None:
    copy = f"{cp.served.cache}/files/base/a"
    assert cp("cp.is_cached", "salt://a") == ""
    assert cp("cp.cache_file", "salt://a") == copy
    assert cp("cp.is_cached", "salt://a") == copy
    assert cp("cp.cache_files", ["salt://a", "salt://no"]) == [copy, False]
    assert cp("cp.cache_dir", "salt://etc/apache2/") == [
        f"{cp.served.cache}/files/base/etc/apache2/{name}" for name in ("conf/x", "y")
    ]
    assert len(cp("cp.cache_master")) == 4


def test_lists_say_what_the_master_has(cp: Caller) -> None:
    assert cp("cp.envs") == ["base", "dev"]
    assert cp("cp.list_master") == ["a", "etc/apache2/conf/x", "etc/apache2/y", "etc/z"]
    assert cp("cp.list_master", prefix="etc/a") == ["etc/apache2/conf/x", "etc/apache2/y"]
    assert cp("cp.list_master_dirs") == ["etc", "etc/apache2", "etc/apache2/conf"]
    assert cp("cp.list_master", "dev") == ["only"]


def test_sls_files_are_listed_by_name(cp: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["core.sls", "web/init.sls", "web/ssl.sls", "web/a.txt", "top.sls"]
    monkeypatch.setattr(FileClient, "files", lambda _self, _env: names)
    assert cp("cp.list_states") == ["core", "top", "web", "web.ssl"]


def test_digest_and_mode_of_a_file(cp: Caller, tmp_path: Path) -> None:
    cp.served.put("run", "x").chmod(0o755)
    digest = {"hsum": hashlib.sha256(b"a").hexdigest(), "hash_type": "sha256"}
    assert cp("cp.hash_file", "salt://a") == digest
    assert cp("cp.hash_file", str(cp.served.root / "a")) == digest
    assert cp("cp.hash_file", "salt://no") == ""
    assert (cp("cp.stat_file", "salt://run"), cp("cp.stat_file", "salt://run", octal=False)) == ("0755", 0o100755)
    assert cp("cp.stat_file", "salt://no") is None


def test_get_url_takes_files_of_the_master_and_of_this_machine_only(cp: Caller, tmp_path: Path) -> None:
    (tmp_path / "local").write_text("mine")
    assert cp("cp.get_url", "salt://a") == f"{cp.served.cache}/files/base/a"
    assert cp("cp.get_url", "salt://a", f"{tmp_path}/dest") == f"{tmp_path}/dest"
    assert cp("cp.get_url", "salt://a", None) == "a"
    assert cp("cp.get_url", f"file://{tmp_path}/local") == f"{tmp_path}/local"
    assert cp("cp.get_url", f"file://{tmp_path}/local", None) == "mine"
    assert cp.outcome("cp.get_url", f"file://{tmp_path}/absent", None).retcode == 1
    assert cp.outcome("cp.get_url", "https://example.com/x").retcode == 1


@pytest.mark.parametrize(
    ("fun", "args"),
    [
        ("pillar.get", ["a", "", True, True, ":"]),
        ("pip.freeze", ["/venv", "root", "/", True]),
        ("pip.install", ["x", None, None, "root"]),
        ("pip.uninstall", ["x", None, None, "/log"]),
        ("pip.upgrade", ["/venv", "root", "/", True]),
        ("pip.list_all_versions", ["x", None, True]),
        ("git.remotes", ["/srv", "root"]),
        ("git.remote_get", ["/srv", "origin", "root"]),
        ("saltutil.sync_all", ["base", True, None, None, True]),
    ],
)
def test_a_place_that_means_something_else_in_salt_is_refused(cp: Caller, fun: str, args: list[Any]) -> None:
    outcome = cp.outcome(fun, *args)
    assert (outcome.retcode, "Passed invalid arguments" in outcome.value) == (1, True)


@pytest.mark.parametrize(
    ("patterns", "files"),
    [
        ({"include_pat": "*/x"}, ["etc/apache2/conf/x"]),
        ({"include_pat": ["etc/z", "etc/*/y"]}, ["etc/apache2/y", "etc/z"]),
        ({"include_pat": "y"}, []),
        ({"include_pat": "E@[xz]$"}, ["etc/apache2/conf/x", "etc/z"]),
        ({"exclude_pat": "E@/apache2/"}, ["etc/z"]),
        ({"include_pat": "etc/apache2/*", "exclude_pat": ["*/y", "a"]}, ["etc/apache2/conf/x"]),
    ],
)
def test_a_folder_is_kept_by_patterns_of_its_paths(cp: Caller, patterns: dict[str, Any], files: list[str]) -> None:
    assert cp("cp.cache_dir", "salt://etc", **patterns) == [f"{cp.served.cache}/files/base/{name}" for name in files]
    assert cp("cp.list_minion") == [f"{cp.served.cache}/files/base/{name}" for name in files]


def test_empty_folders_are_made_when_they_are_asked_for(cp: Caller) -> None:
    (cp.served.root / "etc/none/inside").mkdir(parents=True)
    copies = f"{cp.served.cache}/files/base"
    assert cp("cp.cache_dir", "salt://etc", include_pat="etc/z") == [f"{copies}/etc/z"]
    assert not Path(f"{copies}/etc/none").exists()
    assert cp("cp.cache_dir", "salt://etc", "base", True, "etc/z") == [f"{copies}/etc/z", f"{copies}/etc/none/inside"]
    assert Path(f"{copies}/etc/none/inside").is_dir()


def test_names_are_templates_where_that_is_asked_for(cp: Caller, tmp_path: Path) -> None:
    cp.served.put("dev/file", "{{ kept }}")
    there = f"{tmp_path}/{{{{ saltenv }}}}.conf"
    assert cp("cp.get_file", "salt://{{ 'dev' }}/file", there, template="jinja") == f"{tmp_path}/base.conf"
    assert Path(f"{tmp_path}/base.conf").read_text() == "{{ kept }}"
    assert cp("cp.get_file", "salt://a", there) == there
    assert cp("cp.get_dir", "salt://{{ 'dev' }}/", f"{tmp_path}/{{{{ 1 }}}}", template="jinja") == [
        f"{tmp_path}/1/file"
    ]
    assert "mako" in cp.outcome("cp.get_file", "salt://a", there, template="mako").value


def test_a_template_without_jinja_is_refused_in_one_sentence(
    cp: Caller, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    said = cp.outcome("cp.get_file", "salt://a", f"{tmp_path}/x", template="jinja")
    assert (said.retcode, "saltlite[jinja]" in said.value, "\n" in said.value) == (1, True, False)


class Taken:
    """Takes every file, and remembers from where and as what."""

    def __init__(self) -> None:
        self.pushed: list[tuple[str, str]] = []

    def fetch(self) -> None:
        raise NotImplementedError

    def push(self, path: str, name: str) -> bool:
        self.pushed.append((path, name))
        return True


@pytest.mark.parametrize("keep", [False, True])
def test_a_link_is_pushed_under_the_path_of_its_file_unless_it_is_kept(tmp_path: Path, keep: bool) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to("file")
    taken = Taken()
    loader = Loader(build_index(search_layers({})), {}, {}, {}, more={"__file_client__": taken})
    assert call(loader, "cp.push", [f"{tmp_path}/link", keep, None, True], {}).value is True
    name = "link" if keep else "file"
    assert taken.pushed == [(f"{tmp_path}/{name}", f"{tmp_path}/{name}".lstrip("/"))]
    assert sorted(os.listdir(tmp_path)) == (["file"] if keep else ["link"])


def test_a_folder_is_pushed_by_its_files(tmp_path: Path) -> None:
    (tmp_path / "in/deep").mkdir(parents=True)
    for name in ("a.conf", "b", "deep/c.conf"):
        (tmp_path / "in" / name).write_text("")
    (tmp_path / "way").symlink_to("in")
    taken = Taken()
    loader = Loader(build_index(search_layers({})), {}, {}, {}, more={"__file_client__": taken})

    def pushed(path: str, **kwargs: Any) -> tuple[Any, list[str]]:
        taken.pushed = []
        value = call(loader, "cp.push_dir", [f"{tmp_path}/{path}"], kwargs).value
        return value, [name for _path, name in taken.pushed]

    here = str(tmp_path).lstrip("/")
    assert pushed("in", glob="*.conf") == (True, [f"{here}/in/a.conf", f"{here}/in/deep/c.conf"])
    assert pushed("way", upload_path="/up") == (True, ["up/a.conf", "up/b", "up/deep/c.conf"])
    assert pushed("in", glob="*.none") == (False, [])
    assert pushed("in/b", upload_path="/up/b") == (True, ["up/b"])


def test_a_file_is_pushed_to_no_path_above(cp: Caller) -> None:
    assert cp.outcome("cp.push", "/etc/hostname", upload_path="../x").retcode == 1


def test_a_template_takes_its_place_whole_and_knows_the_keywords(cp: Caller, tmp_path: Path) -> None:
    cp.served.put("t", "port={{ port }}\n")
    dest = tmp_path / "conf"
    dest.write_text("old")
    dest.chmod(0o640)
    assert cp("cp.get_template", "salt://t", str(dest), port=80) == str(dest)
    assert (dest.read_text(), dest.stat().st_mode & 0o777) == ("port=80\n", 0o640)
    assert cp.outcome("cp.get_template", "salt://t", str(dest)).retcode == 1
    assert (dest.read_text(), sorted(path.name for path in tmp_path.glob(".saltlite*"))) == ("port=80\n", [])
    assert cp.outcome("cp.get_template", "salt://no", str(dest)).retcode == 1
    assert cp.outcome("cp.get_template", "salt://t", f"{tmp_path}/new/x", port=1).retcode == 1
    assert cp("cp.get_template", "salt://t", f"{tmp_path}/new/x", makedirs=True, port=1) == f"{tmp_path}/new/x"
    assert "mako" in cp.outcome("cp.get_template", "salt://t", str(dest), template="mako").value


def test_a_template_knows_its_context_over_the_defaults(cp: Caller, tmp_path: Path) -> None:
    cp.served.put("t", "{{ a }} {{ b }} {{ c }}\n")
    given = {"context": {"a": "x", "b": "x"}, "defaults": {"a": "d", "b": "d", "c": "d"}, "b": "y"}
    cp("cp.get_template", "salt://t", f"{tmp_path}/conf", **given)
    assert (tmp_path / "conf").read_text() == "x y d\n"
    refused = cp.outcome("cp.get_template", "salt://t", f"{tmp_path}/conf", context="a=x")
    assert (refused.retcode, "context is a map" in refused.value) == (1, True)


def test_the_paths_of_files_and_folders_may_be_templates(cp: Caller, tmp_path: Path) -> None:
    path, dest = "salt://etc/{{ 'apache2' }}", f"{tmp_path}/to-{{{{ 1 + 1 }}}}"
    assert cp("cp.get_file", f"{path}/y", dest, template="jinja", gzip=5) == f"{tmp_path}/to-2"
    files = cp("cp.get_dir", path, f"{tmp_path}/dir-{{{{ 3 }}}}", template="jinja", gzip=5)
    assert files == [f"{tmp_path}/dir-3/apache2/{name}" for name in ("conf/x", "y")]
    assert "mako" in cp.outcome("cp.get_file", "salt://a", dest, template="mako").value
    assert cp.outcome("cp.get_file", path, f"{tmp_path}/none").retcode == 1


def test_copies_are_listed_and_cleared(cp: Caller, tmp_path: Path) -> None:
    (tmp_path / "own").write_text("mine")
    copy = cp("cp.cache_file", "salt://a")
    assert cp("cp.cache_dest", "salt://no") == f"{cp.served.cache}/files/base/no"
    kept = cp("cp.cache_local_file", f"{tmp_path}/own")
    assert (kept, Path(kept).read_text()) == (f"{cp.served.cache}/localfiles{tmp_path}/own", "mine")
    assert cp("cp.cache_local_file", f"{tmp_path}/none") == ""
    assert cp("cp.list_minion") == [copy, kept]
    assert (cp("saltutil.clear_cache", days=7), len(cp("cp.list_minion"))) == (True, 2)
    assert (cp("saltutil.clear_cache"), cp("cp.list_minion")) == (True, [])


def test_plug_ins_that_were_brought_are_listed_by_type(cp: Caller) -> None:
    assert cp("saltutil.list_extmods") == {}
    cp.served.put("_modules/one.py", "")
    cp("saltutil.sync_modules")
    assert cp("saltutil.list_extmods") == {"modules": ["one"]}


def test_names_that_salt_users_know_do_the_same(cp: Caller) -> None:
    cp.served.put("_output/one.py", "")
    assert cp("saltutil.sync_outputters") == ["output.one"]
    assert cp("saltutil.sync_output") == []
    assert cp("saltutil.pillar_refresh") is True
    assert cp("saltutil.refresh_pillar", wait=True, timeout=60) is True


def test_a_script_of_the_master_is_fetched_and_run(cp: Caller) -> None:
    cp.served.put("s.sh", "#!/bin/sh\necho {{ 1 + 1 }} $1; exit 3\n")
    said = cp.outcome("cmd.script", "salt://s.sh", "a", template="jinja")
    assert (said.value["stdout"], said.retcode) == ("2 a", 3)
    assert cp.outcome("cmd.script_retcode", "salt://s.sh").value == 3
    missing = cp.outcome("cmd.script", "salt://no.sh")
    assert (missing.value["cache_error"], missing.retcode) == (True, 1)


def test_get_file_str_gives_the_content_or_false(cp: Caller) -> None:
    assert (cp("cp.get_file_str", "salt://a"), cp("cp.get_file_str", "salt://no")) == ("a", False)


@pytest.mark.parametrize(
    ("fun", "args"),
    [
        ("cp.get_file", ["salt://../x", "/tmp/x"]),
        ("cp.get_file", ["a", "/tmp/x"]),
        ("cp.get_file", ["salt://a", "x"]),
        ("cp.get_dir", ["salt://etc", "x"]),
        ("cp.list_master", ["../dev"]),
        ("cp.push", ["x"]),
        ("cp.push", ["/no/such/file"]),
        ("cp.recv", ["base", "/tmp"]),
        ("cp.cache_dir", ["salt://etc", "base", False, "E@*.py$"]),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_sentence(cp: Caller, fun: str, args: list[Any]) -> None:
    outcome = cp.outcome(fun, *args)
    assert outcome.retcode == 1
    assert outcome.value.startswith(("ERROR", "Passed invalid"))
    assert "\n" not in outcome.value


def test_a_call_without_a_file_server_says_so(tmp_path: Path) -> None:
    loader = Loader(build_index(search_layers({})), {}, {}, {})
    assert "no file server" in call(loader, "cp.list_master", [], {}).value


def test_sync_functions_take_lists_of_names_as_salt_does(cp: Caller) -> None:
    for name in ("one", "two", "three"):
        cp.served.put(f"_modules/{name}.py", "")
    assert cp("saltutil.sync_modules", extmod_whitelist="one,two", extmod_blacklist=["two"]) == ["modules.one"]
    assert cp("saltutil.sync_all", extmod_blacklist={"modules": "one"}) == {
        "beacons": [],
        "executors": [],
        "grains": [],
        "interfaces": [],
        "modules": ["modules.three", "modules.two"],
        "output": [],
        "resources": [],
        "utils": [],
    }
    report = cp("saltutil.sync_all", report=True)["modules"]
    assert report == {"synced": ["modules.one"], "removed": [], "failed": {}}
    assert cp("saltutil.sync_modules", "dev") == []


CALLS: dict[str, Callable[[Caller, Path], Outcome]] = {
    "get_file": lambda cp, dest: cp.outcome("cp.get_file", "salt://a", str(dest)),
    "makedirs": lambda cp, dest: cp.outcome("cp.get_file", "salt://a", f"{dest}/new/a", makedirs=True),
    "get_template": lambda cp, dest: cp.outcome("cp.get_template", "salt://a", str(dest)),
    "get_dir": lambda cp, dest: cp.outcome("cp.get_dir", "salt://etc/apache2/", str(dest)),
}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make links of other users")
@pytest.mark.parametrize("fun", CALLS)
@pytest.mark.parametrize("to_folder", [True, False])
def test_nothing_is_written_over_a_link_that_a_user_has_put_there(
    cp: Caller, tmp_path: Path, fun: str, to_folder: bool
) -> None:
    nobody = pwd.getpwnam("nobody")
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    ours.mkdir()
    (ours / "kept").write_text("kept")
    theirs.mkdir()
    link = theirs / "link"
    link.symlink_to(ours if to_folder else ours / "kept")
    os.chown(theirs, nobody.pw_uid, nobody.pw_gid)
    os.chown(link, nobody.pw_uid, nobody.pw_gid, follow_symlinks=False)
    said = CALLS[fun](cp, link)
    assert said.retcode != 0, said
    assert [(each.name, each.read_text()) for each in ours.iterdir()] == [("kept", "kept")]


def test_a_link_of_the_minions_own_user_is_followed(cp: Caller, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("old")
    (tmp_path / "file").chmod(0o640)
    (tmp_path / "link").symlink_to("file")
    cp("cp.get_file", "salt://a", f"{tmp_path}/link")
    assert ((tmp_path / "file").read_text(), (tmp_path / "link").is_symlink()) == ("a", True)
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o640


def test_on_another_file_system_the_copy_has_a_name_that_nobody_knew(
    cp: Caller, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    victim = tmp_path / "victim"
    victim.write_text("kept")
    (tmp_path / "dest").write_text("old")
    (tmp_path / f"dest.saltlite-{os.getpid()}").symlink_to(victim)
    replace = os.replace

    def other_file_system(source: str, dest: str, **how: Any) -> None:
        if "/arriving/" in str(source):
            raise OSError(errno.EXDEV, "Invalid cross-device link")
        replace(source, dest, **how)

    monkeypatch.setattr(os, "replace", other_file_system)
    cp("cp.get_file", "salt://a", f"{tmp_path}/dest")
    assert ((tmp_path / "dest").read_text(), victim.read_text()) == ("a", "kept")
    assert sorted(each.name for each in tmp_path.glob("dest*")) == ["dest", f"dest.saltlite-{os.getpid()}"]


def test_a_pipe_in_the_place_of_a_file_holds_nobody_up(cp: Caller, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "dest")
    cp("cp.get_file", "salt://a", f"{tmp_path}/dest")
    assert (tmp_path / "dest").read_text() == "a"
