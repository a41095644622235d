"""A minion that runs as root in folders of others: no link of theirs leads it to what they could not do themselves."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from saltlite.errors import CommandExecutionError
from saltlite.plugins.modules import _machinefiles, _safe_files
from tests.support.modules import done, refusal, run

UID, GID = 54321, 54322
"""Whose folder it is: numbers that nobody has."""

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root writes where others do")

STRANGE = "to what is not theirs: give the path that it leads to"

CALLS: dict[str, tuple[Any, ...]] = {
    "append": ("x",),
    "blockreplace": ("#a", "#b", "x", True),
    "check_perms": (None, UID, GID, "0666", None, True),
    "chown": (UID, GID),
    "comment": ("secret",),
    "line": ("x", None, "insert", "end"),
    "manage_file": ("", None, None, None, UID, GID, "0666", None, "base", False, False, None, True, "x"),
    "prepend": ("x",),
    "psed": ("secret", "x"),
    "replace": ("secret", "x"),
    "sed": ("secret", "x"),
    "seek_write": ("x", 0),
    "set_mode": ("0666",),
    "touch": (1, 1),
    "truncate": (1,),
    "write": ("x",),
}
"""Function -> what stands behind the path, for calls that would change a file."""

IN_FOLDER: dict[str, tuple[Any, ...]] = {
    **CALLS,
    "lchown": (UID, GID),
    "remove": (),
}


class Site:
    """A file of root's, and a folder of somebody else."""

    def __init__(self, folder: Path) -> None:
        self.roots = folder / "roots"
        self.roots.mkdir()
        self.file = self.roots / "file"
        self.file.write_text("secret\n")
        self.file.chmod(0o600)
        self.theirs = folder / "theirs"
        self.theirs.mkdir()
        os.chown(self.theirs, UID, GID)

    def link(self, name: str, aim: Path) -> Path:
        """A link that they made."""
        path = self.theirs / name
        path.symlink_to(aim)
        os.lchown(path, UID, GID)
        return path

    def untouched(self) -> bool:
        found = self.file.stat()
        return (
            self.file.read_text() == "secret\n"
            and (found.st_uid, stat.S_IMODE(found.st_mode)) == (0, 0o600)
            and found.st_mtime > 1
            and os.listdir(self.roots) == ["file"]
            and self.roots.stat().st_uid == 0
        )


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def said_by(function: str, *args: Any) -> str:
    """What a call says that does not do what it was asked to."""
    outcome = run(function, *args)
    found = outcome.value[0] if isinstance(outcome.value, list | tuple) else outcome.value
    if isinstance(found, dict):
        assert found["result"] is False
        return str(found["comment"])
    assert outcome.retcode == 1, outcome.value
    return str(outcome.value)


@pytest.mark.parametrize("function", CALLS)
def test_a_link_of_others_does_not_lead_to_a_file_of_roots(function: str, site: Site) -> None:
    said = said_by(function, str(site.link("link", site.file)), *CALLS[function])
    assert STRANGE in said
    assert site.untouched()


@pytest.mark.parametrize("function", IN_FOLDER)
def test_a_linked_folder_of_others_does_not_lead_there_either(function: str, site: Site) -> None:
    site.link("folder", site.roots)
    assert STRANGE in said_by(function, f"{site.theirs}/folder/file", *IN_FOLDER[function])
    assert site.untouched()


@pytest.mark.parametrize(
    ("function", "args"),
    [
        ("copy", ("{theirs}/own", "{theirs}/folder/new")),
        ("find", ("{theirs}/folder", "delete")),
        ("link", ("{theirs}/own", "{theirs}/folder/new")),
        ("makedirs", ("{theirs}/folder/a/b",)),
        ("mkdir", ("{theirs}/folder/new", UID)),
        ("mknod_fifo", ("{theirs}/folder/new",)),
        ("move", ("{theirs}/folder/file", "{theirs}/got")),
        ("rename", ("{theirs}/own", "{theirs}/folder/file")),
        ("symlink", ("/etc", "{theirs}/folder/new")),
        ("touch", ("{theirs}/folder/new",)),
        ("write", ("{theirs}/folder/new", "x")),
    ],
)
def test_nothing_is_made_moved_or_removed_behind_a_link_of_others(
    function: str, args: tuple[Any, ...], site: Site
) -> None:
    site.link("folder", site.roots)
    (site.theirs / "own").write_text("x")
    given = [arg.format(theirs=site.theirs) if isinstance(arg, str) else arg for arg in args]
    assert STRANGE in refusal(function, *given)
    assert site.untouched()


def test_a_link_in_a_folder_for_everybody_does_not_lead_there(site: Site, tmp_path: Path) -> None:
    shared = tmp_path / "tmp"
    shared.mkdir()
    shared.chmod(0o1777)
    (shared / "link").symlink_to(site.file)
    os.lchown(shared / "link", UID, GID)
    # Whether the kernel refuses it by itself depends on the machine.
    assert run("append", str(shared / "link"), "x").retcode == 1
    with pytest.raises(CommandExecutionError, match="not theirs"):
        _machinefiles.replace(str(shared / "link"), "127.0.0.1 evil\n")
    assert site.untouched()


def test_links_that_lead_to_what_is_theirs_are_followed(site: Site) -> None:
    (site.theirs / "own").write_text("a\n")
    os.chown(site.theirs / "own", UID, GID)
    done("append", str(site.link("link", Path("own"))), "x")
    assert (site.theirs / "own").read_text() == "a\nx\n"


def test_a_file_of_roots_in_their_folder_is_written_over_their_link(site: Site) -> None:
    (site.theirs / "release").mkdir()
    os.chown(site.theirs / "release", UID, GID)
    (site.theirs / "release" / "config").write_text("a\n")
    site.link("current", Path("release"))
    done("write", f"{site.theirs}/current/config", "x")
    assert (site.theirs / "release" / "config").read_text() == "x\n"


