"""An executor that raises, hangs or returns nonsense ends its job with a clear return; and no door weakens sudo."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from saltlite.client.follower import Progress, WaitPolicy
from saltlite.client.local import JobCall, LocalClient
from saltlite.errors import UsageError
from tests.support.api import Api, user_file
from tests.support.fleet import BIN, Fleet, Said, wait_until
from tests.support.machine import OTHER, opening, why_not

pytestmark = pytest.mark.e2e

HEAD = "import os, time\n\n\ndef execute(opts, data, func, args, kwargs):\n"
RAISING = {
    "raises": ("raise ValueError('the bus is away')", "ValueError: the bus is away"),
    "exits": ("raise SystemExit(3)", "SystemExit: 3"),
    "interrupts": ("raise KeyboardInterrupt", "KeyboardInterrupt"),
    "swears": ("raise BaseException('nobody catches me')", "BaseException: nobody catches me"),
    "recurses": ("return execute(opts, data, func, args, kwargs)", "RecursionError: "),
    "misspells": ("return func(*args, **kwargz)", "NameError: name 'kwargz' is not defined"),
    "raises_a_text": ("raise 'a text'", "TypeError: exceptions must derive from BaseException"),
}
"""Name -> body, and the end of what is returned."""
RETURNING = {
    "a_lambda": ("return lambda: 3", "<function execute.<locals>.<lambda> at "),
    "an_object": ("return {object(): object()}", '{"<object object at '),
    "a_generator": ("return (one for one in range(3))", "[0, 1, 2]"),
    "a_circle": ("circle = []; circle.append(circle); return circle", '["[a value that contains itself]"]'),
    "a_deep_one": ("deep = []\n    for _ in range(5000): deep = [deep]\n    return deep", "[[[["),
    "half_a_letter": ("return '\\ud800'", "\ufffd"),
    "no_number": ("return [float('nan'), 2 ** 70]", '[null, "1180591620717411303424"]'),
    "no_text": ("return b'\\xff\\xfe'", '{"$bytes": "//4="}'),
    "keys_of_all_kinds": ("return {(1, 2): 3, None: 4}", '{"(1, 2)": 3, "None": 4}'),
    "a_liar": (
        "class Liar(dict):\n        def items(self): raise RuntimeError('no')\n    return Liar(a=1)",
        "The function returned a value that cannot be encoded: RuntimeError",
    ),
    "a_no": ("return False", "false"),
}
"""Name -> body, and a part of what is returned, in JSON."""
ENDING = {
    "dies": ("os.kill(os.getpid(), 9)", "its process ended without a result (killed by SIGKILL)"),
    "leaves": ("os._exit(0)", "its process ended without a result (exit status 0)"),
    "closes_all": ("os.closerange(3, 100)\n    return 1", "its process ended without a result"),
}
OTHERS = {
    "hangs": "time.sleep(600)",
    "hangs_deaf": "while True:\n        try: time.sleep(600)\n        except Exception: pass",
    "huge": "return 'x' * (64 * 1024 * 1024)",
}
BODIES = OTHERS | {name: row[0] for name, row in {**RAISING, **RETURNING, **ENDING}.items()}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """A master and the minion `m`, which has all of these executors."""
    fleet = Fleet(tmp_path_factory.mktemp("ends"))
    own = fleet.folder / "own/executors"
    own.mkdir(parents=True)
    for name, body in BODIES.items():
        (own / f"{name}.py").write_text(f"{HEAD}    {body}\n")
    (own / "tells.py").write_text(f"{HEAD}    open({str(fleet.folder / 'told')!r}, 'w').close()\n    time.sleep(600)\n")
    try:
        fleet.start_master()
        fleet.join("m", module_dirs=[str(own.parent)], executors_allowed=[*BODIES, "direct_call", "timeout"])
        yield fleet
    finally:
        fleet.close()


def through(fleet: Fleet, name: str, *words: str) -> Said:
    return fleet.cli("--out", "json", f"--module-executors={name}", *words, "m", "test.ping")


def called(fleet: Fleet, name: str, *words: str) -> Said:
    """The same without the master."""
    argv: list[str | Path] = [BIN / "saltlite", "call", "--local", "-c", fleet.folder / "m", "--out", "json", *words]
    done = subprocess.run(
        [*argv, f"--module-executors={name}", "test.ping"],
        capture_output=True,
        text=True,
        check=False,
        env=fleet.environment(),
        timeout=60,
    )
    return Said(done.returncode, done.stdout, done.stderr)


@pytest.mark.parametrize(("name", "said"), [(name, row[1]) for name, row in RAISING.items()])
def test_one_that_raises_has_a_return_that_says_what(site: Fleet, name: str, said: str) -> None:
    for done in (through(site, name), called(site, name)):
        (value,) = done.json().values()
        assert done.code == 4
        assert value.startswith("The minion function caused an exception: Traceback")
        assert value.splitlines()[-1].startswith(said)


@pytest.mark.parametrize(("name", "said"), [(name, row[1]) for name, row in RETURNING.items()])
def test_one_that_returns_nonsense_has_a_return_that_can_be_read(site: Fleet, name: str, said: str) -> None:
    for done in (through(site, name), called(site, name)):
        (value,) = done.json().values()
        assert done.code == 0
        assert said in json.dumps(value, ensure_ascii=False)


@pytest.mark.parametrize(("name", "said"), [(name, row[1]) for name, row in ENDING.items()])
def test_one_that_takes_its_process_away_ends_its_job_and_nothing_else(site: Fleet, name: str, said: str) -> None:
    done = through(site, name)
    assert (done.code, done.json()) == (4, {})
    assert said in done.err
    assert site.cli("--out", "json", "m", "test.ping").json() == {"m": True}


def test_one_that_returns_too_much_is_cut_and_says_so(site: Fleet) -> None:
    done = through(site, "huge")
    assert "m: truncated: 67108864 bytes; all of it: saltlite job fetch" in done.err
    assert len(done.out) < 17 * 1024 * 1024


@pytest.mark.parametrize("name", ["hangs", "hangs_deaf"])
def test_one_that_hangs_is_ended_by_every_limit(site: Fleet, name: str) -> None:
    done = through(site, name, "--run-timeout", "1s")
    assert (done.code, done.json()) == (4, {})
    assert "m: killed: it reached its run time limit" in done.err
    limit = "--executor-opts={call_timeout: 0.5}"
    for done in (through(site, f"[timeout, {name}]", limit), called(site, f"[timeout, {name}]", limit)):
        (value,) = done.json().values()
        assert done.code == 4
        assert "took longer than 0.5 s (executor timeout)" in value


def test_one_that_hangs_under_call_is_ended_from_the_keyboard(site: Fleet) -> None:
    argv: list[str | Path] = [
        BIN / "saltlite",
        "call",
        "--local",
        "-c",
        site.folder / "m",
        "--module-executors=tells",
        "test.ping",
    ]
    told = site.folder / "told"
    with subprocess.Popen(
        argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=site.environment()
    ) as it:
        wait_until(told.exists, "it hangs")
        it.send_signal(signal.SIGINT)
        out, _err = it.communicate(timeout=60)
    assert (it.returncode, out) == (130, "")


# --- sudo


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Fleet, Api]]:
    """The minion `s`, whose functions OTHER calls; the API for somebody who may everything there."""
    if why_not():
        pytest.skip(why_not())
    fleet = Fleet(tmp_path_factory.mktemp("guarded"))
    try:
        rules = {"file": {"eli": [".*", "@executor", "@runner"]}}
        fleet.start_master(auth_file=user_file(fleet.folder / "users", "eli"), external_auth=rules)
        fleet.through = opening()
        fleet.join("s", sudo_user=OTHER, module_executors=["timeout", "direct_call"], executors_allowed=ALLOWED)
        yield fleet, Api(fleet.start_api()).log_in("eli")
    finally:
        fleet.close()


ALLOWED = ["direct_call", "splay", "dry", "timeout", "nice", "audit", "sudo"]
"""What ships; its minion allows all of it."""
WEAKENING: list[tuple[dict[str, Any], str]] = [
    ({}, OTHER),
    ({"module_executors": "direct_call"}, OTHER),
    ({"module_executors": ["direct_call"]}, OTHER),
    ({"module_executors": ["direct_call", "direct_call"]}, OTHER),
    ({"module_executors": ["direct_call", "sudo"]}, OTHER),
    ({"module_executors": ["timeout"]}, OTHER),
    ({"module_executors": ["nice", "direct_call"], "executor_opts": {"nice_level": 12}}, OTHER),
    ({"module_executors": ["audit", "direct_call"]}, OTHER),
    ({"module_executors": []}, OTHER),
    ({"executor_opts": {}}, OTHER),
    ({"executor_opts": {"call_timeout": 60}}, OTHER),
    ({"executor_opts": {"sudo_user": "root"}}, "takes the option 'sudo_user' from a caller"),
    ({"executor_opts": {"sudo_user": ""}}, "takes the option 'sudo_user' from a caller"),
    (
        {"module_executors": ["sudo"], "executor_opts": {"sudo_user": "root"}},
        "takes the option 'sudo_user' from a caller",
    ),
    ({"executor_opts": {"module_executors": ["direct_call"]}}, "takes the option 'module_executors' from a caller"),
    ({"executor_opts": {"executors_allowed": ["own"]}}, "takes the option 'executors_allowed' from a caller"),
]


def published(client: LocalClient, job: JobCall) -> str:
    """What the one target returned, as JSON."""
    progress = Progress(client.publish(job, follow=True), now=time.monotonic())
    return json.dumps([reply.value for reply in client.watch(progress, WaitPolicy(20.0))])


@pytest.mark.parametrize(("asked", "said"), WEAKENING, ids=[json.dumps(row[0]) for row in WEAKENING])
def test_no_caller_weakens_a_configured_sudo(guarded: tuple[Fleet, Api], asked: dict[str, Any], said: str) -> None:
    fleet, api = guarded
    by_api = api.low(client="local", tgt="s", fun="cmd.run", arg=["id -un"], **asked)
    by_batch = api.low(client="local_batch", tgt="s", fun="cmd.run", arg=["id -un"], batch=1, **asked)
    twice = api.low(client="local", tgt="s", fun=["cmd.run", "cmd.run"], arg=[["id -un"], ["id -un"]], **asked)
    for answer in (by_api, by_batch, twice):
        assert answer.status == 200
        assert (said in answer.body, "root" in answer.body.replace("'root'", "")) == (True, False)
    texts = {name: value if isinstance(value, str) else json.dumps(value) for name, value in asked.items()}
    words = [f"--{name.replace('_', '-')}={text}" for name, text in texts.items()]
    typed = fleet.cli(*words, "--out", "json", "s", "cmd.run", "id -un") if all(asked.values()) else None
    assert typed is None or said in typed.json()["s"]
    with fleet.client() as client:
        raw = published(client, JobCall("s", "cmd.run", arg=["id -un"], **asked))
    assert said in raw


@pytest.mark.parametrize("executor", ["own", "Direct_call"])
def test_no_job_is_published_for_an_executor_that_a_guarded_minion_lacks(
    guarded: tuple[Fleet, Api], executor: str
) -> None:
    fleet, api = guarded
    said = f"none of the targets has an executor '{executor}' that can be loaded"
    asked = {"tgt": "s", "module_executors": [executor]}
    by_api = api.low(client="local", fun="cmd.run", arg=["id -un"], **asked)
    by_batch = api.low(client="local_batch", fun="cmd.run", arg=["id -un"], batch=1, **asked)
    twice = api.low(client="local", fun=["cmd.run", "cmd.run"], arg=[["id -un"], ["id -un"]], **asked)
    for answer in (by_api, by_batch, twice):
        assert (answer.status, said in answer.body, "Nothing was published" in answer.body) == (400, True, True)
    typed = fleet.cli(f"--module-executors={executor}", "s", "cmd.run", "id -un")
    assert (typed.code, said in typed.err) == (2, True)
    with fleet.client() as client, pytest.raises(UsageError, match=said):
        client.publish(JobCall("s", "cmd.run", arg=["id -un"], module_executors=[executor]), follow=True)
