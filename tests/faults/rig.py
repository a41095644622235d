"""A fleet that is hurt, clients that go on asking it, and the verdict over what all of them noted.

What belongs here: breaking things, starting again what died (as systemd would), waiting until every job has
ended, and the history. What does not: which fault comes when.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from saltlite.client.follower import Progress, Published, Update, WaitPolicy
from saltlite.client.local import JobCall, LocalClient
from saltlite.errors import SaltliteError
from saltlite.master.store.ports import Store
from saltlite.minion.jobs.job_process import TITLE as JOB_TITLE
from saltlite.model.ids import Jid
from tests.faults.launch import SLOW, arm
from tests.faults.trace import digest_of, note
from tests.support.fleet import Daemon, Fleet, title, wait_until
from tests.support.guarantees import Event, History, check, report

T = TypeVar("T")

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
MINIONS = ("a", "b")
LONG = bool(os.environ.get(SLOW))
LASTS_S = 60.0 if LONG else 5.0
"""How long a process stays stopped, a line cut: twice what it takes, with heartbeats of 1 s, to be called silent."""
REPEATS = 5 if LONG else 3
"""How often a scenario runs, each time with instants and victims of its own."""
TEST_S = 1200 if LONG else 180
"""Within so long a scenario ends that is made of such times."""
DELIVER_S = 30.0
SETTLE_S = 45.0
"""How long after the last fault every job must have ended. The guarantee is deliver-by and 60 s (G5): this is less."""
ASK_AGAIN_S = 0.05


class Launched(Daemon):
    """A daemon that `tests.faults.launch` started."""

    cwd = ROOT

    def command(self) -> list[str | Path]:
        return [sys.executable, "-m", "tests.faults.launch", self.program]


class FaultFleet(Fleet):
    """A fleet whose daemons can be hurt. Its clients run in threads; `settle` and `verdict` end a scenario."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.trace = str(folder / "trace")
        self._threads = ThreadPoolExecutor(16)
        self._clients = 0
        self._lock = threading.Lock()
        self._seq = 0
        self._open: set[Jid] = set()
        self._judged = 0
        self.sound = True

    # -- starting

    def start(self, *minions: str, master: Mapping[str, Any] | None = None) -> None:
        """A master and these minions, up."""
        self.start_master(**(master or {}))
        self.join(*minions)

    def start_minion(self, name: str, **options: Any) -> Daemon:
        """As Fleet's, with the module of this folder."""
        return super().start_minion(name, module_dirs=[str(HERE)], **options)

    def environment(self) -> dict[str, str]:
        """As Fleet's, and whether times are the product's."""
        return super().environment() | ({SLOW: "1"} if LONG else {})

    def _launch(self, program: str, name: str, *, as_name: str = "") -> Daemon:
        (self.folder / name / "faults").mkdir(exist_ok=True)
        daemon = Launched(program, self.folder / name, self.environment())
        self.daemons[as_name or name] = daemon
        return daemon

    def revive(self) -> None:
        """Start what has died again, on the configuration that it has."""
        for name, daemon in list(self.daemons.items()):
            if daemon.process.poll() is not None:
                self._launch(daemon.program, name)

    def ready(self) -> None:
        """Everything runs, and every minion has a session; without that a scenario would begin with a fault."""

        def look() -> bool:
            self.revive()
            with contextlib.suppress(SaltliteError):
                return set(self.daemons) - {"master"} <= self.up()
            return False

        wait_until(look, "the whole fleet is up")

    # -- hurting

    def arm(self, daemon: str, point: str, *, victim: str = "process", count: int = 1) -> None:
        """At the `count`-th call from now the process, or the whole daemon (`group`), is killed there."""
        self.note("fault", what=f"{victim} killed {point}", who=daemon)
        arm(self._flag(daemon, point), f"{victim} {count}")

    def fail(self, daemon: str, point: str, error: str) -> None:
        """From now on that call fails with this errno name, until `heal`."""
        self.note("fault", what=f"{error} at {point}", who=daemon)
        arm(self._flag(daemon, point), error)

    def heal(self, daemon: str, point: str) -> None:
        """The call works again; a point that was not reached is disarmed."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._flag(daemon, point))

    def armed(self, daemon: str, point: str) -> bool:
        """Whether nobody has died there yet."""
        return os.path.exists(self._flag(daemon, point))

    def set_clock(self, daemon: str, offset_s: float) -> None:
        """Put the wall clock of that machine so far off."""
        self.note("fault", what=f"wall clock {offset_s:+g} s", who=daemon)
        arm(self._flag(daemon, "clock"), str(offset_s))

    def signal(self, daemon: str, child: str, signum: int) -> None:
        """Send a signal to a child of that title, or to the daemon's first process for ""."""
        self.note("fault", what=signal.Signals(signum).name, who=f"{daemon} {child}")
        one = self.daemons[daemon]
        pids = one.children(child) if child else [one.pid]
        for pid in pids[:1]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signum)

    def kill_group(self, *daemons: str) -> None:
        """SIGKILL to all processes of these daemons, jobs excepted: they are groups of their own."""
        for daemon in daemons:
            self.note("fault", what="SIGKILL", who=f"{daemon}, all of it")
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.daemons[daemon].pid, signal.SIGKILL)

    def kill_job(self, minion: str) -> None:
        """SIGKILL to one process that runs a job now, if there is one."""
        self.note("fault", what="SIGKILL", who=f"a job of {minion}")
        pids = [pid for pid in sorted(self.running_jobs(minion).values()) if title(pid) == JOB_TITLE]
        for pid in pids[:1]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _flag(self, daemon: str, name: str) -> str:
        return str(self.folder / daemon / "faults" / name)

    # -- asking

    def note(self, kind: str, **fields: Any) -> None:
        """Something happened; it is in the history that `verdict` reads."""
        note(self.trace, kind, **fields)

    def ask(self, target: str = "*", seconds: float = 0.0, *, size: int = 0, follow: bool = True) -> Future[str]:
        """A client of its own publishes a job that takes so long and follows it to its end; its jid."""
        with self._lock:
            self._clients += 1
            name = f"client-{self._clients}"
        job = JobCall(
            target,
            "steps.run",
            arg=[self.trace, seconds, size],
            deliver_ms=int(DELIVER_S * 1000),
            run_ms=int(DELIVER_S * 1000),
        )
        return self._threads.submit(self._client, name, job, follow)

    def _client(self, name: str, job: JobCall, follow: bool) -> str:
        request = os.urandom(16).hex()
        self.note("asked", client=name, request=request)
        with self.client() as client:
            fields = {"request_id": request, "follow": False, **job.fields()}
            published = Published(_insist(lambda: client.call("publish", **fields)))
            said = {"request": request, "jid": published.jid, "minions": published.minions}
            self.note("published", client=name, **said)
            if follow:
                self._follow(name, client, published)
        return published.jid

    def _follow(self, name: str, client: LocalClient, published: Published) -> None:
        progress = _Noting(published, self.trace, name)

        def watch() -> bool:
            client.close()
            client.call("follow", jid=published.jid, after=progress.seq)
            for _reply in client.watch(progress, WaitPolicy(SETTLE_S, away_s=SETTLE_S + DELIVER_S)):
                pass
            return True

        _insist(watch)
        self.note("closed", client=name, jid=published.jid, missing=progress.missing())

    # -- the end of a scenario

    def settle(self, asked: Sequence[Future[str]] = ()) -> None:
        """Faults are over: start what died, wait until every job has ended and every client has its answer."""
        self.note("healed")
        wait_until(lambda: self._ended(asked), "every job has ended", SETTLE_S + DELIVER_S)
        for future in asked:
            future.result(timeout=SETTLE_S)

    def _ended(self, asked: Sequence[Future[str]]) -> bool:
        self.revive()
        if not all(future.done() for future in asked):
            return False
        with self.store() as store:
            self._see_new_jobs(store)
            self._open = {jid for jid in self._open if store.open_targets(jid)}
        return not self._open

    def _see_new_jobs(self, store: Store) -> None:
        while events := store.events(self._seq, 1000):
            self._seq = events[-1].seq
            tags = (event.tag.split("/") for event in events)
            self._open |= {Jid(tag[2]) for tag in tags if tag[:2] == ["salt", "job"] and tag[3:] == ["new"]}

    def verdict(self) -> None:
        """Hold the whole history of every job that anything was noted of since the last verdict against the store."""
        events = self.history().events
        fresh = {str(event.fields["jid"]) for event in events[self._judged :] if "jid" in event.fields}
        self._judged = len(events)
        judged = History(time.monotonic)
        judged.events = [event for event in events if event.fields.get("jid") in fresh or "jid" not in event.fields]
        with self.store() as store:
            judged.events += [_final(store, Jid(jid)) for jid in sorted(fresh) if store.job(Jid(jid))]
        violations = check(judged)
        self.sound = not violations
        assert not violations, f"{report(violations)}\n\n{_story(judged, report(violations))}"

    def fresh(self) -> list[Event]:
        """What was noted since the last verdict."""
        return self.history().events[self._judged :]

    def history(self) -> History:
        """All that has been noted so far, but for a line that is only half written."""
        path = Path(self.trace)
        path.touch()
        whole = path.with_suffix(".whole")
        whole.write_bytes(path.read_bytes().rpartition(b"\n")[0])
        return History.load(whole)

    def close(self) -> None:
        """As Fleet's; clients that still ask find nobody, and give up."""
        super().close()
        self._threads.shutdown(wait=False, cancel_futures=True)