def test_a_link_is_followed_where_only_root_could_have_put_it(site: Site) -> None:
    (site.roots / "link").symlink_to("file")
    os.lchown(site.roots / "link", UID, GID)
    done("append", f"{site.roots}/link", "x")
    assert site.file.read_text() == "secret\nx\n"


def test_a_file_is_read_over_any_link(site: Site) -> None:
    link = str(site.link("link", site.file))
    assert done("read", link) == "secret\n"
    assert done("search", link, "secret") is True


def test_links_in_a_circle_are_no_way(site: Site) -> None:
    (site.roots / "a").symlink_to("b")
    (site.roots / "b").symlink_to("a")
    with pytest.raises(OSError, match="Too many levels"), _safe_files.pinned(f"{site.roots}/a"):
        pass


def test_so_many_links_are_followed(site: Site) -> None:
    last = site.file
    for number in range(_safe_files.LINKS_MAX + 1):
        (site.roots / f"{number}").symlink_to(last)
        last = site.roots / f"{number}"
    done("append", f"{site.roots}/{_safe_files.LINKS_MAX - 1}", "x")
    with pytest.raises(OSError, match="Too many levels"), _safe_files.pinned(str(last)):
        pass


# --- what is exchanged meanwhile


def swapped(folder: Path, aim: Path) -> None:
    """What they do in an instant: their folder goes, and a link has its name."""
    os.rename(folder, f"{folder}.away")
    os.symlink(aim, folder)
    os.lchown(folder, UID, GID)


def once_before(monkeypatch: pytest.MonkeyPatch, name: str, deed: Callable[[], None]) -> None:
    """Have `deed` done when `os.<name>` is called for the first time, and right before that."""
    real, deeds = getattr(os, name), [deed]

    def with_deed(*args: Any, **kwargs: Any) -> Any:
        if deeds:
            deeds.pop()()
        return real(*args, **kwargs)

    monkeypatch.setattr(os, name, with_deed)


def test_a_folder_that_is_exchanged_while_a_file_is_written_gets_it_nonetheless(site: Site) -> None:
    sub = site.theirs / "sub"
    sub.mkdir()
    (sub / "file").write_text("old\n")

    def pieces() -> Any:
        yield b"ne"
        swapped(sub, site.roots)
        yield b"w\n"

    _safe_files.write_whole(str(sub / "file"), pieces())
    assert (Path(f"{sub}.away") / "file").read_text() == "new\n"
    assert site.untouched()


def test_a_file_with_hard_links_that_is_exchanged_meanwhile_is_not_written(site: Site) -> None:
    (site.theirs / "file").write_text("old\n")
    os.link(site.theirs / "file", site.theirs / "other")

    def pieces() -> Any:
        yield b"new\n"
        os.unlink(site.theirs / "file")
        os.link(site.file, site.theirs / "file")

    with pytest.raises(CommandExecutionError, match="replaced by another file"):
        _safe_files.write_whole(str(site.theirs / "file"), pieces())
    assert site.untouched()


def test_a_folder_that_is_exchanged_when_it_was_made_does_not_open_another(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    once_before(monkeypatch, "chown", lambda: swapped(site.theirs / "new", site.roots))
    done("mkdir", str(site.theirs / "new"), UID, GID, "0777")
    assert (stat.S_IMODE(site.roots.stat().st_mode), site.roots.stat().st_uid) == (0o755, 0)
    assert site.untouched()


def test_a_file_that_is_exchanged_before_its_mode_is_set_does_not_open_another(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    (site.theirs / "file").write_text("x")
    once_before(monkeypatch, "chmod", lambda: swapped(site.theirs / "file", site.file))
    done("check_perms", str(site.theirs / "file"), None, None, None, "0666")
    assert site.untouched()


def test_a_folder_that_is_exchanged_while_it_is_copied_does_not_show_another(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (site.theirs / "tree" / "sub").mkdir(parents=True)
    (tmp_path / "copy").mkdir()
    once_before(monkeypatch, "mkdir", lambda: swapped(site.theirs / "tree" / "sub", site.roots))
    assert "Not a directory" in refusal("copy", f"{site.theirs}/tree", f"{tmp_path}/copy", recurse=True)
    assert not list(tmp_path.glob("copy/**/file"))


def test_a_folder_that_is_exchanged_while_it_is_copied_into_gets_the_copy_nonetheless(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "file").write_text("x")
    (site.theirs / "copy").mkdir()
    once_before(monkeypatch, "listdir", lambda: swapped(site.theirs / "copy", site.roots))
    done("copy", f"{tmp_path}/tree", f"{site.theirs}/copy", recurse=True)
    assert (site.theirs / "copy.away" / "file").read_text() == "x"
    assert site.untouched()


def test_a_folder_that_is_exchanged_while_it_is_removed_takes_no_other_with_it(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    (site.theirs / "tree" / "sub").mkdir(parents=True)
    once_before(monkeypatch, "rmdir", lambda: swapped(site.theirs / "tree", site.roots))
    run("remove", f"{site.theirs}/tree")
    assert site.untouched()


def test_what_is_edited_is_not_read_over_a_link_that_came_meanwhile(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    (site.theirs / "file").write_text("x\n")
    real = _safe_files.blocks

    def later(path: str, **kwargs: Any) -> Any:
        swapped(site.theirs / "file", site.file)
        return real(path, **kwargs)

    monkeypatch.setattr(_safe_files, "blocks", later)
    assert STRANGE in refusal("replace", f"{site.theirs}/file", "x", "y", backup=False)
    assert (site.theirs / "file.away").read_text() == "x\n"
