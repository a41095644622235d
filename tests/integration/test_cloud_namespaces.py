"""Machines of namespaces, with the kernel's own: what they have to themselves, how they end, and what is left."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from saltlite.cloud.drivers._namespaces import ENVIRONMENT, Machine, Machines, Plan, cable_of
from saltlite.cloud.drivers._namespaces_inside import CONSOLE, SERVICES
from saltlite.errors import MachineError
from tests.support.fleet import wait_until
from tests.support.machine import end_stale_machines, labels, needs_machines, traces, traces_of

pytestmark = [needs_machines, pytest.mark.usefixtures("own_network")]

MIB = 1024 * 1024
NETWORK = "10.231.0.0/16"
ROOT = Path(__file__).parents[2]


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Where machines are; none are there afterwards."""
    folder = tmp_path / "machines"
    yield folder
    machines = Machines(str(folder), NETWORK)
    for name in machines.names():
        machines.destroy(name)


@pytest.fixture
def machines(folder: Path) -> Machines:
    """No machine yet."""
    return Machines(str(folder), NETWORK)


def plan(name: str = "web1", **settings: object) -> Plan:
    """A small machine that sees this host's files, but for /tmp."""
    values = {"image": "/", "memory": 128 * MIB, "disk": 16 * MIB, "hidden": ("/tmp",), **settings}
    return Plan(name, **values)  # type: ignore[arg-type]


def sh(machines: Machines, name: str, text: str) -> str:
    """What a shell in the machine prints; it must succeed."""
    code, out, err = machines.run(name, ["sh", "-c", text])
    assert code == 0, err
    return out.strip()


def test_a_machine_has_a_name_an_address_and_processes_of_its_own(machines: Machines) -> None:
    made = machines.make(plan())
    assert made.state == "running"
    assert sh(machines, "web1", "cat /proc/sys/kernel/hostname /etc/hostname") == "web1\nweb1"
    assert f"inet {made.address}/30" in sh(machines, "web1", "ip -4 -oneline addr show eth0")
    assert sh(machines, "web1", "ls -d /proc/[0-9]* | sort | head -1") == "/proc/1"
    assert len(sh(machines, "web1", "ls -d /proc/[0-9]*").split()) <= 6
    assert os.uname().nodename != "web1"


def test_two_machines_have_addresses_and_machine_ids_of_their_own(machines: Machines) -> None:
    made = [machines.make(plan("web1")), machines.make(plan("web2"))]
    assert len({machine.address for machine in made}) == 2
    assert sh(machines, "web1", "cat /etc/machine-id") != sh(machines, "web2", "cat /etc/machine-id")


def test_the_machine_reaches_this_host_by_tcp_and_is_reached(machines: Machines, tmp_path: Path) -> None:
    made = machines.make(plan())
    with socket.create_server((made.gateway, 0)) as server:
        server.settimeout(60)
        program = (
            f"import socket; socket.create_connection(({made.gateway!r}, {server.getsockname()[1]}), 60).send(b'hi')"
        )
        code, _, err = machines.run("web1", ["python3", "-c", program])
        assert code == 0, err
        client, (address, _) = server.accept()
        with client:
            assert (client.recv(2), address) == (b"hi", made.address)


def test_what_a_machine_writes_is_not_on_this_host(machines: Machines) -> None:
    machines.make(plan())
    mark = f"saltlite-test-{os.getpid()}"
    sh(machines, "web1", f"echo x > /etc/{mark} && rm -f /etc/hostname && ls /etc/{mark}")
    assert not Path(f"/etc/{mark}").exists()
    assert Path("/etc/hostname").exists()


def test_a_hidden_folder_is_empty_and_keeps_its_mode(machines: Machines) -> None:
    machines.make(plan(hidden=("/tmp", "/etc/ssl")))
    assert sh(machines, "web1", "ls -A /tmp /etc/ssl | grep -v : | tr -d '\\n'; stat -c %a /tmp") == "1777"


