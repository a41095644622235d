"""`archive` with the machine's own programs, and with archives that were made to do harm."""

from __future__ import annotations

import io
import os
import shutil
import stat
import subprocess
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

from saltlite.loader.call import Outcome, call
from saltlite.loader.index import build_index
from saltlite.loader.loader import Loader
from saltlite.loader.search_path import search_layers
from tests.support.files import Served

INDEX = build_index(search_layers({}))
NAMES = ("a b", 'it\'s "so"', "x; touch owned", "größe-漢字", "a%s")

ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


def run(fun: str, *args: Any, **kwargs: Any) -> Outcome:
    return call(Loader(INDEX, {}, {"os": "Debian"}, {}), f"archive.{fun}", args, kwargs)


def done(fun: str, *args: Any, **kwargs: Any) -> Any:
    outcome = run(fun, *args, **kwargs)
    assert outcome.retcode == 0, outcome.value
    return outcome.value


def refusal(fun: str, *args: Any, **kwargs: Any) -> str:
    outcome = run(fun, *args, **kwargs)
    assert outcome.retcode == 1, outcome.value
    return str(outcome.value)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    top = tmp_path / "src"
    (top / "deep").mkdir(parents=True)
    (top / "a").write_text("alpha")
    (top / "deep/b").write_text("beta")
    (top / "deep/b").chmod(0o750)
    return top


def content(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in sorted(folder.rglob("*")) if path.is_file()}


