"""Principal x client x function x target x executor: who may what is the same through every door, and no more."""

from __future__ import annotations

import itertools
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from saltlite.client.local import JobCall
from saltlite.errors import RefusedError
from tests.support.rights import LOCAL_USER, RightsSite, rights_site, rows

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else"),
]

SITE = rows("site")
REFUSED = 6


@dataclass(frozen=True, slots=True)
class Asked:
    """One cell of the matrix."""

    funs: Sequence[str]
    kind: str
    target: str
    selects: Sequence[str]
    executors: Any

    def granted(self, who: str) -> bool:
        """What the table says."""
        covers = SITE["covers"][who]
        named = [self.executors] if isinstance(self.executors, str) else self.executors or []
        return set(named) <= set(covers.get("executors", ())) and all(
            set(self.selects) <= set(covers.get(fun, ())) for fun in self.funs
        )

    def runs(self) -> list[str]:
        """The lines that it adds to the log where it is granted: a dry call calls nothing."""
        if self.executors in ("dry", ["dry"]):
            return []
        return [f"{one} {fun}" for one in self.selects for fun in self.funs]


EVERY = [
    Asked(funs, kind, target, selects, executors)
    for funs, (kind, target, selects), executors in itertools.product(
        SITE["functions"], SITE["targets"], SITE["executors"]
    )
]
CORNERS = [
    one
    for one in EVERY
    if one.target in ("web*", "*", "lamp-1", "web1,db1", "T@dummy and M@db1")
    and one.funs in (["mark.here"], ["other.here"], ["mark.here", "other.here"])
    and one.executors in (None, ["dry"], ["direct_call"])
]
"""For the clients that are slower."""
TYPED = [
    one
    for one in CORNERS
    if one.target in ("web*", "*", "lamp-1")
    and (one.executors is None or (one.executors, one.target) == (["dry"], "web*"))
]
"""For the slowest, each of which starts a program."""
OPTIONS = {"glob": [], "list": ["-L"], "pcre": ["-E"], "compound": ["-C"], "grain": ["-G"], "nodegroup": ["-N"]}
BATCH = {"size": 2, "percent": False, "wait_ms": 0, "failhard": False}


@pytest.fixture(scope="module")
def site() -> Iterator[RightsSite]:
    with rights_site() as site:
        yield site


def by_socket(site: RightsSite, who: str, one: Asked, **options: Any) -> bool:
    more: list[tuple[str, list[Any], dict[str, Any]]] = [(fun, [], {}) for fun in one.funs[1:]]
    job = JobCall(one.target, one.funs[0], more=more, tgt_type=one.kind, module_executors=one.executors, **options)
    refusal = ""
    with site.asking(who) as client:
        try:
            client.publish(job)
        except RefusedError as error:
            refusal = str(error)
    assert not refusal or " may not " in refusal
    return not refusal


def by_cli(site: RightsSite, who: str, one: Asked, *options: str) -> bool:
    executors = one.executors if isinstance(one.executors, str) else f"[{', '.join(one.executors or ())}]"
    named = [f"--module-executors={executors}"] if one.executors else []
    said = site.cli(who, *options, *named, *OPTIONS[one.kind], one.target, ",".join(one.funs))
    assert said.code in (0, REFUSED), (one, said)
    assert said.code == 0 or (not said.out and " may not " in said.err), (one, said)
    return said.code == 0


def by_api(site: RightsSite, who: str, one: Asked, client: str, path: str = "/", **more: Any) -> bool:
    fun: Any = one.funs[0] if len(one.funs) == 1 else list(one.funs)
    low = {"client": client, "tgt": one.target, "tgt_type": one.kind, "fun": fun, **more}
    if one.executors:
        low["module_executors"] = one.executors
    if path == "/run":
        low["token"] = site.api(who).token
    said = site.api(who).post(path, low)
    assert said.status in (200, 202, 403), (one, said)
    assert said.status != 403 or " may not " in said.body, (one, said)
    return said.status != 403


CLIENTS: dict[str, Any] = {
    "socket": by_socket,
    "socket, batch": lambda site, who, one: by_socket(site, who, one, batch=BATCH),
    "socket, subset": lambda site, who, one: by_socket(site, who, one, subset=99),
    "command line": by_cli,
    "command line, --async": lambda site, who, one: by_cli(site, who, one, "--async"),
    "command line, --batch": lambda site, who, one: by_cli(site, who, one, "--batch", "2"),
    "command line, --subset": lambda site, who, one: by_cli(site, who, one, "--subset", "99"),
    "local": lambda site, who, one: by_api(site, who, one, "local"),
    "local_async": lambda site, who, one: by_api(site, who, one, "local_async"),
    "local_batch": lambda site, who, one: by_api(site, who, one, "local_batch", batch=2),
    "local_subset": lambda site, who, one: by_api(site, who, one, "local_subset", subset=99),
    "/run": lambda site, who, one: by_api(site, who, one, "local", "/run"),
    "/minions": lambda site, who, one: by_api(site, who, one, "local_async", "/minions"),
}


def cells() -> Iterator[tuple[str, str]]:
    for who, client in itertools.product(SITE["covers"], CLIENTS):
        by_http = client.startswith(("local", "/"))
        if not (who == LOCAL_USER and by_http):
            yield who, client


@pytest.mark.parametrize(("who", "client"), list(cells()))
def test_what_runs_is_what_the_table_grants(site: RightsSite, who: str, client: str) -> None:
    asked = EVERY if client == "socket" else CORNERS
    if client.startswith("command"):
        asked = TYPED
    before, jobs = site.ran(), site.fleet.jobs_published()
    wrong = [one for one in asked if CLIENTS[client](site, who, one) is not one.granted(who)]
    assert wrong == []
    granted = [one for one in asked if one.granted(who)]
    lines = [line for one in granted for line in one.runs()]
    assert site.wait_ran(before, lines) == Counter(lines)
    assert site.fleet.jobs_published() == jobs + len(granted)
    assert bool(granted) is (who != "rita")
