"""What a user with few rights tries, row by row of tests/data/rights/tricks.yaml: nothing more runs than it says.

Requests to the API are made twice: strictly, and as Salt's clients make them, where the API ignores fields that it does
not know.
"""

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
POSTED = [one for one in TRICKS if "post" in one]
DOORS = ("post", "raw", "get", "cli", "ask")
STRICT = {"Prefer": "handling=strict"}


@pytest.fixture(scope="module")
def site() -> Iterator[RightsSite]:
    with rights_site() as site:
        yield site


def tried(site: RightsSite, row: dict[str, Any], headers: dict[str, str]) -> tuple[int, str]:
    """What comes back: the code, and the text of the answer."""
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
        answer = api.ask("POST", path, text.encode(), Content_Type=kind, **headers)
    else:
        answer = api.post(*row["post"], **headers)
    return answer.status, answer.body


def named(row: dict[str, Any]) -> str:
    return f"{row['who']}: {row['name']}"


@pytest.mark.parametrize("row", TRICKS, ids=named)
def test_a_trick_comes_to_what_its_row_says(site: RightsSite, row: dict[str, Any]) -> None:
    before = site.ran()
    code, said = tried(site, row, STRICT)
    assert code in row.get("codes", [row.get("code")]), said
    assert row.get("says", "") in said
    assert "Traceback" not in said
    assert site.wait_ran(before, row.get("ran", [])) == Counter(row.get("ran", []))


@pytest.mark.parametrize("row", POSTED, ids=named)
def test_a_lenient_answer_lets_nothing_more_run(site: RightsSite, row: dict[str, Any]) -> None:
    before = site.ran()
    code, said = tried(site, row, {})
    codes = row.get("codes", [row.get("code")])
    # What was an error of the client may be ignored, a text in the return, or a refusal of what remains.
    assert code in codes or (400 in codes and code in (200, 403)), said
    assert "Traceback" not in said
    ran = row.get("lenient", row.get("ran", []))
    assert site.wait_ran(before, ran) == Counter(ran)


def test_after_all_of_it_nothing_more_has_run_and_every_key_is_what_it_was(site: RightsSite) -> None:
    for row in [one for one in TRICKS if "ran" not in one and one["who"] in ("fred", "kim", "rob")]:
        tried(site, row, STRICT)
    before = site.ran()
    # Whatever is under way comes before this.
    assert site.fleet.cli("*", "mark.here").code == 0
    lines = [f"{one} mark.here" for one in ("web1", "web2", "db1", "dummy:lamp-1", "dummy:lamp-2", "dummy:web-x")]
    assert site.wait_ran(before, lines) == Counter(lines)
    assert site.fleet.keys() == {name: ["accepted"] for name in ("web1", "web2", "db1")}