def test_a_shown_folder_is_there_though_it_is_hidden_and_cannot_be_written(machines: Machines, tmp_path: Path) -> None:
    shown = tmp_path / "shown"
    (shown / "private").mkdir(parents=True)
    (shown / "file").write_text("seen")
    (shown / "private" / "key").write_text("secret")
    machines.make(plan(shown=(str(shown),), hidden=("/tmp", str(shown / "private"))))
    assert sh(machines, "web1", f"cat {shown}/file; ls -A {shown}/private") == "seen"
    assert machines.run("web1", ["touch", f"{shown}/file"])[0] != 0


def test_a_folder_with_a_root_is_an_image(machines: Machines, tmp_path: Path) -> None:
    image = tmp_path / "image"
    (image / "etc").mkdir(parents=True)
    (image / "etc" / "os-release").write_text("ID=mine\n")
    names = [name for name in ("usr", "bin", "sbin", "lib", "lib64") if Path("/", name).exists()]
    for name in names:
        if Path("/", name).is_symlink():
            (image / name).symlink_to(os.readlink(f"/{name}"))
    shown = tuple(f"/{name}" for name in names if not Path("/", name).is_symlink())
    machines.make(plan(image=str(image), shown=shown, hidden=()))
    assert sh(machines, "web1", "cat /etc/os-release; hostname") == "ID=mine\nweb1"
    assert sorted(path.name for path in (image / "etc").iterdir()) == ["os-release"]


def test_a_full_disk_is_the_machines_own_affair(machines: Machines) -> None:
    machines.make(plan(disk=8 * MIB))
    code, _, err = machines.run("web1", ["dd", "if=/dev/zero", "of=/big", "bs=1M", "count=20"])
    assert (code, "No space left" in err) == (1, True)
    with pytest.raises(MachineError, match="web1 does not take files: /etc/x: No space left on device"):
        machines.put("web1", {"/etc/x": (bytes(4 * MIB), 0o600)})
    assert machines.run("web1", ["ls", "/etc/x"])[0] != 0


@pytest.mark.skipif(not os.access("/sys/fs/cgroup/memory/cgroup.procs", os.W_OK), reason="no control groups here")
def test_who_takes_more_memory_than_the_machine_has_is_ended(machines: Machines) -> None:
    machines.make(plan(memory=64 * MIB))
    assert machines.run("web1", ["python3", "-c", "x = b'x' * (200 << 20)"])[0] == 128 + signal.SIGKILL
    assert machines.find("web1").state == "running"


@pytest.mark.parametrize(
    "attempt",
    ["mount -t tmpfs none /mnt", "mknod /dev/vda b 254 0", "mount -o remount,rw /proc/sys", "echo x > /sys/kernel/x"],
)
def test_the_machines_root_cannot_reach_past_the_machine(machines: Machines, attempt: str) -> None:
    machines.make(plan())
    assert machines.run("web1", ["sh", "-c", attempt])[0] != 0


def test_a_link_in_the_machine_leads_no_file_out_of_it(machines: Machines, tmp_path: Path) -> None:
    machines.make(plan(hidden=()))
    outside = tmp_path / "outside"
    outside.mkdir()
    sh(machines, "web1", f"ln -s {outside} /way; ln -s {outside}/here /etc/here")
    machines.put("web1", {"/way/file": (b"x", 0o600), "/etc/here": (b"y", 0o640)})
    assert list(outside.iterdir()) == []
    assert sh(machines, "web1", "stat -c '%a %F' /etc/here; cat /way/file") == "640 regular file\nx"


def test_a_command_says_what_it_said_and_how_it_ended(machines: Machines) -> None:
    machines.make(plan())
    assert machines.run("web1", ["sh", "-c", "cat; echo b >&2; exit 3"], stdin=b"a") == (3, "a", "b\n")
    assert machines.run("web1", ["no-such-command"]) == (127, "", "no-such-command: No such file or directory\n")


def test_a_command_that_does_not_end_is_ended(machines: Machines) -> None:
    machines.make(plan())
    with pytest.raises(MachineError, match=r"sleep has not ended on web1 in 0\.3 s"):
        machines.run("web1", ["sleep", "1000"], within_s=0.3)
    wait_until(
        lambda: "sleep" not in sh(machines, "web1", "cat /proc/[0-9]*/comm 2>/dev/null || true"), "sleep is gone"
    )


