"""salt-api, a JavaScript library that was written for Salt's API, unmodified, under Node.js."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.served import serve
from tests.support.api import PASSWORD

pytestmark = pytest.mark.e2e

MODULES = Path(__file__).parents[2] / ".ci/npm/node_modules"
PROGRAM = """
const { Salt } = require("salt-api");
const [url, user, password] = process.argv.slice(1);
(async () => {
  const salt = new Salt({ url, username: user, password, eauth: "file" });
  await salt.login();
  const source = await salt.eventSource();
  await new Promise((opened) => { source.onopen = opened; });
  const told = new Promise((found) => {
    source.onmessage = (message) => {
      const event = JSON.parse(message.data);
      if (event.tag.endsWith("/ret/a") && event.data.fun === "test.echo") found(event.data);
    };
  });
  const answers = {
    ping: await salt.fun("*", "test.ping"),
    echo: await salt.fun("a", "test.echo", { arg: ["hello"], pillar: { stray: 1 }, timeout: 5 }),
    list: await salt.fun(["a", "b"], "test.arg", { kwarg: { two: 2 }, tgt_type: "list" }),
    wrong: await salt.fun("a", "nix.da"),
    minions: Object.keys((await salt.minions()).return[0]).sort(),
    minion: Object.keys((await salt.minions("b")).return[0]),
    event: await told,
  };
  const jobs = await salt.jobs();
  answers.jobs = Object.values(jobs.return[0]).map((job) => job.Function);
  answers.job = await salt.jobs(answers.event.jid);
  source.close();
  console.log(JSON.stringify(answers));
})().catch((error) => { console.error(String(error)); process.exit(1); });
"""


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the API of a fleet with the minions `a` and `b`."""
    with serve(tmp_path_factory.mktemp("npm"), disable_ssl=True) as (_fleet, address):
        yield address


def run(url: str, password: str) -> subprocess.CompletedProcess[str]:
    """The program, to its end."""
    node = shutil.which("node")
    if node is None or not MODULES.is_dir():
        pytest.skip("salt-api is not installed: `npm ci --prefix .ci/npm` does that")
    environment = {**os.environ, "NODE_PATH": str(MODULES)}
    words = [node, "-e", PROGRAM, url, "admin", password]
    return subprocess.run(words, env=environment, capture_output=True, text=True, timeout=60, check=False)


def test_all_that_it_can_do(url: str) -> None:
    done = run(url, PASSWORD)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    assert found["ping"] == {"return": [{"a": True, "b": True}]}
    assert found["echo"] == {"return": [{"a": "hello"}]}
    assert {name: row["kwargs"]["two"] for name, row in found["list"]["return"][0].items()} == {"a": 2, "b": 2}
    assert found["wrong"] == {"return": [{"a": "'nix.da' is not available."}]}
    assert (found["minions"], found["minion"]) == (["a", "b"], ["b"])
    event = found["event"]
    assert (event["return"], event["success"], event["fun_args"]) == ("hello", True, ["hello"])
    assert "test.echo" in found["jobs"]
    assert found["job"]["return"] == [{"a": "hello"}]


def test_a_wrong_password_is_told_with_its_status(url: str) -> None:
    done = run(url, "wrong")
    assert (done.returncode, "401" in done.stderr) == (1, True)
