"""Files of the master on minions, and plug-ins that are synced: as an operator sees them."""

from __future__ import annotations

import hashlib
import os
import signal
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.support.fleet import Fleet, wait_until

pytestmark = pytest.mark.e2e

CHEESE = '''"""Cheese."""


def __virtual__():
    return "cheese"


def make(kind="cheddar"):
    """
    Make some.

    CLI Example::

        saltlite '*' cheese.make
    """
    return f"{kind} on {__grains__['id']}"
'''


LUMBERJACK = """
from lumberjack import sleep, work


def is_ok(person):
    return person == 'Michael Palin' and work.all_day() and sleep.all_night()
"""


def roots(fleet: Fleet) -> Path:
    """The folder of the environment `base`."""
    folder = fleet.root("master") / "srv/salt"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def put(fleet: Fleet, path: str, content: str | bytes) -> Path:
    """A file of the master."""
    place = roots(fleet) / path
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(content.encode() if isinstance(content, str) else content)
    return place


def call(fleet: Fleet, fun: str, *words: str, minion: str = "web1") -> Any:
    """What the function returned on that minion; the command must succeed."""
    said = fleet.cli("--out", "json", minion, fun, *words)
    assert said.code == 0, said
    return said.json()[minion]


def test_a_module_of_the_master_is_synced_run_replaced_and_removed(fleet: Fleet) -> None:
    fleet.start_master()
    fleet.join("web1")
    source = put(fleet, "_modules/cheese.py", CHEESE)
    assert call(fleet, "saltutil.sync_modules") == ["modules.cheese"]
    assert call(fleet, "cheese.make", "brie") == "brie on web1"
    assert call(fleet, "saltutil.sync_modules") == []
    source.write_text(CHEESE.replace("{kind} on", "more {kind} on"))
    assert call(fleet, "saltutil.sync_modules") == ["modules.cheese"]
    assert call(fleet, "cheese.make") == "more cheddar on web1"
    source.unlink()
    assert call(fleet, "saltutil.sync_all", "report=True")["modules"]["removed"] == ["modules.cheese"]
    assert fleet.cli("web1", "cheese.make").code != 0


def test_lists_by_type_are_read_and_one_that_leaves_out_everything_removes_nothing(fleet: Fleet) -> None:
    fleet.start_master()
    fleet.join("web1")
    for name in ("plain", "web_a", "other"):
        put(fleet, f"_modules/{name}.py", "def f():\n    return __name__\n")
    put(fleet, "_grains/site.py", "def site():\n    return {'site': 'lab'}\n")
    assert call(fleet, "saltutil.sync_modules") == ["modules.other", "modules.plain", "modules.web_a"]

    # A map that names the type, as Salt has it: what it leaves out goes, and is named beside the return.
    said = fleet.cli("--out", "json", "web1", "saltutil.sync_modules", "extmod_whitelist={modules: [plain, 'web*']}")
    assert (said.code, said.json()) == (0, {"web1": []})
    assert "plug-ins that are removed here: modules.other" in said.err
    assert "plug-ins that are removed here: modules.other" in fleet.daemons["web1"].log()
    assert call(fleet, "saltutil.list_extmods") == {"modules": ["plain", "web_a"]}

    # A list that leaves out everything, a list that is none, an unknown type: nothing is changed.
    for wrong, why in (
        ("extmod_whitelist={modules: [plian]}", "would remove all that are here (modules.plain, modules.web_a)"),
        ("extmod_whitelist=plian", "would remove all that are here"),
        ("extmod_whitelist=[5]", "a list of texts"),
        ("extmod_whitelist={modules: {plain: 1}}", "a list of texts"),
        ("extmod_blacklist={moduls: [plain]}", "did you mean modules?"),
        ("saltenv=dve", "no environment 'dve'"),
    ):
        said = fleet.cli("web1", "saltutil.sync_modules", wrong)
        assert said.code != 0, wrong
        assert why in said.out, wrong
        assert call(fleet, "saltutil.list_extmods") == {"modules": ["plain", "web_a"]}
    said = fleet.cli("web1", "saltutil.sync_all", "extmod_whitelist=[plain]")
    assert said.code != 0, said
    assert call(fleet, "saltutil.list_extmods") == {"modules": ["plain", "web_a"]}

    # With consent everything goes, and with an empty folder on the master as well.
    said = fleet.cli("web1", "saltutil.sync_modules", "extmod_whitelist={modules: [plian]}", "extmod_empty=True")
    assert said.code == 0, said
    assert call(fleet, "saltutil.list_extmods") == {}
    assert call(fleet, "saltutil.sync_all", "extmod_blacklist={modules: ['*a*']}")["modules"] == ["modules.other"]
    for name in ("plain", "web_a", "other"):
        (roots(fleet) / f"_modules/{name}.py").unlink()
    assert call(fleet, "saltutil.sync_modules") == []
    assert call(fleet, "saltutil.list_extmods") == {"grains": ["site"]}


