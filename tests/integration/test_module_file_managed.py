"""Managed files: from the master, from this minion, from templates and texts; and the copies that are kept of them."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path
from typing import Any

import pytest

from saltlite.loader.call import Outcome, call
from saltlite.loader.index import Index, build_index
from saltlite.loader.loader import Loader
from saltlite.loader.search_path import search_layers
from tests.support.files import Served

INDEX: Index = build_index(search_layers({}))
UID, GID = 54321, 54322
CONF = "port = 80\n"

ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


class Minion:
    """Functions of `file` on a minion with a master's files, in a folder of its own."""

    def __init__(self, folder: Path, **opts: Any) -> None:
        self.served = Served(folder)
        self.folder = folder
        opts = {"cachedir": str(folder / "cachedir"), **opts}
        more = {"__file_client__": self.served.client}
        self._loader = Loader(INDEX, opts, {"os": "Debian"}, {"port": 8080}, more=more)

    def run(self, fun: str, *args: Any, **kwargs: Any) -> Outcome:
        return call(self._loader, f"file.{fun}", args, kwargs)

    def done(self, fun: str, *args: Any, **kwargs: Any) -> Any:
        outcome = self.run(fun, *args, **kwargs)
        assert outcome.retcode == 0, outcome.value
        return outcome.value

    def manage(self, name: str = "conf", **kwargs: Any) -> dict[str, Any]:
        """`file.manage_file`, which says by itself how it went."""
        given = {"sfn": "", "ret": None, "source": None, "source_sum": None, "user": None, "group": None, "mode": None}
        given |= {"attrs": None, "saltenv": "base", "backup": None, "name": str(self.folder / name), **kwargs}
        value: dict[str, Any] = self.run("manage_file", **given).value
        return value

    def managed(self, source: str, *, template: str | None = None, **kwargs: Any) -> Any:
        """`file.get_managed`."""
        given: dict[str, Any] = {
            "source_hash": None,
            "source_hash_name": None,
            "user": None,
            "group": None,
            "mode": None,
        }
        given |= {"attrs": None, "saltenv": "base", "context": None, "defaults": None, **kwargs}
        return self.done("get_managed", str(self.folder / "conf"), template, source, **given)

    def check(self, fun: str, source: Any, **kwargs: Any) -> Any:
        """`file.check_managed` or `file.check_managed_changes`."""
        given: dict[str, Any] = {
            "source_hash": None,
            "source_hash_name": None,
            "user": None,
            "group": None,
            "mode": None,
        }
        given |= {"attrs": None, "template": None, "context": None, "defaults": None, "saltenv": "base", **kwargs}
        return self.run(fun, str(self.folder / "conf"), source, **given).value


@pytest.fixture
def minion(tmp_path: Path) -> Minion:
    minion = Minion(tmp_path)
    minion.served.put("app/conf", CONF)
    minion.served.put("app/conf.jinja", "port = {{ pillar.port }} on {{ grains['os'] }}{{ extra }}\n")
    return minion


# --- arguments that ask for what is not done here

UNSERVED: dict[str, Any] = {
    "signature": "a.sig", "source_hash_sig": "a.sig", "signed_by_any": "key",
    "signed_by_all": ["key"], "keyring": "ring", "gnupghome": "/root/.gnupg", "sig_backend": "asymmetric",
    "ignore_ordering": True, "ignore_whitespace": True, "ignore_comment_characters": "#",
}  # fmt: skip


@pytest.mark.parametrize("name", UNSERVED)
def test_an_argument_that_cannot_be_followed_is_refused_and_nothing_written(minion: Minion, name: str) -> None:
    said = minion.manage(contents="x", **{name: UNSERVED[name]})
    assert f"{name}={UNSERVED[name]!r} cannot be: " in str(said)
    assert not (minion.folder / "conf").exists()


@pytest.mark.parametrize("name", ["verify_ssl", "use_etag", "seuser", "sig_backend"])
def test_an_argument_that_asks_for_nothing_is_none(minion: Minion, name: str) -> None:
    values: dict[str, Any] = {"verify_ssl": False, "use_etag": False, "seuser": "", "sig_backend": "gpg"}
    assert minion.manage(contents="x", **{name: values[name]})["result"] is True


def test_a_check_refuses_them_too(minion: Minion) -> None:
    said = minion.check("check_managed_changes", None, contents="x", ignore_ordering=True)
    assert "ignore_ordering=True cannot be" in str(said)