def zip_of(path: Path, *members: tuple[str, str, int]) -> str:
    """A zip file of names, contents and modes."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, text, mode in members:
            info = zipfile.ZipInfo(name)
            info.external_attr = mode << 16
            archive.writestr(info, text)
    return str(path)


LINK = stat.S_IFLNK | 0o777
FILE = stat.S_IFREG | 0o644


# --- tar, gzip


def test_tar_packs_lists_and_unpacks(source: Path, tmp_path: Path) -> None:
    packed = f"{tmp_path}/a.tar.gz"
    assert done("tar", "czvf", packed, "a,deep", cwd=str(source)) == ["a", "deep/", "deep/b"]
    assert done("list", packed) == ["a", "deep/", "deep/b"]
    (tmp_path / "to").mkdir()
    assert done("tar", "xf", packed, dest=f"{tmp_path}/to") == []
    assert content(tmp_path / "to") == {"a": "alpha", "deep/b": "beta"}


def test_globs_of_sources_are_expanded(source: Path, tmp_path: Path) -> None:
    assert done("tar", "-cvf", f"{tmp_path}/a.tar", ["[a]", "d*"], cwd=str(source)) == ["a", "deep/", "deep/b"]


def test_a_file_is_compressed_and_uncompressed(source: Path) -> None:
    done("gzip", f"{source}/a", options="-9 --quiet")
    assert not (source / "a").exists()
    assert done("gunzip", f"{source}/a.gz") == []
    assert (source / "a").read_text() == "alpha"


@pytest.mark.parametrize("name", NAMES)
def test_any_name_is_packed_and_unpacked(tmp_path: Path, name: str) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / name).write_text("alpha")
    for number, (pack, unpack) in enumerate((("tar", "tar"), ("zip", "unzip"), ("cmd_zip", "cmd_unzip"))):
        packed, into = f"{tmp_path}/{name}{number}", tmp_path / f"out{number}"
        into.mkdir()
        if pack == "tar":
            done("tar", "cf", packed, [name], cwd=f"{tmp_path}/in")
            done("tar", "xf", packed, dest=str(into))
        else:
            done(pack, f"{packed}.zip", [name], cwd=f"{tmp_path}/in")
            done(unpack, f"{packed}.zip", str(into))
        assert content(into) == {name: "alpha"}


@pytest.mark.parametrize("name", ["-rf", "a\nb", "a\0b", "--checkpoint-action=exec=touch owned"])
@pytest.mark.parametrize(
    ("function", "before"), [("tar", ("cf",)), ("gzip", ()), ("gunzip", ()), ("cmd_zip", ()), ("cmd_unzip", ())]
)
def test_a_name_that_a_program_would_misread_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, function: str, before: tuple[str, ...], name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    more = () if function in {"gzip", "gunzip"} else (str(tmp_path),)
    said = refusal(function, *before, name, *more)
    assert "would be taken for an option" in said or "line break or NUL" in said
    assert os.listdir(tmp_path) == []


def test_a_source_that_looks_like_an_option_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "--checkpoint=1").write_text("x")
    done("tar", "cf", f"{tmp_path}/a.tar", ["--checkpoint=1"], cwd=str(tmp_path))
    assert done("list", f"{tmp_path}/a.tar") == ["--checkpoint=1"]


def test_the_words_of_a_program_that_fails_are_the_error(tmp_path: Path) -> None:
    said = refusal("tar", "xf", f"{tmp_path}/no.tar")
    assert (said.startswith("ERROR: tar failed (return code 2): "), "No such file" in said) == (True, True)
    assert "Tar options can not be empty" in refusal("tar", "", f"{tmp_path}/no.tar")
    assert "cannot be split" in refusal("gzip", "/etc/hosts", options="'")


@pytest.mark.parametrize("options", ["xPf", "-xPf", "--extract --absolute-names -f", "-x --abs -f", "--get -P -f"])
def test_unpacking_to_absolute_paths_is_refused(tmp_path: Path, options: str) -> None:
    assert "Absolute names are not kept" in refusal("tar", options, f"{tmp_path}/a.tar")


def test_tar_leaves_out_what_would_leave_the_folder(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        for name in ("../out", "fine"):
            member = tarfile.TarInfo(name)
            member.size = 1
            archive.addfile(member, io.BytesIO(b"x"))
    (tmp_path / "to").mkdir()
    assert "Member name contains '..'" in refusal("tar", "xf", f"{tmp_path}/a.tar", dest=f"{tmp_path}/to")
    assert not (tmp_path / "out").exists()


# --- zip


REG, SYM, HARD, FOLDER = tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE

HOSTILE = {
    "a path upwards": [("../out/evil", REG, "")],
    "an absolute path": [("{out}/evil", REG, "")],
    "through a link to an absolute path": [("l", SYM, "{out}"), ("l/evil", REG, "")],
    "through a link upwards": [("l", SYM, "../out"), ("l/evil", REG, "")],
    "over a link to a file": [("l", SYM, "{out}/secret"), ("l", REG, "")],
    "over a hard link": [("h", HARD, "{out}/secret"), ("h", REG, "")],
    "over a hard link upwards": [("h", HARD, "../out/secret"), ("h", REG, "")],
    "over a hard link to a link": [("l", SYM, "{out}/secret"), ("h", HARD, "l"), ("h", REG, "")],
    "in two steps": [("a", SYM, "."), ("a/b", SYM, ".."), ("b/out/evil", REG, "")],
    "over a link that becomes a folder": [("l", SYM, "{out}"), ("l", FOLDER, ""), ("l/evil", REG, "")],
    "over a link with other rights": [("l", SYM, "{out}"), ("l", FOLDER, ""), ("l", SYM, "{out}"), ("l/evil", REG, "")],
}
"""Members of archives that are to write where they should not: name, kind and aim."""


@pytest.mark.parametrize("members", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("options", ["xf", "--extract --overwrite -f", "-x --unlink-first -f"])
def test_tar_writes_nothing_outside_of_the_folder(
    tmp_path: Path, members: list[tuple[str, bytes, str]], options: str
) -> None:
    out, into = tmp_path / "out", tmp_path / "into"
    out.mkdir(mode=0o750)
    into.mkdir()
    (out / "secret").write_text("secret")
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        for name, kind, aim in members:
            member = tarfile.TarInfo(name.format(out=out))
            member.type, member.linkname, member.mode = kind, aim.format(out=out), 0o777
            member.size = 4 if kind == REG else 0
            archive.addfile(member, io.BytesIO(b"evil"))
    run("tar", options, f"{tmp_path}/a.tar", dest=str(into))
    assert content(out) == {"secret": "secret"}
    assert ((out / "secret").stat().st_nlink, stat.S_IMODE(out.stat().st_mode)) == (1, 0o750)


def test_a_zip_file_is_what_unzip_reads(source: Path, tmp_path: Path) -> None:
    assert done("zip", f"{tmp_path}/a.zip", "a,deep", cwd=str(source)) == ["a", "deep/", "deep/b"]
    subprocess.run(["unzip", "-q", tmp_path / "a.zip", "-d", tmp_path / "to"], check=True)
    assert content(tmp_path / "to") == {"a": "alpha", "deep/b": "beta"}
    assert stat.S_IMODE((tmp_path / "to/deep/b").stat().st_mode) == 0o750


def test_a_whole_folder_is_packed_and_names_with_dots_are_unpacked(source: Path, tmp_path: Path) -> None:
    (source / "..\\c").write_text("gamma")
    assert sorted(done("zip", f"{tmp_path}/a.zip", ".", cwd=str(source))) == ["..\\c", "a", "deep/", "deep/b"]
    done("unzip", f"{tmp_path}/a.zip", f"{tmp_path}/to")
    assert content(tmp_path / "to") == content(source)
    done("unzip", zip_of(tmp_path / "b.zip", ("./", "", stat.S_IFDIR | 0o755), ("./a", "x", FILE)), f"{tmp_path}/to2")
    assert content(tmp_path / "to2") == {"a": "x"}


def test_names_are_relative_to_the_root_folder_without_cwd(source: Path, tmp_path: Path) -> None:
    assert done("zip", f"{tmp_path}/a.zip", f"{source}/a") == [f"{source}/a"[1:]]
    assert "Relative paths require the 'cwd' parameter" in refusal("zip", f"{tmp_path}/a.zip", "a")
    assert "cwd must be absolute" in refusal("zip", f"{tmp_path}/a.zip", "a", cwd="src")


def test_a_zip_file_that_cannot_be_completed_leaves_the_old_one(source: Path, tmp_path: Path) -> None:
    done("zip", f"{tmp_path}/a.zip", "a", cwd=str(source))
    os.mkfifo(source / "deep/pipe")
    assert "is not a file" in refusal("zip", f"{tmp_path}/a.zip", "deep", cwd=str(source))
    assert "There is no " in refusal("zip", f"{tmp_path}/a.zip", "a,nosuch", cwd=str(source))
    assert done("list", f"{tmp_path}/a.zip") == ["a"]
    assert sorted(os.listdir(tmp_path)) == ["a.zip", "src"]


def test_members_are_unpacked_with_their_modes(source: Path, tmp_path: Path) -> None:
    suid = stat.S_IFREG | 0o4711
    archive = zip_of(tmp_path / "a.zip", ("d/", "", stat.S_IFDIR | 0o555), ("d/a", "x", suid), ("b", "y", FILE))
    assert done("unzip", archive, f"{tmp_path}/to", excludes="b") == ["d/", "d/a"]
    assert content(tmp_path / "to") == {"d/a": "x"}
    assert [stat.S_IMODE((tmp_path / "to" / name).stat().st_mode) for name in ("d", "d/a")] == [0o555, 0o711]
    done("unzip", archive, f"{tmp_path}/plain", extract_perms=False)
    assert stat.S_IMODE((tmp_path / "plain/d/a").stat().st_mode) & 0o111 == 0


def test_links_within_the_folder_are_unpacked(tmp_path: Path) -> None:
    archive = zip_of(tmp_path / "a.zip", ("d/link", "../b", LINK), ("b", "y", FILE))
    done("unzip", archive, f"{tmp_path}/to")
    assert ((tmp_path / "to/d/link").readlink(), content(tmp_path / "to")) == (Path("../b"), {"b": "y", "d/link": "y"})


LEAVING: dict[str, list[tuple[str, str, int]]] = {
    "up": [("../out", "x", FILE)],
    "up in the middle": [("a/../../out", "x", FILE)],
    "absolute": [("/tmp/slt-out", "x", FILE)],
    "a dot": [("./..", "x", FILE)],
    "link up": [("link", "../out", LINK)],
    "absolute link": [("link", "/etc", LINK)],
    "link up from a folder": [("d/link", "../../out", LINK)],
    "link down and up": [("link", "d/../../out", LINK)],
    "through a link": [("link", ".", LINK), ("link/link2", "../out", LINK)],
    "through a link of the archive": [("d/", "", stat.S_IFDIR | 0o755), ("link", "d", LINK), ("link/a", "x", FILE)],
}


@pytest.mark.parametrize("members", LEAVING.values(), ids=LEAVING)
def test_nothing_leaves_the_folder(tmp_path: Path, members: list[tuple[str, str, int]]) -> None:
    archive = zip_of(tmp_path / "a.zip", ("fine", "x", FILE), *members)
    said = refusal("unzip", archive, f"{tmp_path}/to/deep")
    assert "leave the folder" in said
    assert sorted(os.listdir(tmp_path)) in (["a.zip"], ["a.zip", "to"])
    assert not os.path.exists("/tmp/slt-out")


def test_links_that_are_there_already_are_not_written_through(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "to").mkdir()
    (tmp_path / "to/d").symlink_to("../outside")
    (tmp_path / "to/a").symlink_to("../secret")
    archive = zip_of(tmp_path / "a.zip", ("a", "x", FILE), ("d/b", "y", FILE))
    assert "through a link" in refusal("unzip", archive, f"{tmp_path}/to")
    assert ((tmp_path / "secret").read_text(), os.listdir(tmp_path / "outside")) == ("secret", [])
    assert (tmp_path / "to/a").read_text() == "x"


@ROOT_ONLY
def test_nothing_is_unpacked_over_links_of_others(tmp_path: Path) -> None:
    archive = zip_of(tmp_path / "a.zip", ("a", "x", FILE))
    (tmp_path / "roots").mkdir()
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs/to").symlink_to("../roots")
    for path in (tmp_path / "theirs", tmp_path / "theirs/to"):
        os.lchown(path, 54321, 54321)
    assert "to what is not theirs" in refusal("unzip", archive, f"{tmp_path}/theirs/to")
    subprocess.run(["tar", "-cf", tmp_path / "a.tar", "a.zip"], cwd=tmp_path, check=True)
    assert "to what is not theirs" in refusal("tar", "xf", f"{tmp_path}/a.tar", dest=f"{tmp_path}/theirs/to")
    assert os.listdir(tmp_path / "roots") == []


def test_a_password_opens_and_is_not_repeated(source: Path, tmp_path: Path) -> None:
    archive = tmp_path / "a.zip"
    subprocess.run(["zip", "-q", "-P", "hunter2", archive, "a"], cwd=source, check=True)
    assert done("is_encrypted", str(archive)) is True
    assert done("unzip", str(archive), f"{tmp_path}/to", password="hunter2") == ["a"]
    said = refusal("unzip", str(archive), f"{tmp_path}/to2", password="hunter3")
    assert ("password" in said, "hunter" in said) == (True, False)
    assert "use archive.unzip" in refusal("cmd_unzip", str(archive), f"{tmp_path}/to2", password="hunter2")


def test_a_file_that_is_no_archive_is_said_to_be_none(source: Path, tmp_path: Path) -> None:
    for fun, *more in (("unzip", str(tmp_path)), ("is_encrypted",), ("list", "zip")):
        assert "is not a ZIP file" in refusal(fun, f"{source}/a", *more)
    assert "is not a readable tar archive" in refusal("list", f"{source}/a", "tar")
    assert "there is no such file" in refusal("list", f"{tmp_path}/no.zip")
    assert "options are those of the program" in refusal("unzip", f"{source}/a", str(tmp_path), options="-o")


def test_programs_for_zip_files_say_what_they_did(source: Path, tmp_path: Path) -> None:
    assert done("cmd_zip", f"{tmp_path}/a.zip", "a,deep", cwd=str(source))[0].strip().startswith("adding: a")
    printed = done("cmd_unzip", f"{tmp_path}/a.zip", f"{tmp_path}/to", excludes=["a"], trim_output=1)
    assert printed == [f"Archive:  {tmp_path}/a.zip", "List trimmed after 1 files."]
    assert content(tmp_path / "to") == {"deep/b": "beta"}
    assert "Paths with .. are not kept" in refusal("cmd_unzip", f"{tmp_path}/a.zip", f"{tmp_path}/to", options="-o:")


@ROOT_ONLY
def test_another_user_can_be_who_packs_and_unpacks(tmp_path: Path) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o711)
        (Path(folder) / "secret").touch(mode=0o600)
        (Path(folder) / "open").write_text("x")
        (Path(folder) / "to").mkdir()
        shutil.chown(f"{folder}/to", "nobody")
        assert "Permission denied" in refusal("zip", f"{folder}/to/a.zip", "secret", cwd=folder, runas="nobody")
        done("zip", f"{folder}/to/a.zip", "open", cwd=folder, runas="nobody")
        done("unzip", f"{folder}/to/a.zip", f"{folder}/to/new", runas="nobody")
        assert {path.owner() for path in Path(folder, "to").rglob("*")} == {"nobody"}
    assert (os.geteuid(), os.getegid()) == (0, 0)
    assert "User 'sltnosuch' does not exist" in refusal("unzip", "/a.zip", "/tmp/x", runas="sltnosuch")


# --- list


def test_a_list_tells_folders_files_links_and_what_is_at_the_top(tmp_path: Path) -> None:
    (tmp_path / "top/deep").mkdir(parents=True)
    (tmp_path / "top/deep/a").touch()
    (tmp_path / "top/link").symlink_to("deep")
    done("tar", "cf", f"{tmp_path}/a.tar", "top", cwd=str(tmp_path))
    assert done("list", f"{tmp_path}/a.tar", verbose=True) == {
        "dirs": ["top/", "top/deep/"], "files": ["top/deep/a"], "links": ["top/link"],
        "top_level_dirs": ["top/"], "top_level_files": [], "top_level_links": [],
    }  # fmt: skip
    assert done("list", f"{tmp_path}/a.tar", strip_components=1) == ["deep/", "deep/a", "link"]
    assert "must be a positive integer" in refusal("list", f"{tmp_path}/a.tar", strip_components=0)


def test_folders_without_an_entry_are_listed_too(tmp_path: Path) -> None:
    archive = zip_of(tmp_path / "a.zip", ("d/a", "x", FILE), ("d/link", "a", LINK))
    found = done("list", archive, verbose=True)
    assert (found["dirs"], found["files"], found["links"], found["top_level_dirs"]) == (
        ["d/"],
        ["d/a"],
        ["d/link"],
        ["d/"],
    )


@pytest.mark.parametrize("given", [{"options": "-j"}, {"source_hash": "md5=0"}, {"use_etag": True}])
def test_what_is_for_programs_or_the_web_is_refused(source: Path, given: dict[str, Any]) -> None:
    said = refusal("list", f"{source}/a", "tar", **given)
    assert ("options is not supported" if "options" in given else "from the web") in said


def test_the_format_is_guessed_or_given(source: Path, tmp_path: Path) -> None:
    done("zip", f"{tmp_path}/a.data", "a", cwd=str(source))
    assert "Unable to guess archive format" in refusal("list", f"{tmp_path}/a.data")
    assert "Unsupported archive format 'cab'" in refusal("list", f"{tmp_path}/a.data", archive_format="cab")
    assert done("list", f"{tmp_path}/a.data", archive_format="zip") == ["a"]


def test_an_archive_of_the_master_is_fetched_and_its_copy_removed_when_told(tmp_path: Path) -> None:
    served = Served(tmp_path)
    zip_of(served.root / "a.zip", ("a", "x", FILE))
    loader = Loader(INDEX, {}, {}, {}, more={"__file_client__": served.client})
    kept = call(loader, "cp.cache_file", ["salt://a.zip"], {}).value
    assert call(loader, "archive.list", ["salt://a.zip"], {}).value == ["a"]
    assert os.path.exists(kept)
    assert call(loader, "archive.list", ["salt://a.zip"], {"clean": True}).value == ["a"]
    assert not os.path.exists(kept)
    assert call(loader, "archive.is_encrypted", [f"{served.root}/a.zip"], {"clean": True}).value is False
    assert (served.root / "a.zip").exists()


@pytest.mark.skipif(shutil.which("rar") is not None, reason="rar is installed here")
def test_rar_is_said_to_be_missing(source: Path, tmp_path: Path) -> None:
    assert "Command required for 'archive.rar' not found: rar" in refusal("rar", f"{tmp_path}/a.rar", f"{source}/a")
    if shutil.which("unrar") is None:
        assert "neither unrar nor rar is installed" in refusal("unrar", f"{source}/a", str(tmp_path))


def test_names_can_be_templates(source: Path, tmp_path: Path) -> None:
    done("zip", f"{tmp_path}/{{{{ grains.os }}}}.zip", "{{ 'a' }}", cwd=str(source), template="jinja")
    assert done("list", f"{tmp_path}/Debian.zip") == ["a"]


@ROOT_ONLY
def test_no_program_writes_an_archive_over_a_link_that_a_user_has_put_there(source: Path, tmp_path: Path) -> None:
    theirs, kept = tmp_path / "theirs", tmp_path / "kept"
    theirs.mkdir()
    kept.write_text("kept")
    link = theirs / "backup"
    link.symlink_to(kept)
    for each in (theirs, link):
        os.chown(each, 65534, 65534, follow_symlinks=False)
    for fun, args in (("tar", ("cf", str(link), str(source))), ("cmd_zip", (str(link), str(source)))):
        assert "to what is not theirs" in refusal(fun, *args)
    assert "to what is not theirs" in refusal("tar", "cf", "backup", str(source), cwd=str(theirs))
    assert kept.read_text() == "kept"
