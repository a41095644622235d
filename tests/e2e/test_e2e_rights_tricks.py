"""What somebody tries who may little, row by row of tests/data/rights/tricks.yaml: nothing more runs than it says."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from saltlite.errors import SaltliteError
from tests.support.rights import RightsSite, rights_site, rows

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else"),
]

TRICKS: list[dict[str, Any]] = rows("tricks")
DOORS = ("post", "raw", "get", "cli", "ask")


@pytest.fixture(scope="module")
def site() -> Iterator[RightsSite]:
    with rights_site() as site:
        yield site


def tried(site: RightsSite, row: dict[str, Any]) -> tuple[int, str]:
    """What comes back: the code, and what is said."""
    who = row["who"]
    if "cli" in row:
        typed = site.cli(who, *row["cli"])
        return typed.code, typed.err + typed.out
    if "ask" in row:
        verb, fields = row["ask"]
        request = {"request_id": os.urandom(16).hex()} if verb == "publish" else {}
        try:
            with site.asking(who) as client:
                return 0, str(client.call(verb, **request, **fields))
        except SaltliteError as error:
            return error.exit_code, str(error)
    api = site.api(who)
    if "get" in row:
        answer = api.get(row["get"])
    elif "raw" in row:
        path, kind, text = row["raw"]
        answer = api.ask("POST", path, text.encode(), Content_Type=kind)
    else:
        answer = api.post(*row["post"])
    return answer.status, answer.body


@pytest.mark.parametrize("row", TRICKS, ids=[f"{one['who']}: {one['name']}" for one in TRICKS])
def test_a_trick_comes_to_what_its_row_says(site: RightsSite, row: dict[str, Any]) -> None:
    before = site.ran()
    code, said = tried(site, row)
    assert code in row.get("codes", [row.get("code")]), said
    assert row.get("says", "") in said
    assert "Traceback" not in said
    assert site.wait_ran(before, row.get("ran", [])) == Counter(row.get("ran", []))


def test_after_all_of_it_nothing_more_has_run_and_every_key_is_what_it_was(site: RightsSite) -> None:
    for row in [one for one in TRICKS if "ran" not in one and one["who"] in ("fred", "kim", "rob")]:
        tried(site, row)
    before = site.ran()
    # Whatever is under way comes before this.
    assert site.fleet.cli("*", "mark.here").code == 0
    lines = [f"{one} mark.here" for one in ("web1", "web2", "db1", "dummy:lamp-1", "dummy:lamp-2", "dummy:web-x")]
    assert site.wait_ran(before, lines) == Counter(lines)
    assert site.fleet.keys() == {name: ["accepted"] for name in ("web1", "web2", "db1")}
