"""Calls of resources, in the process of their type: results, limits, threads, and processes that crash or hang."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from saltlite.loader.encode import decode_return
from saltlite.minion.resources import calls, server
from saltlite.minion.resources.device_queue import DOUBT_S
from saltlite.minion.resources.process import HUNG_MAX
from saltlite.minion.resources.server import RESTART_MIN_S
from saltlite.model.job import TargetState
from tests.support.fleet import wait_until
from tests.support.resource_server import CONNECTION, FILES, JID, PLACES, SLOT, MakeResourceRig


def test_every_resource_answers_with_its_own_id_and_grains(make_rig: MakeResourceRig) -> None:
    rig = make_rig()
    ids = [f"p{number}" for number in range(64)]
    rig.found(ids)
    rig.until_grains(*ids)
    said = rig.values(ids, "test.who")
    assert said == {rid: [{"id": rid, "type": "probe"}, {"rid": rid, "role": "probe"}] for rid in ids}


def test_a_type_is_loaded_and_its_grains_are_collected_once_however_many_jobs_run(make_rig: MakeResourceRig) -> None:
    rig = make_rig()
    rig.found(["p1", "p2"])
    rig.until_grains("p1", "p2")
    pids = [rig.values(["p1", "p2"], "test.pid") for _ in range(3)]
    assert (rig.count("inits"), rig.count("grains")) == (1, 2)
    assert len({pid for said in pids for pid in said.values()}) == 1


def test_resources_are_called_at_the_same_time(make_rig: MakeResourceRig) -> None:
    rig = make_rig()
    rig.found(["p1", "p2"])
    assert rig.values(["p1", "p2"], "test.both") == {"p1": True, "p2": True}


def test_a_device_has_one_call_at_a_time(make_rig: MakeResourceRig) -> None:
    rig = make_rig()
    rig.found(["p1"])
    parts = [rig.begin(["p1"], "test.alone") for _ in range(4)]
    rig.until(lambda: set(parts) <= rig.done.keys())
    assert [decode_return(rig.rows(part)["p1"].body) for part in parts] == [1, 1, 1, 1]


def test_a_resource_that_hangs_delays_no_other_and_times_out_alone(make_rig: MakeResourceRig) -> None:
    rig = make_rig(timeout_s=4.0)
    ids = [f"p{number}" for number in range(40)]
    rig.found(ids)
    part = rig.begin(ids, "test.sleep_if", "p7", 60)
    rig.until(lambda: len(rig.rows(part)) == 39)
    assert part not in rig.done
    rig.until(lambda: part in rig.done)
    hung = rig.rows(part)["p7"]
    assert (hung.state, hung.body, hung.reason) == (TargetState.TIMED_OUT, b"", "it did not answer within 4 s")


def test_after_a_call_that_hangs_the_process_is_replaced_and_the_device_is_asked_again(
    make_rig: MakeResourceRig,
) -> None:
    rig = make_rig(timeout_s=0.3)
    rig.found(["p1"])
    before = rig.values(["p1"], "test.pid")
    rig.run(["p1"], "test.sleep", 60)
    rig.until(lambda: rig.count("inits") == 2)
    assert rig.values(["p1"], "test.pid") != before
    assert rig.values(["p1"], "test.who")["p1"][1] == {"rid": "p1", "role": "probe"}


def test_a_crashed_process_ends_its_parts_says_how_and_is_started_again(make_rig: MakeResourceRig) -> None:
    rig = make_rig()
    rig.found(["p1", "p2"])
    part = rig.begin(["p1"], "test.crash")
    rig.until(lambda: part in rig.done)
    assert rig.done[part] == "exit status 3"
    assert rig.values(["p2"], "test.ping") == {"p2": True}


def test_a_process_that_is_killed_ends_its_parts(make_rig: MakeResourceRig) -> None:
    rig = make_rig()
    rig.found(["p1"])
    pid = rig.values(["p1"], "test.pid")["p1"]
    part = rig.begin(["p1"], "test.sleep", 30)
    os.kill(pid, signal.SIGKILL)
    rig.until(lambda: part in rig.done)
    assert rig.done[part] == "killed by SIGKILL"


def test_a_cancelled_part_ends_at_once_and_what_was_answered_before_is_kept(make_rig: MakeResourceRig) -> None:
    rig = make_rig()
    rig.found(["p1", "p2"])
    part = rig.begin(["p1", "p2"], "test.sleep_if", "p2", 60)
    rig.until(lambda: rig.rows(part))
    rig.server.cancel(part, late=False)
    rig.until(lambda: part in rig.done, 30)
    assert (list(rig.rows(part)), rig.done[part] != "") == (["p1"], True)


def test_what_is_not_managed_here_is_refused_and_the_others_answer(make_rig: MakeResourceRig) -> None:
    rig = make_rig()
    rig.found(["p1"])
    said = rig.run(["p1", "gone"], "test.ping")
    assert (said["p1"].state, said["gone"].state) == (TargetState.RETURNED, TargetState.REFUSED)
    assert said["gone"].reason == "this minion does not manage it"


def test_a_type_that_the_pillar_does_not_declare_is_refused(make_rig: MakeResourceRig) -> None:
    rig = make_rig()
    rig.server.pillar_is({})
    assert rig.run(["p1"], "test.ping")["p1"].state is TargetState.REFUSED


def test_parts_wait_for_the_first_pillar(make_rig: MakeResourceRig) -> None:
    rig = make_rig()
    part = rig.begin(["p1"], "test.ping")
    rig.found(["p1"])
    rig.until(lambda: part in rig.done)
    assert rig.rows(part)["p1"].state is TargetState.RETURNED


@pytest.mark.parametrize(
    ("fun", "args", "text"),
    [
        ("cmd.run", ["id"], "Function 'cmd.run' is not supported for resource type 'probe'"),
        ("test.ping", [1], "Passed invalid arguments to test.ping: "),
        ("test.sleep", ["x"], "The minion function caused an exception: Traceback"),
    ],
)
def test_what_goes_wrong_is_said_in_the_words_of_a_minion(
    make_rig: MakeResourceRig, fun: str, args: list[Any], text: str
) -> None:
    rig = make_rig()
    rig.found(["p1"])
    row = rig.run(["p1"], fun, *args)["p1"]
    assert decode_return(row.body).startswith(text)
    assert row.retcode == 1


def test_the_retcode_belongs_to_the_call(make_rig: MakeResourceRig) -> None:
    rig = make_rig()
    rig.found(["p1", "p2"])
    assert {row.retcode for row in rig.run(["p1", "p2"], "test.fail", 7).values()} == {7}
    assert {row.retcode for row in rig.run(["p1", "p2"], "test.ping").values()} == {0}


def test_a_large_answer_is_a_segment_of_its_own(make_rig: MakeResourceRig) -> None:
    rig = make_rig()
    rig.found(["p1", "p2"])
    assert {rid: len(text) for rid, text in rig.values(["p1", "p2"], "test.large", 100_000).items()} == {
        "p1": 100_000,
        "p2": 100_000,
    }
    assert len(rig.segments) == 2


def test_many_answers_share_a_segment(make_rig: MakeResourceRig) -> None:
    rig = make_rig()
    ids = [f"p{number}" for number in range(500)]
    rig.found(ids)
    assert len(rig.run(ids, "test.ping")) == 500
    assert len(rig.segments) < 25


def test_a_pillar_that_says_the_same_of_a_type_is_seen_by_its_process_and_does_not_replace_it(
    make_rig: MakeResourceRig,
) -> None:
    own = """
        import os

        def seen():
            return os.getpid(), __pillar__.get('colour'), __minion__['pillar.get']('colour')
        """
    rig = make_rig({**FILES, "resources/probe/modules/own": own})
    rig.found(["p1"])
    pid, before, _ = rig.values(["p1"], "own.seen")["p1"]
    rig.found(["p1"], colour="red")
    assert (rig.values(["p1"], "own.seen")["p1"], before) == ([pid, "red", "red"], None)
    rig.found(["p1", "p2"], colour="red")
    assert rig.values(["p1"], "own.seen")["p1"][0] != pid


def test_shutdown_is_called_when_the_minion_stops(make_rig: MakeResourceRig) -> None:
    rig = make_rig()
    rig.found(["p1"])
    rig.stop()
    assert rig.count("shutdowns") == 1


def test_log_lines_name_the_resource_and_the_job(make_rig: MakeResourceRig, log_file: Path) -> None:
    rig = make_rig()
    rig.found(["p1"])
    rig.run(["p1"], "test.complain")
    line = next(line for line in log_file.read_text().splitlines() if "something is odd" in line)
    assert f"jid={JID}" in line
    assert "srn=probe:p1" in line


def test_a_device_can_be_asked_while_another_one_gives_its_grains(make_rig: MakeResourceRig) -> None:
    rig = make_rig()
    rig.hold("slow")
    rig.server.pillar_is({"resources": {"probe": {"ids": ["p1", "slow"]}}})
    assert rig.values(["p1"], "test.ping") == {"p1": True}
    assert not rig.registered or "probe:slow" not in rig.registered[-1]["grains"]


def test_functions_reach_the_modules_of_their_minion(make_rig: MakeResourceRig) -> None:
    own = "def f():\n    return __minion__['test.echo']('x'), __resource_funcs__['probe.discover'](__opts__)\n"
    rig = make_rig({**FILES, "resources/probe/modules/own": own})
    rig.found(["p1"])
    assert rig.values(["p1"], "own.f") == {"p1": ["x", ["p1"]]}


def test_a_process_that_crashes_again_and_again_is_started_with_growing_pauses(
    make_rig: MakeResourceRig, log_file: Path
) -> None:
    rig = make_rig()
    rig.found(["p1"])
    began = time.monotonic()
    for _ in range(5):
        rig.run(["p1"], "test.crash")
    assert time.monotonic() - began >= sum(RESTART_MIN_S * 2**n for n in range(4))
    assert "its process ended (exit status 3), and is started again" in log_file.read_text()


LIMITS = (
    CONNECTION
    + """
    def timeout(fun, args, kwargs):
        return {"test.sleep": 0.3}.get(fun)
    """
)


def test_when_more_than_a_few_calls_hang_a_fresh_process_takes_what_comes_next(make_rig: MakeResourceRig) -> None:
    rig = make_rig({**FILES, "resources/probe/__init__": LIMITS})
    ids = [f"p{number}" for number in range(HUNG_MAX + 1)]
    rig.found([*ids, "busy", "other"])
    before = rig.values(["other"], "test.pid")["other"]
    hanging = rig.begin(ids, "test.sleep", 60)
    # One after the other: the old process has something else to do until after the new one is there.
    busy = [rig.begin(["busy"], "test.sleep_if", "busy", 0.1) for _ in range(15)]

    def replaced() -> bool:
        if rig.count("inits") == 1 and len(set(busy) - rig.done.keys()) < 15:
            busy.append(rig.begin(["busy"], "test.sleep_if", "busy", 0.1))
        return hanging in rig.done and rig.count("inits") == 2

    rig.until(replaced)
    assert rig.values(["other"], "test.pid")["other"] != before
    rig.until(lambda: set(busy) <= rig.done.keys())
    assert {rig.rows(part)["busy"].state for part in busy} == {TargetState.RETURNED}


def test_a_process_that_is_not_heard_of_any_more_is_killed_and_its_calls_end(
    make_rig: MakeResourceRig, log_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "LISTEN_S", 0.5)
    rig = make_rig()
    rig.found(["p1"])
    frozen = rig.values(["p1"], "test.pid")["p1"]
    part = rig.begin(["p1"], "test.sleep", 60)
    os.kill(frozen, signal.SIGSTOP)
    rig.until(lambda: part in rig.done)
    assert rig.done[part] == "killed by SIGKILL"
    assert "its process has not been heard of for 1.5 s, and is killed" in log_file.read_text()
    assert rig.values(["p1"], "test.pid")["p1"] != frozen


def test_a_process_that_waits_for_its_devices_is_heard_of(
    make_rig: MakeResourceRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The call outlasts the silence that ends a process, and a busy machine's pauses do not reach it.
    monkeypatch.setattr(server, "LISTEN_S", 0.5)
    rig = make_rig()
    rig.found(["p1"])
    assert rig.values(["p1"], "test.sleep", 2.0) == {"p1": 2.0}


def test_a_type_names_the_limit_of_a_call_and_what_has_none_has_the_one_of_the_minion(
    make_rig: MakeResourceRig,
) -> None:
    rig = make_rig({**FILES, "resources/probe/__init__": LIMITS}, timeout_s=60.0)
    rig.found(["p1", "p2"])
    both = [rig.begin(["p1"], "test.sleep", 60), rig.begin(["p2"], "test.sleep_if", "p2", 0.8)]
    rig.until(lambda: set(both) <= rig.done.keys())
    first, second = (next(iter(rig.rows(part).values())) for part in both)
    assert (first.state, first.reason) == (TargetState.TIMED_OUT, "it did not answer within 0.3 s")
    assert (second.state, second.reason) == (TargetState.RETURNED, "")


def test_a_limit_of_a_type_may_be_longer_than_that_of_the_minion(make_rig: MakeResourceRig) -> None:
    longer = LIMITS.replace('"test.sleep": 0.3', '"test.sleep": 30')
    rig = make_rig({**FILES, "resources/probe/__init__": longer}, timeout_s=0.5)
    rig.found(["p1"])
    assert rig.values(["p1"], "test.sleep", 1.0) == {"p1": 1.0}


def test_a_type_that_fails_to_name_a_limit_has_the_one_of_the_minion(make_rig: MakeResourceRig, log_file: Path) -> None:
    rig = make_rig(
        {**FILES, "resources/probe/__init__": LIMITS.replace("return {", "return 1 / 0 or {")}, timeout_s=0.3
    )
    rig.found(["p1"])
    assert rig.run(["p1"], "test.sleep", 60)["p1"].reason == "it did not answer within 0.3 s"
    assert "timeout() raised ZeroDivisionError: division by zero; 0.3 s are the limit" in log_file.read_text()


def test_devices_whose_calls_fail_after_a_while_leave_half_of_the_places_to_the_others(
    make_rig: MakeResourceRig,
) -> None:
    dead = "import time\n\n\ndef reach(seconds):\n    time.sleep(seconds)\n    raise ValueError('no route')\n"
    rig = make_rig({**FILES, "resources/probe/modules/dead": dead})
    ids = [f"p{number}" for number in range(PLACES)]
    rig.found([*ids, "alive"])
    rig.run(ids, "dead.reach", DOUBT_S)
    part = rig.begin(ids, "dead.reach", 2.0)
    assert rig.values(["alive"], "test.ping") == {"alive": True}
    assert part not in rig.done
    rig.until(lambda: part in rig.done)
    began = {row.start_ms for row in rig.rows(part).values()}
    assert max(began) - min(began) >= 1900


THREADS = """
    import threading

    def thread():
        return threading.get_ident()

    def own_threads():
        return sum(each.name.startswith("probe:") for each in threading.enumerate())
    """


def test_calls_on_one_resource_run_in_one_thread_if_the_type_asks_for_it(make_rig: MakeResourceRig) -> None:
    # Not from the pillar: a change of the pillar replaces the process with all its threads.
    changing = CONNECTION.replace(
        'return __pillar__["resources"]["probe"]["ids"]', "return open(opts['cachedir'] + '/ids').read().split()"
    )
    connection = "    THREAD_PER_RESOURCE = True\n" + changing
    rig = make_rig({"resources/probe/__init__": connection, "resources/probe/modules/test": THREADS + SLOT})
    ids = [f"p{number}" for number in range(20)]
    present = rig.folder / "cache/ids"
    present.write_text(" ".join(ids))
    rig.found([])
    # Calls that wait make the pool start further threads.
    rig.values(ids, "test.sleep", 0.05)
    first, *others = [rig.values(ids, "test.thread") for _ in range(4)]
    assert others == [first] * 3
    assert len(set(first.values())) == len(ids)
    assert rig.values(["p1", "p2"], "test.both") == {"p1": True, "p2": True}
    assert rig.values(["p1"], "test.own_threads") == {"p1": len(ids)}
    present.write_text("p1")
    over: list[bool] = []
    rig.server.looked(lambda: over.append(True))
    rig.until(lambda: over)
    wait_until(lambda: rig.values(["p1"], "test.own_threads") == {"p1": 1}, "the threads of the others end")


def test_a_resource_without_a_thread_answers_with_the_reason(
    make_rig: MakeResourceRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls, "RESOURCE_THREADS_MAX", 0)
    connection = "    THREAD_PER_RESOURCE = True\n" + CONNECTION
    rig = make_rig({"resources/probe/__init__": connection, "resources/probe/modules/test": THREADS + SLOT})
    rig.found(["p1"])
    answer = rig.run(["p1"], "test.thread")["p1"]
    assert (answer.state, answer.retcode) == (TargetState.RETURNED, 1)
    assert "0 resources of its type have threads" in decode_return(answer.body)


def test_a_call_that_hangs_in_the_thread_of_its_resource_delays_no_other(make_rig: MakeResourceRig) -> None:
    connection = "    THREAD_PER_RESOURCE = True\n" + CONNECTION
    rig = make_rig({**FILES, "resources/probe/__init__": connection}, timeout_s=2.0)
    rig.found(["p1", "p2"])
    part = rig.begin(["p1", "p2"], "test.sleep_if", "p1", 60)
    rig.until(lambda: part in rig.done)
    assert [rig.rows(part)[one].state for one in ("p1", "p2")] == [TargetState.TIMED_OUT, TargetState.RETURNED]