def test_a_stopped_machine_keeps_its_files_and_its_address(machines: Machines) -> None:
    made = machines.make(plan())
    sh(machines, "web1", "echo kept > /etc/file; echo lost > /run/file")
    stopped = machines.stop("web1")
    assert (stopped.state, stopped.pid) == ("stopped", 0)
    with pytest.raises(MachineError, match="web1 is stopped"):
        machines.run("web1", ["true"])
    assert machines.start("web1").address == made.address
    assert sh(machines, "web1", "cat /etc/file; ls /run") == "kept"


def test_a_service_is_started_again_when_it_ends_and_with_the_machine(machines: Machines) -> None:
    machines.make(plan())
    line = json.dumps({"argv": ["sh", "-c", "echo up; exec sleep 1000"], "env": ENVIRONMENT})
    machines.put("web1", {SERVICES: (f"{line}\nnot a line\n".encode(), 0o600)})
    machines.read_services("web1")

    def starts(wanted: int) -> Callable[[], bool]:
        return lambda: machines.run("web1", ["cat", CONSOLE])[1].count("up") == wanted

    wait_until(starts(1), "it is started")
    sh(machines, "web1", "pkill sleep")
    wait_until(starts(2), "it is started again")
    machines.stop("web1")
    machines.start("web1")
    wait_until(starts(3), "it is started with the machine")


def test_stopping_lets_processes_end_by_themselves(machines: Machines) -> None:
    machines.make(plan())
    line = json.dumps(
        {"argv": ["sh", "-c", "trap 'echo bye; exit' TERM; echo up; while :; do sleep 0.05; done"], "env": ENVIRONMENT}
    )
    machines.put("web1", {SERVICES: (line.encode(), 0o600)})
    machines.read_services("web1")
    wait_until(lambda: "up" in machines.run("web1", ["cat", CONSOLE])[1], "it is started")
    machines.stop("web1")
    machines.start("web1")
    assert "bye" in sh(machines, "web1", f"cat {CONSOLE}")


def test_nothing_is_left_of_a_destroyed_machine(machines: Machines, folder: Path) -> None:
    made = machines.make(plan())
    assert traces(folder, within_s=0)
    assert traces_of(made.uid)
    machines.destroy("web1")
    assert (traces(folder), traces_of(made.uid), folder.exists()) == ([], [], False)


def test_a_stopped_machine_is_destroyed_too(machines: Machines, folder: Path) -> None:
    made = machines.make(plan())
    machines.stop("web1")
    machines.destroy("web1")
    assert (traces(folder), traces_of(made.uid)) == ([], [])


def test_a_machine_goes_on_when_the_program_that_made_it_has_ended(machines: Machines, folder: Path) -> None:
    assert killed_at(folder, "").returncode == 0
    assert sh(machines, "web1", "hostname") == "web1"


STAGES = ["mount", "limit", "Popen", "_answer", "start_ticks", "connect", "_say", "cable", "after"]


@pytest.mark.parametrize("stage", STAGES)
def test_whatever_is_left_by_a_killed_program_can_be_destroyed(machines: Machines, folder: Path, stage: str) -> None:
    assert killed_at(folder, stage).returncode == -signal.SIGKILL
    assert machines.names() == ["web1"]
    assert machines.find("web1").state in ("broken", "stopped", "running")
    uid = machines.find("web1").uid
    machines.destroy("web1")
    assert (traces(folder), traces_of(uid)) == ([], [])


def killed_at(folder: Path, stage: str) -> subprocess.CompletedProcess[str]:
    """Make web1 in a program that is killed when it comes to a stage; "" is never."""
    program = f"""
import os, signal, subprocess
from saltlite.cloud.drivers import _namespaces as machines, _namespaces_inside as machine_inside
def die(*a, **k): os.kill(os.getpid(), signal.SIGKILL)
def second(real, seen=[]):
    return lambda *a: die() if seen else (seen.append(1), real(*a))[1]
stage = {stage!r}
if stage == "mount": machine_inside.mount = die
elif stage == "Popen": subprocess.Popen = die
elif stage == "_say": machines._say = second(machines._say)
elif stage == "cable":
    write = machines.Machines._write
    machines.Machines._write = lambda self, *a: die() if a[2].get("network") else write(self, *a)
elif stage not in ("", "after"): setattr(machines, stage, die)
plan = machines.Plan("web1", "/", 1 << 27, 1 << 24, ("/tmp",))
machines.Machines({str(folder)!r}, {NETWORK!r}).make(plan)
if stage == "after": die()
"""
    return subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)