# --- SELinux labels

LABEL = {"seuser": "system_u", "serole": "object_r", "setype": "etc_t"}


def label(path: Path) -> str:
    return os.getxattr(path, "security.selinux").rstrip(b"\0").decode()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root sets labels")
def test_a_managed_file_gets_its_label_and_keeps_it(minion: Minion) -> None:
    path = minion.folder / "conf"
    new = "User: system_u Role: object_r Type: etc_t"
    said = minion.manage(contents="x", **LABEL)
    assert (said["result"], said["changes"]) == (True, {"diff": "New file", "selinux": {"Old": "", "New": new}})
    assert label(path) == "system_u:object_r:etc_t"
    assert minion.manage(contents="x", **LABEL)["changes"] == {}
    assert "selinux" not in minion.manage(contents="y", **LABEL)["changes"]
    assert label(path) == "system_u:object_r:etc_t"
    assert minion.check("check_managed_changes", None, contents="y", setype="a_t") == {"selinux": {"type": "a_t"}}
    planned = minion.manage(contents="y", setype="a_t", test=True)
    assert planned["changes"] == {"selinux": {"Old": "Type: etc_t", "New": "Type: a_t"}}
    assert label(path) == "system_u:object_r:etc_t"
    done, _before = minion.done("check_perms", str(path), None, None, None, None, setype="a_t", serange="s0")
    assert done["changes"] == {"selinux": {"Old": "Type: etc_t", "New": "Type: a_t Range: s0"}}
    assert label(path) == "system_u:object_r:a_t:s0"
    assert minion.check("check_managed", None, contents="y", setype="a_t")[0] is True


@pytest.mark.skipif(os.geteuid() != 0, reason="only root sets labels")
def test_a_label_that_cannot_be_set_is_an_error_and_nothing_is_written_for_a_wrong_one(minion: Minion) -> None:
    path = minion.folder / "conf"
    assert "is not the type" in str(minion.manage(contents="x", setype="a b"))
    assert not path.exists()
    said = minion.manage(contents="x", setype="etc_t")
    assert (said["result"], "give user, role and type" in said["comment"]) == (False, True)


# --- manage_file


def test_a_file_is_made_of_the_master_s_and_then_left_alone(minion: Minion) -> None:
    path = minion.folder / "conf"
    first = minion.manage(source="salt://app/conf")
    assert first == {
        "name": str(path),
        "changes": {"diff": "New file"},
        "comment": f"File {path} updated",
        "result": True,
    }
    assert path.read_text() == CONF
    again = minion.manage(source="salt://app/conf")
    assert (again["changes"], again["comment"]) == ({}, f"File {path} is in the correct state")


def test_a_change_is_shown_as_a_diff(minion: Minion) -> None:
    (minion.folder / "conf").write_text("port = 79\n")
    found = minion.manage(source="salt://app/conf")
    assert found["changes"]["diff"] == "--- \n+++ \n@@ -1 +1 @@\n-port = 79\n+port = 80\n"
    assert (minion.folder / "conf").read_text() == CONF


@pytest.mark.parametrize(
    ("old", "new", "kwargs", "diff"),
    [
        ("a\n", "b\n", {"show_changes": False}, "<show_changes=False>"),
        ("a\n", b"\0", {}, "Replace text file with binary file"),
        ("a\0", "b\n", {}, "Replace binary file with text file"),
        ("a\0", b"b\0", {}, "Replace binary file"),
        (None, "b\n", {"new_file_diff": True}, "--- \n+++ \n@@ -0,0 +1 @@\n+b\n"),
    ],
)
def test_what_cannot_or_should_not_be_shown_is_named(
    minion: Minion, old: str | None, new: Any, kwargs: dict[str, Any], diff: str
) -> None:
    if old is not None:
        (minion.folder / "conf").write_text(old)
    assert minion.manage(contents=new, **kwargs)["changes"]["diff"] == diff


def test_secrets_of_templates_can_be_kept_out_of_diffs(tmp_path: Path) -> None:
    minion = Minion(tmp_path, obfuscate_templates=True)
    (tmp_path / "conf").write_text("old")
    assert minion.manage(contents="secret")["changes"]["diff"] == "<Obfuscated Template>"


