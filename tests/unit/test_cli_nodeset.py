"""How folded names look."""

from __future__ import annotations

import pytest

from saltlite.cli.targets import nodeset


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ([], ""),
        (["web1"], "web1"),
        (["db", "web"], "db,web"),
        ([f"db{number:02}" for number in range(1, 41)], "db[01-40]"),
        (["web1", "web2", "web3", "web7", "web10"], "web[1-3,7,10]"),
        (["web09", "web10", "web9"], "web[09-10,9]"),
        (["web1.a.org", "web2.a.org", "db1.b.org"], "db1.b.org,web[1-2].a.org"),
        (["r1-n1", "r1-n2", "r2-n1"], "r1-n[1-2],r2-n1"),
        (["10.0.0.7", "10.0.0.8"], "10.0.0.[7-8]"),
    ],
)
def test_names_fold(names: list[str], text: str) -> None:
    assert nodeset(names) == text