def test_a_machine_whose_disk_went_with_the_hosts_memory_is_broken(machines: Machines, folder: Path) -> None:
    made = machines.make(plan())
    machines.stop("web1")
    subprocess.run(["umount", folder / "web1" / "disk"], check=True)
    assert machines.find("web1").state == "broken"
    with pytest.raises(MachineError, match="the disk of web1 is gone"):
        machines.start("web1")
    machines.destroy("web1")
    assert (traces(folder), traces_of(made.uid)) == ([], [])


def test_machines_of_two_folders_at_the_same_time_take_different_networks(tmp_path: Path) -> None:
    made: list[Machine] = []
    both = [Machines(str(tmp_path / name), NETWORK) for name in ("a", "b")]
    threads = [threading.Thread(target=lambda one=one: made.append(one.make(plan()))) for one in both]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert len({machine.network for machine in made}) == 2
    finally:
        for one in both:
            one.destroy("web1")


def test_a_range_that_is_used_up_says_so_and_touches_nobodys_interface(folder: Path) -> None:
    machines = Machines(str(folder), f"10.232.{os.getpid() % 256}.0/30")
    first = machines.make(plan("web1"))
    with pytest.raises(MachineError, match="every network of the range is taken"):
        machines.make(plan("web2"))
    machines.destroy("web2")
    assert any(first.uid in label for label in labels().values())


def test_a_name_is_taken_once(machines: Machines) -> None:
    made = machines.make(plan())
    with pytest.raises(MachineError, match="there is already a machine 'web1' here"):
        machines.make(plan())
    assert machines.find("web1") == made


@pytest.mark.parametrize("name", ["", "Web", "a/b", "..", "-a", "a" * 64, "a b", "a\n"])
def test_a_name_that_is_no_host_name_is_refused(machines: Machines, folder: Path, name: str) -> None:
    with pytest.raises(MachineError, match="is not a name for a machine"):
        machines.make(plan(name))
    assert not folder.exists()


def test_an_image_that_is_no_root_leaves_a_sentence_and_a_machine_to_destroy(
    machines: Machines, tmp_path: Path
) -> None:
    image = tmp_path / "image"
    image.mkdir()
    (image / "proc").write_text("not a folder")
    with pytest.raises(MachineError, match="web1 does not start: /proc: "):
        machines.make(plan(image=str(image), hidden=()))
    assert machines.names() == ["web1"]


@pytest.fixture
def interpreter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the interpreter, by which machines are started, so that no test can harm the real one."""
    real = Path(sys.executable).resolve()
    copy = tmp_path / "own" / "bin" / "python"
    copy.parent.mkdir(parents=True)
    shutil.copy2(real, copy)
    (tmp_path / "own" / "pyvenv.cfg").write_text(f"home = {real.parent}\n")
    monkeypatch.setattr(sys, "executable", str(copy))
    return copy


REACH = """
import os
import shutil
done = []
for way in (lambda: os.chmod("/proc/1/exe", 0o6777), lambda: os.chown("/proc/1/exe", 1, 1),
            lambda: os.open("/proc/1/exe", os.O_RDONLY), lambda: os.utime("/proc/1/exe", (1, 1))):
    try:
        way()
        done.append("done")
    except OSError as error:
        done.append(error.strerror)
