"""Every path of the checked-in OpenAPI document, asked what it describes and what it does not, by schemathesis."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.e2e.served import serve
from tests.support.api import Api
from tests.support.fleet import BIN, Fleet

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(660)]

DOCUMENT = Path(__file__).parents[2] / "tests/golden/openapi.json"
WHOLE = ("--max-examples", "3")
"""Random requests for each operation, beside those that schemathesis derives from the document: thousands in all."""
RANDOM = ("--max-examples", "10", "--phases", "examples,fuzzing,stateful")
"""For those with fewer rights: a request that makes no sense is refused alike whoever sends it, or for the token."""
ANSWER_S = 120
"""Schemathesis gives up after 10 s, which the first page of the documentation may take on a loaded machine."""
LIMIT_S = 600
"""Ten times what it takes on a machine with nothing else to do."""
SEED = 1


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Fleet, str]]:
    """A fleet, and its API without limits for how fast it may be asked."""
    paces = {"requests_per_address": 100_000, "logins_per_address": 100_000, "webhooks_per_second": 10_000}
    with serve(tmp_path_factory.mktemp("schema"), **paces) as both:
        yield both


@pytest.mark.parametrize(
    ("user", "extent", "cases_min"),
    [("admin", WHOLE, 1000), ("fred", RANDOM, 100), ("", RANDOM, 100)],
)
def test_no_request_makes_the_api_fail_or_answer_otherwise_than_it_says(
    served: tuple[Fleet, str], user: str, extent: Sequence[str], cases_min: int, tmp_path: Path
) -> None:
    fleet, url = served
    options = list(extent)
    if user:
        # Not the end of the token that the others need, and not the stream that does not end.
        options += ["--exclude-operation-id", "logout", "--exclude-operation-id", "events"]
        options += ["-H", f"X-Auth-Token: {Api(url).log_in(user).token}"]
    done = subprocess.run(
        [
            *(str(BIN / "schemathesis"), "run", str(DOCUMENT), "-u", url, "--tls-verify", "false", *options),
            # A request can be as described and yet make no sense, such as a target that does not parse.
            *("--checks", "all", "--exclude-checks", "positive_data_acceptance"),
            *("--request-timeout", str(ANSWER_S), "--max-response-time", str(ANSWER_S)),
            *("--seed", str(SEED), "--continue-on-failure", "--no-color"),
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-20_000:]
    asked = re.search(r"(\d+) generated", done.stdout)
    assert asked is not None
    assert int(asked[1]) >= cases_min
    assert "Traceback" not in "".join(daemon.log() for daemon in fleet.daemons.values())
    assert Api(url).log_in("admin").low(client="local", tgt="a", fun="test.ping").json() == {"return": [{"a": True}]}