def test_an_empty_file_is_made_where_there_is_no_content(minion: Minion) -> None:
    found = minion.manage()
    path = minion.folder / "conf"
    assert (found["changes"], found["comment"]) == ({"new": f"file {path} created"}, "Empty file")
    path.write_text("mine")
    assert (minion.manage()["changes"], path.read_text()) == ({}, "mine")


@ROOT_ONLY
def test_a_new_file_has_mode_and_owner(minion: Minion) -> None:
    found = minion.manage("new/deep/conf", contents="x", user=UID, group=GID, mode="0640", makedirs=True)
    status = (minion.folder / "new/deep/conf").stat()
    assert (stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid) == (0o640, UID, GID)
    assert found["changes"] == {"diff": "New file", "user": UID, "group": GID, "mode": "0640"}
    folder = (minion.folder / "new/deep").stat()
    assert (stat.S_IMODE(folder.st_mode), folder.st_uid) == (0o750, UID)


def test_a_file_keeps_its_mode_unless_another_is_asked_for(minion: Minion) -> None:
    path = minion.folder / "conf"
    path.write_text("old")
    path.chmod(0o604)
    minion.manage(contents="new")
    assert stat.S_IMODE(path.stat().st_mode) == 0o604
    assert minion.manage(contents="new", mode=600)["changes"] == {"mode": "0600"}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_keep_mode_takes_that_of_the_source(minion: Minion) -> None:
    (minion.served.root / "app/conf").chmod(0o755)
    minion.manage(source="salt://app/conf", keep_mode=True)
    assert stat.S_IMODE((minion.folder / "conf").stat().st_mode) == 0o755


@pytest.mark.parametrize(
    ("kwargs", "said"),
    [
        ({"source": "salt://no"}, "Source file 'salt://no' not found"),
        ({"name": "/nowhere/conf", "contents": "x"}, "Parent directory not present"),
        ({"contents": "x", "user": "sltnosuch"}, "User does not exist"),
        ({"contents": "x", "mode": "9"}, "Invalid Mode 9"),
        ({"contents": "ö", "encoding": "ascii"}, "cannot be written as ascii"),
        ({"contents": "ö", "encoding": "nosuch"}, "cannot be written as nosuch"),
    ],
)
def test_what_cannot_be_managed_is_said_and_nothing_is_made(minion: Minion, kwargs: dict[str, Any], said: str) -> None:
    found = minion.manage(**kwargs)
    assert (found["result"], said in found["comment"]) == (False, True)
    assert not (minion.folder / "conf").exists() or (minion.folder / "conf").read_text() == ""


def test_a_folder_is_not_managed_as_a_file(minion: Minion) -> None:
    (minion.folder / "conf").mkdir()
    assert minion.manage(contents="x")["comment"] == f"{minion.folder}/conf is a folder."


def test_a_local_source_has_to_have_its_digest(minion: Minion) -> None:
    (minion.folder / "src").write_text("x")
    wrong = {"hash_type": "md5", "hsum": "0" * 32}
    found = minion.manage(source=f"{minion.folder}/src", source_sum=wrong)
    assert (found["result"], "does not match actual checksum" in found["comment"]) == (False, True)
    assert not (minion.folder / "conf").exists()
    assert minion.manage(source=f"{minion.folder}/src", source_sum=wrong, skip_verify=True)["result"] is True


def test_a_link_is_followed_or_becomes_a_file(minion: Minion) -> None:
    (minion.folder / "real").write_text("old")
    (minion.folder / "conf").symlink_to("real")
    minion.manage(contents="new")
    assert ((minion.folder / "real").read_text(), (minion.folder / "conf").is_symlink()) == ("new", True)
    found = minion.manage(contents="own", follow_symlinks=False)
    assert found["changes"] == {"diff": "Replace symbolic link with regular file"}
    assert ((minion.folder / "real").read_text(), (minion.folder / "conf").is_symlink()) == ("new", False)


def test_dry_runs_tell_and_change_nothing(minion: Minion) -> None:
    new = minion.manage("new/conf", contents="x", makedirs=True, test=True)
    assert (new["result"], new["changes"]) == (None, {"diff": "New file"})
    assert not (minion.folder / "new").exists()
    path = minion.folder / "conf"
    path.write_text("old\n")
    path.chmod(0o644)
    changed = minion.manage(contents="new\n", mode="600", test=True)
    assert (changed["result"], set(changed["changes"])) == (None, {"diff", "mode"})
    assert (path.read_text(), stat.S_IMODE(path.stat().st_mode)) == ("old\n", 0o644)


# --- templates and sources