print(*done, sep=", ")
"""


def test_the_machines_root_cannot_change_the_interpreter_of_this_host(machines: Machines, interpreter: Path) -> None:
    machines.make(plan())
    before = interpreter.stat()
    assert machines.run("web1", ["python3", "-c", REACH])[1].strip() == ", ".join(["Permission denied"] * 4)
    after = interpreter.stat()
    assert (after.st_mode, after.st_uid, after.st_mtime) == (before.st_mode, before.st_uid, before.st_mtime)


WATCH = """
import os, sys
wanted = tuple(map(int, sys.argv[1:]))
print("watching", flush=True)
pid = os.getpid()
while True:
    for other in range(pid + 1, pid + 40):
        try:
            found = os.stat(f"/proc/{other}/exe")
        except OSError:
            continue
        if (found.st_dev, found.st_ino) == wanted:
            print("reached", flush=True)
            sys.exit()
"""


def test_a_command_that_comes_into_the_machine_brings_no_file_of_this_host(
    machines: Machines, interpreter: Path
) -> None:
    machines.make(plan())
    found = interpreter.stat()
    argv = ["python3", "-c", WATCH, str(found.st_dev), str(found.st_ino)]
    machines.put("web1", {SERVICES: (json.dumps({"argv": argv, "env": dict(os.environ)}).encode(), 0o600)})
    machines.read_services("web1")
    wait_until(lambda: "watching" in sh(machines, "web1", f"cat {CONSOLE} || true"), "it watches")
    for _ in range(20):
        sh(machines, "web1", "true")
    assert "reached" not in sh(machines, "web1", f"cat {CONSOLE}")


def test_this_host_takes_no_routes_from_a_machine(machines: Machines) -> None:
    made = machines.make(plan())
    interface = cable_of(made.network).interface
    shown = subprocess.run(["ip", "-6", "addr", "show", "dev", interface], capture_output=True, text=True, check=True)
    assert shown.stdout == ""
    setting = Path(f"/proc/sys/net/ipv6/conf/{interface}/disable_ipv6")
    assert not setting.exists() or setting.read_text() == "1\n"


FORK = """
import os, time
children = 0
try:
    while children < 200:
        if os.fork() == 0:
            time.sleep(60)
            os._exit(0)
        children += 1
except BlockingIOError:
    pass
print(children, flush=True)
os.kill(-1, 9)
"""


@pytest.mark.skipif(not os.access("/sys/fs/cgroup/pids/cgroup.procs", os.W_OK), reason="no control groups here")
def test_a_machine_has_so_many_processes_and_no_more(machines: Machines, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("saltlite.cloud.drivers._namespaces.PROCESSES_MAX", 32)
    made = machines.make(plan())
    code, out, _ = machines.run("web1", ["python3", "-c", FORK])
    assert 20 <= int(out) <= 32
    assert code == 0
    Path(f"/sys/fs/cgroup/pids/saltlite-machine-{made.uid}/pids.max").write_text("1")
    code, _, err = machines.run("web1", ["true"])
    assert (code, err) == (127, "the machine starts no process: Resource temporarily unavailable\n")


@pytest.mark.parametrize("goes_on", [False, True])
def test_machines_of_a_killed_run_of_the_tests_are_ended_before_the_next_run(tmp_path: Path, *, goes_on: bool) -> None:
    run = tmp_path / "pytest-of-x" / "pytest-7"
    machines = Machines(str(run / "machines"), NETWORK)
    made = machines.make(plan())
    with subprocess.Popen(["true"]) as ended:
        pass
    (run / ".lock").write_text(str(os.getpid() if goes_on else ended.pid))
    try:
        assert (f"saltlite-machine-{made.uid}" in end_stale_machines()) is not goes_on
        wait_until(lambda: bool(traces_of(made.uid)) is goes_on, "only a machine of a run that is over has gone")
    finally:
        machines.destroy("web1")


def test_a_start_that_hangs_is_given_up(machines: Machines, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("saltlite.cloud.drivers._namespaces.BOOT_S", 0.2)
    hanging = [sys.executable, "-c", "import time; time.sleep(600)"]
    monkeypatch.setattr("saltlite.cloud.drivers._namespaces._program", lambda mode: hanging)
    began = time.monotonic()
    with pytest.raises(MachineError, match=r"the machine has not started in 0\.2 s"):
        machines.make(plan())
    assert time.monotonic() - began < 120