def _final(store: Store, jid: Jid) -> Event:
    job, returns = store.job(jid), store.returns(jid)
    counts = {ret.id: sum(other.id == ret.id for other in returns) for ret in returns}
    fields = {
        "jid": jid,
        "targets": {str(row.id): str(row.state) for row in store.targets(jid)},
        "returns": counts,
        "request": job.request_id if job else "",
        "user": job.user if job else "",
        "digests": {ret.id: digest_of(ret.body) for ret in returns},
    }
    return Event(time.monotonic(), "final", fields)


def _story(history: History, about: str) -> str:
    """The events of the jobs that a report names, and the faults."""
    jids = {jid for event in history.events if (jid := event.fields.get("jid")) and jid in about}
    told = (e for e in history.events if e.kind in ("fault", "healed") or e.fields.get("jid") in jids)
    return "\n".join(map(str, told))


class _Noting(Progress):
    """What the client library keeps of a job, with a note of each return that it shows."""

    def __init__(self, published: Published, trace: str, client: str) -> None:
        super().__init__(published, now=time.monotonic())
        self._trace = trace
        self._client = client

    def apply(self, message: Mapping[str, Any], *, now: float) -> Update:
        # Every row, also one that the library would see as a repeat: the cursor is promised to bring none.
        for row in message.get("returns", ()):
            said = {"client": self._client, "jid": self.published.jid, "minion": row["id"], "seq": row["seq"]}
            note(self._trace, "shown", **said)
        return super().apply(message, now=now)


def _insist(call: Callable[[], T]) -> T:
    """Do it again until the master is there and can do it. Raises what it said last after SETTLE_S and DELIVER_S."""
    give_up_at = time.monotonic() + SETTLE_S + DELIVER_S
    while True:
        try:
            return call()
        except SaltliteError:
            if time.monotonic() >= give_up_at:
                raise
            time.sleep(ASK_AGAIN_S)