def test_a_template_is_rendered_and_its_copy_is_gone_afterwards(minion: Minion) -> None:
    sfn, digest, said = minion.managed("salt://app/conf.jinja", template="jinja", defaults={"extra": "!"})
    assert (said, Path(sfn).read_text()) == ("", "port = 8080 on Debian!\n")
    assert stat.S_IMODE(os.stat(sfn).st_mode) == 0o600
    minion.manage(sfn=sfn, source="salt://app/conf.jinja", source_sum=digest)
    assert (minion.folder / "conf").read_text() == "port = 8080 on Debian!\n"
    assert not os.path.exists(sfn)


def test_a_template_can_call_functions_and_include_files_of_the_master(minion: Minion) -> None:
    text = "{{ salt['file.basename']('/a/b') }} {{ salt.file.dirname('/a/b') }} {% include 'app/conf' %}"
    made = minion.done("apply_template_on_contents", text, "jinja", None, None, "base")
    assert made == f"b /a {CONF}"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{{ nosuch }}", "'nosuch' is undefined"),
        ("{% if %}", "Jinja syntax error"),
        ("{{ ''.__class__.__mro__ }}", "unsafe"),
        ("{{ 1 // 0 }}", "ZeroDivisionError"),
    ],
)
def test_a_template_that_fails_is_said_to(minion: Minion, text: str, said: str) -> None:
    outcome = minion.run("apply_template_on_contents", text, "jinja", {}, {}, "base")
    assert (outcome.retcode, said in outcome.value, "Traceback" in outcome.value) == (1, True, False)


def test_another_format_of_templates_is_refused(minion: Minion) -> None:
    found = minion.run("apply_template_on_contents", "x", "mako", {}, {}, "base").value
    assert found == {"result": False, "comment": "Specified template format mako is not supported"}
    assert minion.managed("salt://app/conf", template="mako")[2] == "Specified template format mako is not supported"


@pytest.mark.parametrize(
    ("source", "kwargs", "said"),
    [
        ("salt://no", {}, "Source file salt://no not found in saltenv 'base'"),
        ("/no/such", {}, "Local file source /no/such does not exist"),
        ("ftp://example.com/a", {"source_hash": "0" * 32}, "none of the schemes salt, file, http and https"),
        ("https://example.com/a", {}, "please set source_hash"),
        ("/etc/hostname", {"source_hash": "xyz"}, "Unable to manage file: Source hash xyz format is invalid"),
        ("salt://app/conf.jinja", {"template": "jinja"}, "'extra' is undefined"),
    ],
)
def test_a_source_that_is_none_is_named(
    minion: Minion, monkeypatch: pytest.MonkeyPatch, source: str, kwargs: dict[str, Any], said: str
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(minion.folder))
    sfn, digest, comment = minion.managed(source, **kwargs)
    assert (sfn, digest, said in comment) == ("", {}, True)
    assert [name for name in os.listdir(minion.folder) if "rendered" in name] == []


def test_a_file_of_the_master_is_known_by_its_digest(minion: Minion) -> None:
    sfn, digest, said = minion.managed("salt://app/conf")
    assert (sfn, digest["hash_type"], said) == ("", "sha256", "")
    (minion.folder / "conf").touch()
    assert "cannot be the same" in str(
        minion.run(
            "get_managed", f"{minion.folder}/conf", None, f"{minion.folder}/conf", *[None] * 6, "base", None, None
        ).value
    )


def test_the_first_source_that_is_there_is_taken(minion: Minion) -> None:
    (minion.folder / "local").touch()
    sources: list[Any] = ["salt://no", "https://example.com/a", {"salt://app/conf": "hash"}, "/etc/hostname"]
    assert minion.done("source_list", sources, "other", "base") == ("salt://app/conf", "hash")
    assert minion.done("source_list", [f"{minion.folder}/local"], "h", "base") == (f"{minion.folder}/local", "h")
    assert minion.done("source_list", ["salt://app/"], "h", "base") == ("salt://app/", "h")
    assert minion.done("source_list", "salt://no", "h", "base") == ("salt://no", "h")
    assert "none of the specified sources were found" in minion.run("source_list", ["/no"], "", "base").value


# --- check_managed


