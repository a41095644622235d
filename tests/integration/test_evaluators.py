"""The evaluators with real processes: a pillar file that loops, or fills the memory, costs its own evaluation."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from saltlite.master.processes import evaluators
from saltlite.master.processes.evaluators import BUFFER_MAX, MESSAGE_MAX, Evaluations, Evaluators
from saltlite.model.ids import MinionId
from saltlite.pillar import evaluation
from saltlite.pillar.evaluation import Evaluation, EvaluationRequest
from saltlite.pillar.external import ExternalPillars
from saltlite.pillar.files import DiskPillarFiles
from saltlite.platform.process import return_freed_memory
from saltlite.platform.reactor import Reactor
from saltlite.platform.stream import Acceptor, Channel, Peer, listen_unix
from saltlite.wire.codec import decode_document
from tests.support.fleet import alive, wait_until

TOP = """
base:
  'good*': [good]
  'loop*': [loop]
  'c_loop*': [c_loop]
  'fat*': [fat, good]
  'bomb*': [bomb, good]
  'fifo*': [fifo, good]
  'huge*': [huge, good]
  'deep*': [deep, good]
  'wide*': [wide]
  'large*': [large]
"""
EVIL = {
    "loop.sls": "{% for i in range(10**5) %}{% for j in range(10**5) %}{% endfor %}{% endfor %}\n",
    "c_loop.sls": "x: {{ (9 ** (9 ** 9)) > 1 }}\n",
    "fat.sls": "x: {{ 'x' * (3 * 10**8) }}\n",
    "large.sls": "x: {{ grains.id * 8000000 }}\n",
    "bomb.sls": "a: &a [x, x, x, x, x, x, x, x, x]\n"
    + "".join(f"{b}: &{b} [{', '.join([f'*{a}'] * 9)}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)),
    "huge.sls": "x: " + "y" * (2 * 1024 * 1024) + "\n",
    "deep.sls": "x: " + "[" * 100_000 + "\n",
    "wide.sls": "{% for i in range(400) %}k{{ i }}: {{ 'v' * 2000 }}\n{% endfor %}",
}

HANG = """
import os, subprocess
def ext_pillar(minion_id, pillar, folder):
    if minion_id.startswith("hang"):
        program = subprocess.Popen(["sh", "-c", "sleep 600 & wait"])
        with open(os.path.join(folder, "pid"), "w") as file:
            file.write(str(program.pid))
        while True: pass
