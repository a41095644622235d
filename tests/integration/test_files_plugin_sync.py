"""Plug-ins are synced whole: the old set or the new one, whenever somebody dies and whatever fails."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from saltlite.errors import CommandExecutionError, UsageError
from saltlite.files.client import PLUGIN_MAX, SyncReport
from saltlite.model.files import NAMES_SHOWN, SyncRules
from tests.support.files import CutOff, Served


def sync(served: Served, *, envs: tuple[str, ...] = ("base",), clean: bool = True, barred: str = "") -> SyncReport:
    return served.client.sync("modules", list(envs), SyncRules(clean, lambda name: name != barred))


def there(served: Served) -> dict[str, str]:
    """Path -> content of the set that a loader sees now."""
    folder = served.extmods / "modules"
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


def leftovers(served: Served) -> list[str]:
    """What is in the folder of sets beside the one in use."""
    used = os.path.basename(os.readlink(served.extmods / "modules"))
    return [name for name in os.listdir(served.extmods / ".sets") if name not in (used, "lock")]


def test_the_first_sync_lists_all_and_the_second_nothing(tmp_path: Path) -> None:
    served = Served(tmp_path)
    for path in ("cheese.py", "m/__init__.py", "m/sub.py", "z.zip", "c.pyx", "s.so", "notes.txt", "x.pyc"):
        served.put(f"_modules/{path}", path)
    served.put("other.py", "")
    names = ["modules.c", "modules.cheese", "modules.m.__init__", "modules.m.sub", "modules.s", "modules.z"]
    assert sync(served) == SyncReport(synced=names)
    assert sorted(there(served)) == ["c.pyx", "cheese.py", "m/__init__.py", "m/sub.py", "s.so", "z.zip"]
    assert sync(served) == SyncReport()
    assert leftovers(served) == []


def test_what_changed_is_listed_and_what_is_gone_is_removed(tmp_path: Path) -> None:
    served = Served(tmp_path)
    one, two = served.put("_modules/one.py", "1"), served.put("_modules/two.py", "2")
    sync(served)
    one.write_text("1b")
    two.unlink()
    assert sync(served) == SyncReport(synced=["modules.one"], removed=["modules.two"])
    assert there(served) == {"one.py": "1b"}
    one.unlink()
    assert sync(served) == SyncReport(removed=["modules.one"])
    assert there(served) == {}


def test_an_unchanged_file_is_the_same_file_in_the_new_set(tmp_path: Path) -> None:
    served = Served(tmp_path)
    served.put("_modules/one.py", "1")
    sync(served)
    before = (served.extmods / "modules/one.py").stat().st_ino
    served.put("_modules/two.py", "2")
    sync(served)
    assert (served.extmods / "modules/one.py").stat().st_ino == before


def test_without_clean_what_the_master_does_not_have_stays(tmp_path: Path) -> None:
    served = Served(tmp_path)
    (served.extmods / "modules").mkdir(parents=True)
    (served.extmods / "modules/mine.py").write_text("by hand")
    served.put("_modules/one.py", "1")
    assert sync(served, clean=False) == SyncReport(synced=["modules.one"])
    assert there(served) == {"mine.py": "by hand", "one.py": "1"}
    assert sync(served, clean=True) == SyncReport(removed=["modules.mine"])
    assert there(served) == {"one.py": "1"}


def test_of_several_environments_the_last_one_wins(tmp_path: Path) -> None:
    served = Served(tmp_path)
    served.put("_modules/one.py", "base")
    served.put("_modules/two.py", "base")
    (tmp_path / "dev/_modules").mkdir(parents=True)
    (tmp_path / "dev/_modules/one.py").write_text("dev")
    sync(served, envs=("base", "dev"))
    assert there(served) == {"one.py": "dev", "two.py": "base"}


def test_what_is_not_chosen_is_not_there(tmp_path: Path) -> None:
    served = Served(tmp_path)
    served.put("_modules/one.py", "1")
    served.put("_modules/two.py", "2")
    assert sync(served, barred="two").synced == ["modules.one"]


def test_when_one_file_fails_nothing_changes_and_the_report_names_it(tmp_path: Path) -> None:
    served = Served(tmp_path)
    served.put("_modules/one.py", "1")
    sync(served)
    served.put("_modules/one.py", "1b")
    with served.put("_modules/giant.zip", b"").open("r+b") as giant:
        giant.truncate(PLUGIN_MAX + 1)
    report = sync(served)
    assert (report.synced, report.removed, list(report.failed)) == ([], [], ["modules.giant"])
    assert there(served) == {"one.py": "1"}
    assert leftovers(served) == []


def test_when_the_master_falls_silent_the_old_set_stays(tmp_path: Path) -> None:
    served = Served(tmp_path)
    for name in "abc":
        served.put(f"_modules/{name}.py", name)
    sync(served)
    for name in "abc":
        served.put(f"_modules/{name}.py", name * 2)
    # One list, and for each file what there is of it and its only piece.
    for answers in range(1 + 2 * 3):
        silent = CommandExecutionError("silent")
        cut = Served(tmp_path, lambda service, n=answers, e=silent: CutOff(service, n, e))  # type: ignore[misc]
        with contextlib.suppress(CommandExecutionError):
            assert sync(cut).failed
        assert there(served) == {"a.py": "a", "b.py": "b", "c.py": "c"}
    assert sync(served).synced == ["modules.a", "modules.b", "modules.c"]


OPERATIONS = [
    (os, "makedirs"), (os, "link"), (os, "replace"), (os, "rename"), (os, "symlink"), (os, "unlink"), (os, "fsync"),
    (shutil, "rmtree"), (tempfile, "mkdtemp"), (os, "rmdir"),
]  # fmt: skip


def dies_at(number: int, work: Callable[[], object]) -> bool:
    """Do the work in a process that is killed before its operation of that number; whether there was one."""
    pid = os.fork()
    if pid == 0:
        count = 0

        def counted(operation: Callable[..., Any]) -> Callable[..., Any]:
            def run(*args: Any, **kwargs: Any) -> Any:
                nonlocal count
                count += 1
                if count > number:
                    os.kill(os.getpid(), signal.SIGKILL)
                return operation(*args, **kwargs)

            return run

        for module, name in OPERATIONS:
            setattr(module, name, counted(getattr(module, name)))
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    status = os.waitpid(pid, 0)[1]
    assert status in (0, signal.SIGKILL)
    return status != 0


@pytest.mark.parametrize("by_hand", [False, True])
def test_kill_9_at_any_operation_leaves_the_old_set_or_the_new_one_and_the_next_sync_clears_up(
    tmp_path: Path, by_hand: bool
) -> None:
    mine = {"mine.py": "mine"} if by_hand else {}
    old, new = {"keep.py": "keep", "one.py": "1", **mine}, {"keep.py": "keep", "one.py": "1b", "two.py": "2", **mine}
    for number in range(1000):
        served = Served(Path(tempfile.mkdtemp(dir=tmp_path)))
        served.put("_modules/keep.py", "keep")
        served.put("_modules/one.py", "1")
        sync(served)
        if by_hand:
            (served.extmods / "modules/mine.py").write_text("mine")
            shutil.copytree(served.extmods / "modules", served.extmods / "copy")
            (served.extmods / "modules").unlink()
            (served.extmods / "copy").rename(served.extmods / "modules")
        served.put("_modules/one.py", "1b")
        served.put("_modules/two.py", "2")
        died = dies_at(number, lambda served=served: sync(served, clean=False))  # type: ignore[misc]
        # A folder that was made by hand has to be moved away first: for that moment there is none.
        assert there(served) in ([old, new, {}] if by_hand else [old, new])
        sync(served, clean=False)
        assert there(served) == new
        assert leftovers(served) == []
        shutil.rmtree(served.root.parent)
        if not died:
            assert number > 10
            return


def none(_name: str) -> bool:
    return False


def test_what_goes_is_named_before_it_goes(tmp_path: Path) -> None:
    served = Served(tmp_path)
    served.put("_modules/one.py", "1")
    two = served.put("_modules/two.py", "2")
    sync(served)
    two.unlink()
    said: list[tuple[list[str], dict[str, str]]] = []
    rules = SyncRules(removing=lambda names: said.append((list(names), there(served))))
    served.client.sync("modules", ["base"], rules)
    assert said == [(["modules.two"], {"one.py": "1", "two.py": "2"})]
    served.client.sync("modules", ["base"], rules)
    assert len(said) == 1


def test_lists_that_leave_out_all_of_the_master_remove_nothing_unless_that_is_allowed(tmp_path: Path) -> None:
    served = Served(tmp_path)
    for number in range(NAMES_SHOWN + 2):
        served.put(f"_modules/m{number:02}.py", "1")
    # Nothing is here yet, so nothing is lost.
    assert served.client.sync("modules", ["base"], SyncRules(chosen=none)) == SyncReport()
    sync(served)
    before = there(served)
    for _ in range(2):
        report = served.client.sync("modules", ["base"], SyncRules(chosen=none))
        assert list(report.failed) == ["modules"]
        assert "exclude all 12 that the master has" in report.failed["modules"]
        assert "modules.m09 and 2 more" in report.failed["modules"]
        assert there(served) == before
    assert leftovers(served) == []
    assert served.client.sync("modules", ["base"], SyncRules(clean=False, chosen=none)) == SyncReport()
    emptied = served.client.sync("modules", ["base"], SyncRules(chosen=none, may_empty=True))
    assert len(emptied.removed) == NAMES_SHOWN + 2
    assert there(served) == {}


def test_an_environment_that_the_master_does_not_have_is_no_empty_one(tmp_path: Path) -> None:
    served = Served(tmp_path)
    served.put("_modules/one.py", "1")
    sync(served)
    with pytest.raises(UsageError, match="no environment 'dve': it has base, dev"):
        sync(served, envs=("base", "dve"))
    assert there(served) == {"one.py": "1"}
    # That of a file server without a single plug-in is.
    assert sync(served, envs=("dev",)) == SyncReport(removed=["modules.one"])
