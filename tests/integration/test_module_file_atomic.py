"""A file that is written is the old one or the new one, with the mode, owner, labels and links that it had."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import signal
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from saltlite.errors import CommandExecutionError
from saltlite.loader.encode import decode_return
from saltlite.minion.protocol.effects import ReceivedPart
from saltlite.model.ids import Jid
from saltlite.plugins.modules import _safe_files
from saltlite.plugins.modules.file import backups, lines, text
from saltlite.testing.disk import MemoryDisk
from saltlite.wire import job_body, merkle
from tests.faults.disks import MIB, fill, small_disk
from tests.support.job_machine import jid
from tests.support.jobs import Minion
from tests.support.keys import JOB_PRIVATE
from tests.support.modules import done, refusal, run

OLD = "old line\n" * 2000
NOBODY = 65534
ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")

EDITS: dict[str, tuple[list[Any], dict[str, Any]]] = {
    "append": (["x" * MIB], {}),
    "blockreplace": ([], {"content": "x" * MIB, "append_if_not_found": True, "backup": False}),
    "line": (["x" * MIB], {"mode": "insert", "location": "end"}),
    "prepend": (["x" * MIB], {}),
    "psed": (["old", "x" * 1000], {"backup": False}),
    "replace": (["old", "x" * 1000], {"backup": False}),
    "seek_write": (["x" * MIB, 9], {}),
    "write": (["x" * MIB], {}),
}
"""Calls that want more room than there is."""


def children(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


@contextlib.contextmanager
def file_size_limit(size: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


# --- a disk that is full


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A disk with a file and little more room."""
    with small_disk(tmp_path_factory.mktemp("full") / "disk", 2 * MIB) as folder:
        (folder / "file").write_text(OLD)
        fill(folder, leave=MIB // 2)
        yield folder


@pytest.mark.parametrize("function", EDITS)
def test_on_a_full_disk_the_file_stays_and_the_error_says_why(function: str, full: Path) -> None:
    args, kwargs = EDITS[function]
    sentence = refusal(function, str(full / "file"), *args, **kwargs)
    assert sentence == f"ERROR: {full}/file cannot be written: No space left on device."
    assert (full / "file").read_text() == OLD
    assert children(full) == ["file", "filler"]


@pytest.mark.parametrize("function", ["sed", "patch"])
def test_a_program_that_meets_a_full_disk_leaves_the_file_and_its_words(
    function: str, full: Path, tmp_path: Path
) -> None:
    (tmp_path / "patch").write_text(f"--- file\n+++ file\n@@ -1 +1 @@\n-old line\n+{'x' * MIB}\n")
    args = ("old", "x" * 1000, "", False) if function == "sed" else (str(tmp_path / "patch"),)
    outcome = run(function, str(full / "file"), *args)
    assert outcome.retcode == outcome.value["retcode"] != 0
    assert "No space left on device" in outcome.value["stderr"]
    assert ((full / "file").read_text(), children(full)) == (OLD, ["file", "filler"])


@pytest.mark.parametrize("function", EDITS)
def test_a_file_that_may_not_grow_stays_and_the_error_says_why(function: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text(OLD)
    args, kwargs = EDITS[function]
    with file_size_limit(MIB // 2):
        sentence = refusal(function, str(tmp_path / "file"), *args, **kwargs)
    assert sentence == f"ERROR: {tmp_path}/file cannot be written: File too large."
    assert (tmp_path / "file").read_text() == OLD
    assert children(tmp_path) == ["file"]


def test_a_file_with_further_hard_links_stays_on_a_full_disk_too(full: Path) -> None:
    os.link(full / "file", full / "other")
    sentence = refusal("write", str(full / "file"), "x" * (MIB // 3))
    assert sentence.endswith("No space left on device.")
    assert (full / "other").read_text() == OLD
    (full / "other").unlink()


def test_a_job_that_meets_a_full_disk_fails_with_the_sentence(full: Path, tmp_path: Path) -> None:
    minion = Minion(tmp_path, MemoryDisk())
    try:
        minion.parcel(job_of("file.replace", str(full / "file"), "old", "x" * 1000, backup=False))
        minion.until(lambda: minion.told.result(0))
    finally:
        minion.close()
    result = minion.told.result(0)
    assert result is not None
    assert (result["state"], result["code"]) == ("returned", 1)
    assert decode_return(result["body"]) == f"ERROR: {full}/file cannot be written: No space left on device."
    assert (full / "file").read_text() == OLD


def job_of(fun: str, *args: Any, **kwargs: Any) -> ReceivedPart:
    body = job_body.encode_body(
        job_body.JobBody(
            jid=Jid(jid()),
            calls=(job_body.FunctionCall(fun, list(args), kwargs),),
            user="root",
            audience=merkle.root(["web1"]),
            run_ms=0,
            deliver_ms=60_000,
        )
    )
    proof = merkle.proofs(["web1"])["web1"]
    return ReceivedPart(jid(), body, job_body.sign(JOB_PRIVATE, body), proof, 60_000)


# --- a process that is killed

HALF_WAY = """
import sys, time
from saltlite.plugins.modules import _safe_files

def pieces():
    yield b"new" * 500_000
    print("half", flush=True)
    time.sleep(60)

_safe_files.write_whole(sys.argv[1], pieces())
"""
OVER_AND_OVER = """
import itertools, sys
from saltlite.plugins.modules import _safe_files

print("begun", flush=True)
for letter in itertools.cycle([b"a", b"b"]):
    _safe_files.write_whole(sys.argv[1], [letter * 1_000_000] * 3)
"""


def killed_after_its_word(program: str, path: Path, later_s: float = 0.0) -> None:
    with subprocess.Popen([sys.executable, "-c", program, path], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(later_s)
        process.send_signal(signal.SIGKILL)


def test_a_process_that_is_killed_half_way_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "file").write_text(OLD)
    killed_after_its_word(HALF_WAY, tmp_path / "file")
    assert (tmp_path / "file").read_text() == OLD
    assert children(tmp_path) == ["file"]


@pytest.mark.parametrize("moment_s", [0.0, 0.003, 0.013, 0.021])
def test_whenever_a_process_is_killed_the_file_is_one_or_the_other(moment_s: float, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"a" * 3_000_000)
    killed_after_its_word(OVER_AND_OVER, tmp_path / "file", moment_s)
    assert (tmp_path / "file").read_bytes() in (b"a" * 3_000_000, b"b" * 3_000_000)


# --- what stays of a file


def test_a_new_file_has_the_mode_that_the_umask_leaves(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        done("write", str(tmp_path / "file"), "x")
    finally:
        os.umask(before)
    assert (tmp_path / "file").stat().st_mode & 0o7777 == 0o640


def test_a_mode_for_new_files_is_for_new_files(tmp_path: Path) -> None:
    (tmp_path / "old").touch(mode=0o600)
    before = os.umask(0o077)
    try:
        for name in ("old", "new"):
            _safe_files.write_whole(str(tmp_path / name), b"x", new_mode=0o664)
    finally:
        os.umask(before)
    assert [(tmp_path / name).stat().st_mode & 0o7777 for name in ("old", "new")] == [0o600, 0o664]


@pytest.mark.parametrize("mode", [0o600, 0o444, 0o4755, 0o2750])
def test_the_mode_stays(mode: int, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("a\n")
    (tmp_path / "file").chmod(mode)
    done("replace", str(tmp_path / "file"), "a", "b")
    assert {name: (tmp_path / name).stat().st_mode & 0o7777 for name in children(tmp_path)} == {
        "file": mode,
        "file.bak": mode,
    }


@ROOT
def test_the_owner_stays_and_the_copy_has_it_too(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("a\n")
    os.chown(tmp_path / "file", 1234, 2345)
    (tmp_path / "file").chmod(0o6755)
    done("comment_line", str(tmp_path / "file"), "a")
    for name in ("file", "file.bak"):
        found = (tmp_path / name).stat()
        assert (found.st_uid, found.st_gid, found.st_mode & 0o7777) == (1234, 2345, 0o6755)


def test_extended_attributes_and_acls_stay(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("a\n")
    # Version 2; owner rw, user 1234 r, group none, mask r, others none.
    rights = [(1, 6, 2**32 - 1), (2, 4, 1234), (4, 0, 2**32 - 1), (16, 4, 2**32 - 1), (32, 0, 2**32 - 1)]
    acl = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *right) for right in rights)
    try:
        os.setxattr(tmp_path / "file", "system.posix_acl_access", acl)
        os.setxattr(tmp_path / "file", "user.saltlite", b"kept")
    except OSError as error:
        if error.errno != errno.EOPNOTSUPP:
            raise
        pytest.skip("the file system of this folder has no extended attributes")
    done("replace", str(tmp_path / "file"), "a", "b")
    for name in ("file", "file.bak"):
        assert os.getxattr(tmp_path / name, "system.posix_acl_access") == acl
        assert os.getxattr(tmp_path / name, "user.saltlite") == b"kept"


def test_a_call_that_changes_nothing_does_not_touch_the_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("a\n")
    os.utime(tmp_path / "file", (1, 1))
    before = (tmp_path / "file").stat()
    assert done("replace", str(tmp_path / "file"), "a", "a") == ""
    assert done("line", str(tmp_path / "file"), "a", mode="replace", match="a") is False
    after = (tmp_path / "file").stat()
    assert (after.st_ino, after.st_mtime) == (before.st_ino, 1)


ADDING_X: dict[str, tuple[list[Any], dict[str, Any]]] = {
    "append": (["x"], {}),
    "blockreplace": ([], {"content": "x", "append_if_not_found": True}),
    "line": (["x"], {"mode": "insert", "location": "end"}),
    "replace": (["a", "x"], {}),
    "sed": (["a", "x"], {}),
    "write": (["x"], {}),
}


@pytest.mark.parametrize("function", ADDING_X)
def test_a_symbolic_link_stays_one_and_its_file_changes(function: str, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "file").write_text("a\n")
    (tmp_path / "link").symlink_to("there/file")
    args, kwargs = ADDING_X[function]
    done(function, str(tmp_path / "link"), *args, **kwargs)
    assert os.readlink(tmp_path / "link") == "there/file"
    assert "x" in (tmp_path / "there" / "file").read_text()


def test_the_copy_of_a_linked_file_lies_beside_it_and_a_link_beside_the_link(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "file").write_text("a\n")
    (tmp_path / "link").symlink_to("there/file")
    (tmp_path / "far").symlink_to("link")
    for link, aim in (("link", "there/file.bak"), ("far", str(tmp_path / "there" / "file.bak"))):
        (tmp_path / "there" / "file").write_text("a\n")
        done("replace", str(tmp_path / link), "a", "x")
        assert os.readlink(tmp_path / f"{link}.bak") == aim
        assert (tmp_path / f"{link}.bak").read_text() == "a\n"
    assert children(tmp_path / "there") == ["file", "file.bak"]


def test_a_link_that_points_nowhere_gets_its_file(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("file")
    done("write", str(tmp_path / "link"), "x")
    assert (tmp_path / "file").read_text() == "x\n"


def test_an_older_copy_is_replaced_and_not_what_it_points_to(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("a\n")
    (tmp_path / "precious").write_text("p\n")
    (tmp_path / "file.bak").symlink_to("precious")
    done("replace", str(tmp_path / "file"), "a", "x")
    assert ((tmp_path / "file.bak").read_text(), (tmp_path / "precious").read_text()) == ("a\n", "p\n")


def test_hard_links_go_on_sharing_the_file_or_become_names_of_the_copy(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("aaa\n")
    os.link(tmp_path / "file", tmp_path / "other")
    done("replace", str(tmp_path / "file"), "a+", "b")
    assert (tmp_path / "other").read_text() == "b\n"
    assert os.path.samefile(tmp_path / "file", tmp_path / "other")
    done("replace", str(tmp_path / "file"), "b", "c", preserve_inode=False)
    assert ((tmp_path / "file").read_text(), (tmp_path / "other").read_text()) == ("c\n", "b\n")
    assert os.path.samefile(tmp_path / "file.bak", tmp_path / "other")


@ROOT
def test_a_file_on_which_another_is_mounted_is_written_in_place(tmp_path: Path) -> None:
    (tmp_path / "source").write_text("long content\n")
    (tmp_path / "file").touch()
    if subprocess.run(["mount", "--bind", tmp_path / "source", tmp_path / "file"], check=False).returncode:
        pytest.skip("nothing can be mounted here")
    try:
        done("write", str(tmp_path / "file"), "x")
        assert (tmp_path / "source").read_text() == "x\n"
        done("append", str(tmp_path / "file"), "a longer line")
        assert (tmp_path / "source").read_text() == "x\na longer line\n"
    finally:
        subprocess.run(["umount", tmp_path / "file"], check=True)
    assert children(tmp_path) == ["file", "source"]


def test_a_file_of_the_kernel_is_written_in_place() -> None:
    name = f"/proc/{os.getpid()}/comm"
    before = done("read", name)
    try:
        done("write", name, "saltlite-file")
        assert done("read", name).strip() == "saltlite-file"
    finally:
        Path(name).write_text(before.strip())


@ROOT
def test_an_ordinary_user_writes_his_files_and_keeps_the_owner_of_others() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder, his = Path(name), Path(name) / "his"
        folder.chmod(0o755)
        his.mkdir()
        for place in (folder / "own", his / "foreign"):
            place.write_text("a\n")
            place.chmod(0o666)
        os.chown(his, NOBODY, NOBODY)
        os.chown(folder / "own", NOBODY, NOBODY)
        os.seteuid(NOBODY)
        try:
            done("replace", str(folder / "own"), "a", "b", backup=False)
            sentence = refusal("replace", str(his / "foreign"), "a", "b", backup=False)
        finally:
            os.seteuid(0)
        assert (folder / "own").read_text() == "b\n"
        assert (sentence, (his / "foreign").read_text()) == (
            f"ERROR: {his}/foreign cannot be written: Operation not permitted.",
            "a\n",
        )


def test_a_file_system_without_nameless_files_gets_a_named_one_that_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: Callable[..., int] = os.open

    def older(path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(errno.EOPNOTSUPP, "Operation not supported")
        return opened(path, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", older)
    _safe_files.write_whole(str(tmp_path / "file"), b"x")
    with file_size_limit(10), pytest.raises(CommandExecutionError, match="File too large"):
        _safe_files.write_whole(str(tmp_path / "file"), b"x" * 100)
    assert ((tmp_path / "file").read_bytes(), children(tmp_path)) == (b"x", ["file"])


def test_a_dated_copy_is_kept_by_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("a\n")
    done("line", str(tmp_path / "file"), "b", mode="insert", location="end", backup=True)
    (copy,) = tmp_path.glob("file.2???-??-??-??-??-??")
    assert copy.read_text() == "a\n"


def test_a_cached_copy_lies_under_the_path_of_its_file_for_root_alone(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("a\n")
    copy = Path(backups.keep_cached(str(tmp_path / "file"), str(tmp_path / "cache")))
    assert copy.parent == tmp_path / "cache" / "file_backup" / tmp_path.relative_to("/")
    assert copy.read_text() == "a\n"
    assert (tmp_path / "cache" / "file_backup").stat().st_mode & 0o777 == 0o700


# --- limits


def test_what_is_too_large_is_refused_before_it_is_read(tmp_path: Path) -> None:
    for size, function, args in (
        (lines.READ_BYTES_MAX, "read", ()),
        (text.EDIT_BYTES_MAX, "replace", ("a", "b")),
    ):
        (tmp_path / "file").touch()
        os.truncate(tmp_path / "file", size + 1)
        assert f"has {size + 1} bytes" in refusal(function, str(tmp_path / "file"), *args)
    assert f"{lines.READ_BYTES_MAX}" in refusal("seek_read", str(tmp_path / "file"), lines.READ_BYTES_MAX + 1, 0)


def test_so_many_lines_are_replaced_without_a_diff(tmp_path: Path) -> None:
    count = text.DIFF_LINES_MAX // 2 + 1
    (tmp_path / "file").write_text("a\n" * count)
    told = done("replace", str(tmp_path / "file"), "a", "b", backup=False)
    assert told == f"(no diff of more than {text.DIFF_LINES_MAX} lines: {count} became {count})\n"
    assert (tmp_path / "file").read_text() == "b\n" * count


def test_a_nul_far_from_the_start_does_not_make_a_file_binary(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"a\n" * (text.BINARY_LOOK_BYTES // 2) + b"\0")
    assert done("replace", str(tmp_path / "file"), "a", "b", show_changes=False) is True
    (tmp_path / "file").write_bytes(b"a" * (text.BINARY_LOOK_BYTES - 1) + b"\0")
    assert "binary file" in refusal("replace", str(tmp_path / "file"), "a", "b")