def test_check_managed_tells_what_would_change(minion: Minion) -> None:
    path = minion.folder / "conf"
    missing = (None, f"The following values are set to be changed:\nnewfile: {path}\n")
    assert minion.check("check_managed", "salt://app/conf") == missing
    path.write_text("port = 79\n")
    path.chmod(0o644)
    told, said = minion.check("check_managed", "salt://app/conf", mode="0600")
    assert (told, "-port = 79\n+port = 80" in said, "mode: 0600" in said) == (None, True, True)
    path.write_text(CONF)
    assert minion.check("check_managed", ["salt://app/conf"]) == (True, f"The file {path} is in the correct state")
    assert minion.check("check_managed", "salt://no")[0] is False


@ROOT_ONLY
def test_check_managed_changes_names_each_change(minion: Minion) -> None:
    path = minion.folder / "conf"
    path.write_text(CONF)
    path.chmod(0o644)
    found = minion.check("check_managed_changes", "salt://app/conf", user=UID, group="bin", mode=600)
    assert found == {"user": UID, "group": "bin", "mode": "0600"}
    assert minion.check("check_managed_changes", "salt://app/conf", user="root", group=0, mode="0644") == {}
    diff = "--- \n+++ \n@@ -1 +1 @@\n-port = 80\n+x\n"
    assert minion.check("check_managed_changes", None, contents="x\n") == {"diff": diff}
    (minion.served.root / "app/conf").chmod(0o700)
    assert minion.check("check_managed_changes", "salt://app/conf", keep_mode=True) == {"mode": "0700"}


# --- copies in the cache


def test_copies_are_kept_listed_restored_and_deleted(minion: Minion) -> None:
    path = minion.folder / "con_f"
    for text in ("one", "two", "three"):
        minion.manage("con_f", contents=text, backup="minion")
    found = minion.done("list_backups", str(path))
    assert [Path(each["Location"]).read_text() for each in found.values()] == ["two", "one"]
    assert [(number, sorted(each), each["Size"]) for number, each in found.items()] == [
        (0, ["Backup Time", "Location", "Size"], 3), (1, ["Backup Time", "Location", "Size"], 3),
    ]  # fmt: skip
    assert minion.done("list_backups", str(path), limit=1) == {0: found[0]}
    assert minion.done("list_backup", str(path)) == found
    assert minion.done("list_backups_dir", str(minion.folder)) == {"con_f": found}

    assert minion.done("restore_backup", str(path), 1, test=True)["result"] is None
    assert minion.done("restore_backup", str(path), "1")["comment"].startswith("Successfully restored ")
    assert path.read_text() == "one"
    now = minion.done("list_backups", str(path))
    assert [Path(each["Location"]).read_text() for each in now.values()] == ["three", "two", "one"]

    assert minion.done("delete_backup", str(path), 0, test=True)["result"] is None
    assert minion.done("remove_backup", str(path), 0)["result"] is True
    assert minion.done("list_backups", str(path)) == found


@pytest.mark.parametrize("number", ["x", "-1", "1.5", "", "²"])
@pytest.mark.parametrize("function", ["restore_backup", "delete_backup"])
def test_a_copy_is_asked_for_by_its_number(minion: Minion, function: str, number: str) -> None:
    found = minion.run(function, f"{minion.folder}/conf", number)
    assert (found.value, found.retcode) == ({"result": False, "comment": f"Invalid backup_id '{number}'"}, 1)


def test_a_copy_that_is_not_there_is_named(minion: Minion) -> None:
    path = f"{minion.folder}/conf"
    found = minion.run("restore_backup", path, 3).value
    assert found == {"result": False, "comment": f"backup_id '3' does not exist for {path}"}
    assert minion.done("list_backups", path) == {}


def test_a_file_that_is_gone_comes_back_with_its_mode(minion: Minion) -> None:
    path = minion.folder / "conf"
    path.write_text("old")
    path.chmod(0o640)
    minion.manage(contents="new", backup="minion")
    path.unlink()
    minion.done("restore_backup", str(path), 0)
    assert (path.read_text(), stat.S_IMODE(path.stat().st_mode)) == ("old", 0o640)


def test_a_link_to_its_source_is_compared_and_the_source_itself_is_refused(minion: Minion) -> None:
    source = minion.folder / "source"
    source.write_text(CONF)
    (minion.folder / "conf").symlink_to(source)
    assert minion.check("check_managed", str(source), follow_symlinks=True)[0] is True
    (minion.folder / "conf").unlink()
    os.link(source, minion.folder / "conf")
    assert "Source file cannot be the same as destination" in minion.check("check_managed", str(source))