def test_the_lists_are_options_of_a_minion_too(fleet: Fleet) -> None:
    fleet.start_master()
    fleet.join("web1", extmod_whitelist={"modules": ["web*"]}, extmod_blacklist={"grains": ["site"]})
    for name in ("plain", "web_a"):
        put(fleet, f"_modules/{name}.py", "def f():\n    return 1\n")
    put(fleet, "_grains/site.py", "def site():\n    return {'site': 'lab'}\n")
    brought = call(fleet, "saltutil.sync_all")
    assert (brought["modules"], brought["grains"]) == (["modules.web_a"], [])
    assert call(fleet, "saltutil.sync_modules", "extmod_whitelist=plain") == ["modules.plain"]


def test_a_broken_or_hanging_grain_costs_itself_only_and_the_good_ones_are_there_after_the_sync(fleet: Fleet) -> None:
    fleet.start_master()
    fleet.join("web1")
    put(fleet, "_grains/site.py", "def rack():\n    return {'rack': 'r7', 'osname': __grains__['kernel']}\n")
    put(fleet, "_grains/broken.py", "def bad():\n    raise ValueError('no rack')\n")
    put(fleet, "_grains/odd.py", "def odd(:\n")
    assert sorted(call(fleet, "saltutil.sync_grains")) == ["grains.broken", "grains.odd", "grains.site"]
    assert call(fleet, "grains.get", "rack") == "r7"
    assert call(fleet, "grains.get", "osname") == "Linux"
    fleet.wait_log("web1", "broken.py:2")
    fleet.wait_log("web1", "odd.py")