"""


class Site:
    """The evaluators, and what an MWorker asks of them, in one loop."""

    def __init__(self, folder: Path) -> None:
        roots = folder / "pillar"
        roots.mkdir()
        (roots / "top.sls").write_text(TOP)
        (roots / "good.sls").write_text("who: {{ grains.id }}\n")
        for name, text in EVIL.items():
            (roots / name).write_text(text)
        os.mkfifo(roots / "fifo.sls")
        self.reactor = Reactor()
        (folder / "hang.py").write_text(HANG)
        opts = {"ext_pillar": [{"hang": str(folder)}], "ext_pillar_first": False, "pillar_dirs": [str(folder)]}
        self.process = Evaluators(self.reactor, DiskPillarFiles({"base": [str(roots)]}), {}, ExternalPillars(opts))
        path = str(folder / "evaluators.ipc")
        self.listener = listen_unix(path, 0o600)

        def accept(sock: object, _peer: Peer) -> None:
            self.process.add(
                lambda on_batch, on_close: Channel(
                    self.reactor,
                    sock,  # type: ignore[arg-type]  # a socket
                    on_batch,
                    on_close,
                    message_max=MESSAGE_MAX,
                    send_buffer_max=BUFFER_MAX,
                )
            )

        Acceptor(self.reactor, self.listener, accept)
        self.path = path
        self.mworker = Evaluations(self.reactor, path, os.geteuid())
        self.came: dict[str, Evaluation] = {}
        self.at: dict[str, float] = {}

    def ask(self, minion: str, asker: str = "") -> None:
        wanted = EvaluationRequest(asker or f"minion {minion}", MinionId(minion), {"id": minion})
        self.came.pop(minion, None)

        def done(made: Evaluation) -> None:
            self.came[minion] = made
            self.at[minion] = time.monotonic()

        self.mworker.evaluate(wanted, done)

    def until(self, look: Callable[[], object], seconds: float = 125.0) -> None:
        deadline = self.reactor.now() + seconds

        def check() -> None:
            if look() or self.reactor.now() > deadline:
                self.reactor.stop()
            else:
                self.reactor.call_later(0.005, check)

        check()
        self.reactor.run()
        assert look()

    def made(self, minion: str) -> Evaluation:
        self.ask(minion)
        self.until(lambda: minion in self.came)
        return self.came[minion]

    def close(self) -> None:
        self.process.close()
        self.until(lambda: not self.process.pids())
        self.listener.close()


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setattr(evaluators, "EVALUATION_CPU_S", 2.0)
    monkeypatch.setattr(evaluators, "BAD_FILE_CPU_S", 0.3)
    # A busy machine gives an evaluation a small share of a CPU: what ends it here is what it used.
    monkeypatch.setattr(evaluators, "EVALUATION_S", 120.0)
    monkeypatch.setattr(evaluators, "ANSWER_S", 125.0)
    made = Site(tmp_path)
    yield made
    made.close()


def test_a_pillar_is_made_and_processes_only_when_they_are_needed(site: Site) -> None:
    assert site.process.pids() == []
    assert decode_document(site.made("good1").data) == {"who": "good1"}
    assert len(site.process.pids()) == 1
    pids = site.process.pids()
    assert decode_document(site.made("good2").data) == {"who": "good2"}
    assert site.process.pids() == pids, "a process takes one question after the other"


@pytest.mark.parametrize("evil", ["loop", "c_loop"])
def test_one_that_does_not_end_is_ended_and_named_and_the_others_go_on(
    site: Site, evil: str, caplog: pytest.LogCaptureFixture
) -> None:
    site.ask(f"{evil}1")
    for number in range(20):
        site.ask(f"good{number}")
    site.until(lambda: len(site.came) == 21)
    late = site.came[f"{evil}1"]
    assert late.ended
    assert late.file == f"base/{evil}.sls"
    assert "it took more than 2 s of CPU" in late.problem
    assert f"the evaluation of the pillar of {evil}1 for minion {evil}1 was ended in base/{evil}.sls" in caplog.text
    assert all(site.at[f"good{number}"] < site.at[f"{evil}1"] for number in range(20))
    assert "tried again in" in site.made(f"{evil}1").problem, "it waits before it is evaluated once more"
    assert decode_document(site.made("good1").data) == {"who": "good1"}


def test_an_external_pillar_that_does_not_end_is_killed_with_its_programs(site: Site, tmp_path: Path) -> None:
    made = site.made("hang1")
    assert (made.ended, made.file) == (True, "ext_pillar hang")
    wait_until(lambda: not alive(int((tmp_path / "pid").read_text())), "its program is gone")
    assert decode_document(site.made("good1").data) == {"who": "good1"}


@pytest.mark.parametrize(
    ("evil", "said"),
    [
        ("fat", "Jinja: MemoryError"),
        ("bomb", "aliases add more than"),
        ("fifo", "'fifo' in environment 'base' is not available"),
        ("huge", "huge.sls is larger than"),
        ("deep", "lists and maps are nested"),
    ],
)
def test_what_is_too_large_costs_its_own_file(site: Site, evil: str, said: str) -> None:
    made = site.made(f"{evil}1")
    pillar = decode_document(made.data)
    assert said in pillar["_errors"][0]
    assert pillar["who"] == f"{evil}1"
    assert made.errors == tuple(pillar["_errors"])


def test_memory_that_was_used_is_given_back(site: Site) -> None:
    return_freed_memory()  # as the master: what this process has freed is not used for what is large
    site.made("good1")
    (before,) = site.process.pids()
    assert "makes more than" in site.made("large1").errors[0]
    site.made("good2")
    assert before not in site.process.pids()


def test_a_large_pillar_comes_whole(site: Site) -> None:
    assert len(site.made("wide1").data) > 800_000


def test_one_that_waits_for_something_is_ended_by_the_clock(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluators, "EVALUATION_S", 0.5)
    site.ask("loop1")
    site.until(site.process.pids)
    os.kill(site.process.pids()[0], signal.SIGSTOP)
    site.until(lambda: "loop1" in site.came)
    assert "it took more than 0.5 s" in site.came["loop1"].problem


def test_another_evaluation_in_a_file_that_is_known_to_loop_has_less_time(site: Site) -> None:
    site.made("loop1")
    assert "it took more than 0.3 s of CPU" in site.made("loop2").problem
    assert "it took more than 2 s of CPU" in site.made("c_loop1").problem


def test_one_asker_has_one_under_way(site: Site) -> None:
    for number in range(3):
        site.ask(f"loop{number}", "user fred")
    site.ask("good1")
    site.until(lambda: "good1" in site.came)
    assert len(site.process.pids()) == 2
    assert "loop1" not in site.came
    site.until(lambda: len(site.came) == 4)


def test_what_waits_too_long_is_told_to_come_again(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluation, "WAIT_S", 0.2)
    for number in range(evaluators.PROCESSES):
        site.ask(f"loop{number}")
    site.ask("good1")
    site.until(lambda: "good1" in site.came)
    assert "too slowly" in site.came["good1"].problem
    assert not site.came["good1"].ended


def test_a_process_that_dies_is_counted_as_the_askers(site: Site) -> None:
    site.ask("loop1")
    site.until(site.process.pids)
    time.sleep(0.3)  # the evaluation loops by then, whatever it does: its instant is chance
    os.kill(site.process.pids()[0], signal.SIGKILL)
    site.until(lambda: "loop1" in site.came)
    assert "its process ended (killed by SIGKILL)" in site.came["loop1"].problem
    assert decode_document(site.made("good1").data) == {"who": "good1"}


def test_evaluators_that_are_gone_are_told_of_and_asked_again_when_they_are_back(
    tmp_path: Path, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    away = Evaluations(site.reactor, str(tmp_path / "nobody.ipc"), os.geteuid())
    said: list[Evaluation] = []
    away.evaluate(EvaluationRequest("minion a", MinionId("a"), {}), said.append)
    assert "do not answer" in said[0].problem
    stranger = Evaluations(site.reactor, site.path, os.geteuid() + 1)
    stranger.evaluate(EvaluationRequest("minion a", MinionId("a"), {}), said.append)
    assert "do not answer" in said[1].problem, "whoever else listens there could give any pillar to anybody"
    monkeypatch.setattr(evaluators, "ANSWER_S", 0.1)
    site.ask("loop1")
    site.until(lambda: "loop1" in site.came)
    assert "do not answer" in site.came["loop1"].problem


def test_the_limits_of_a_process_are_the_kernels(site: Site) -> None:
    site.made("good1")
    (pid,) = site.process.pids()
    limits = Path(f"/proc/{pid}/limits").read_text()
    (space,) = (line for line in limits.splitlines() if line.startswith("Max address space"))
    # The process was forked from the one that runs the tests, and may have so much more than that.
    mine = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGESIZE")
    assert evaluation.MEMORY < int(space.split()[3]) < 4 * evaluation.MEMORY + mine
    (cpu,) = (line for line in limits.splitlines() if line.startswith("Max cpu time"))
    assert int(cpu.split()[3]) <= evaluation.CPU_S + 2
    assert os.getpriority(os.PRIO_PROCESS, pid) == os.getpriority(os.PRIO_PROCESS, 0) + evaluation.NICENESS
    kept = {os.path.basename(os.readlink(f"/proc/{pid}/fd/{fd}"))[:6] for fd in os.listdir(f"/proc/{pid}/fd")}
    assert "[event" not in kept, "it has nothing of the parent's loop"