def memory_of(pid: int) -> int:
    """Bytes of a process in memory."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_a_large_file_arrives_whole_through_a_restart_of_the_master_and_no_memory_grows(
    fleet: Fleet, tmp_path: Path
) -> None:
    content = os.urandom(1024 * 1024) * 50
    fleet.start_master()
    fleet.join("web1")
    minion = fleet.daemons["web1"]
    put(fleet, "big.bin", content)
    link = minion.child("minion link")
    before = {pid: memory_of(pid) for pid in (minion.pid, link)}
    dest, arriving = tmp_path / "big.bin", fleet.root("web1") / "var/cache/saltlite/minion/arriving"
    jid = fleet.publish("web1", "cp.get_file", "salt://big.bin", str(dest))
    wait_until(lambda: arriving.is_dir() and any(p.stat().st_size > 4_000_000 for p in arriving.iterdir()), "4 MB")
    fleet.daemons["master"].kill_whole()
    (partial,) = arriving.iterdir()
    assert partial.stat().st_size < len(content)
    fleet.restart_master()
    fleet.wait_state(jid, "web1", "returned")
    assert hashlib.sha256(dest.read_bytes()).digest() == hashlib.sha256(content).digest()
    assert {pid: memory_of(pid) - size < 8_000_000 for pid, size in before.items()} == {minion.pid: True, link: True}
    assert list(arriving.iterdir()) == []


def test_a_minion_gets_nothing_from_outside_the_roots_and_cannot_tell_it_from_what_is_missing(fleet: Fleet) -> None:
    fleet.start_master()
    fleet.join("web1")
    (fleet.root("master") / "secret").write_text("s3cret")
    put(fleet, "inside.txt", "inside")
    (roots(fleet) / "out").symlink_to(fleet.root("master") / "secret")
    (roots(fleet) / "outdir").symlink_to(fleet.root("master"))
    (roots(fleet) / "in").symlink_to("inside.txt")
    os.mkfifo(roots(fleet) / "pipe")
    assert call(fleet, "cp.get_file_str", "salt://in") == "inside"
    assert call(fleet, "cp.list_master") == ["in", "inside.txt"]
    answers = {path: call(fleet, "cp.hash_file", f"salt://{path}") for path in ("out", "outdir/secret", "pipe", "no")}
    assert answers == dict.fromkeys(("out", "outdir/secret", "pipe", "no"), "")
    said = fleet.cli("--out", "json", "web1", "cp.get_file", "salt://../secret", "/tmp/x")
    assert said.code == 4, said
    assert "'..' is not allowed" in said.json()["web1"]


def test_a_minion_may_push_only_where_the_master_says_so_and_only_below_its_own_folder(
    fleet: Fleet, tmp_path: Path
) -> None:
    local = tmp_path / "report.txt"
    local.write_bytes(b"x" * 200_000)
    fleet.start_master()
    fleet.join("web1")
    said = fleet.cli("web1", "cp.push", str(local))
    assert (said.code, "file_recv" in said.out) == (4, True), said
    assert fleet.daemons["master"].stop() == 0
    fleet.start_master(file_recv=True, file_recv_max_size=1)
    fleet.wait_up("web1")
    assert call(fleet, "cp.push", str(local), "upload_path=/a/b.txt") is True
    arrived = fleet.root("master") / "var/cache/saltlite/master/minions/web1/files/a/b.txt"
    assert arrived.read_bytes() == local.read_bytes()
    assert fleet.cli("web1", "cp.push", str(local), "upload_path=../../web2/files/x").code == 4
    local.write_bytes(b"x" * 2_000_000)
    assert fleet.cli("web1", "cp.push", str(local)).code == 4


def test_files_and_folders_of_the_master_s_machine_are_copied_to_minions_and_leave_nothing_behind(
    fleet: Fleet, tmp_path: Path
) -> None:
    fleet.start_master()
    fleet.join("web1.dc")
    folder = tmp_path / "site"
    (folder / "deep").mkdir(parents=True)
    (folder / "deep" / "big").write_bytes(os.urandom(3_000_000))
    (folder / "empty").write_bytes(b"")
    (folder / "run.sh").write_text("#!/bin/sh\n")
    (folder / "run.sh").chmod(0o755)
    dest = tmp_path / "there"
    said = fleet.cli("cp", "--out", "json", "web1.dc", str(folder), f"{dest}/")
    assert said.code == 0, said
    assert sorted(said.json()["web1.dc"].items()) == [
        (f"{dest}/site/{name}", True) for name in ("deep/big", "empty", "run.sh")
    ]
    assert (dest / "site/deep/big").read_bytes() == (folder / "deep/big").read_bytes()
    assert (dest / "site/run.sh").stat().st_mode & 0o777 == 0o755
    one = tmp_path / "motd"
    assert fleet.cli("cp", "*", str(folder / "run.sh"), str(one)).code == 0
    assert one.read_text() == "#!/bin/sh\n"
    assert list((fleet.root("master") / "var/cache/saltlite/master/copies").iterdir()) == []


def test_a_copy_of_nothing_or_to_a_relative_path_is_refused_before_anything_is_published(
    fleet: Fleet, tmp_path: Path
) -> None:
    fleet.start_master()
    fleet.join("web1")
    published = fleet.jobs_published()
    assert fleet.cli("cp", "*", str(tmp_path / "no"), "/tmp/x").code == 2
    assert fleet.cli("cp", "*", __file__, "here").code == 2
    assert fleet.cli("cp", "*", __file__).code == 2
    assert fleet.cli("cp", "nobody", __file__, "/tmp/x").code == 3
    assert fleet.jobs_published() == published


def test_a_module_in_a_zip_archive_is_synced_and_run(fleet: Fleet, tmp_path: Path) -> None:
    fleet.start_master()
    fleet.join("web1", enable_zip_modules=True)
    archive = tmp_path / "lumberjack.zip"
    with zipfile.ZipFile(archive, "w") as into:
        into.writestr("lumberjack/__init__.py", LUMBERJACK)
        into.writestr("lumberjack/work.py", "def all_day():\n    return True\n")
        into.writestr("lumberjack/sleep.py", "def all_night():\n    return True\n")
    put(fleet, "_modules/lumberjack.zip", archive.read_bytes())
    assert call(fleet, "saltutil.sync_modules") == ["modules.lumberjack"]
    assert call(fleet, "lumberjack.is_ok", "Michael Palin") is True


def test_a_minion_that_is_away_gets_the_copy_when_it_is_back(fleet: Fleet, tmp_path: Path) -> None:
    fleet.start_master()
    fleet.join("web1")
    assert fleet.daemons["web1"].stop() == 0
    wait_until(lambda: not fleet.up(), "web1 is away")
    source, dest = tmp_path / "motd", tmp_path / "there"
    source.write_text("welcome")
    said = fleet.cli("cp", "-t", "0.2", "--deliver-by", "1m", "web1", str(source), str(dest))
    assert said.code == 5, said
    source.unlink()
    fleet.restart_minion("web1")
    jid = said.err.partition("saltlite job kill ")[2][:20]
    fleet.wait_state(jid, "web1", "returned")
    assert dest.read_text() == "welcome"


@pytest.mark.parametrize("title", ["MWorker", "master link", "minion link"])
def test_a_transfer_outlives_the_processes_that_carry_it(fleet: Fleet, tmp_path: Path, title: str) -> None:
    content = os.urandom(1024 * 1024) * 30
    fleet.start_master()
    fleet.join("web1")
    put(fleet, "big.bin", content)
    dest, arriving = tmp_path / "big.bin", fleet.root("web1") / "var/cache/saltlite/minion/arriving"
    jid = fleet.publish("web1", "cp.get_file", "salt://big.bin", str(dest))
    wait_until(lambda: arriving.is_dir() and any(p.stat().st_size > 2_000_000 for p in arriving.iterdir()), "2 MB")
    victims = fleet.daemons["web1" if title == "minion link" else "master"].children(title)
    for pid in victims:
        os.kill(pid, signal.SIGKILL)
    assert not dest.exists()
    assert victims
    fleet.wait_state(jid, "web1", "returned")
    assert dest.read_bytes() == content
