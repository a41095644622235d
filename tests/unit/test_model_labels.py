"""What the targets of a job are called where people see them."""

from __future__ import annotations

import pytest

from saltlite.model.plain import labels


@pytest.mark.parametrize(
    ("minions", "srns", "called"),
    [
        ([], [], {}),
        (["web1"], [], {"web1": "web1"}),
        ([], ["ssh:sw1"], {"ssh:sw1": "sw1"}),
        ([], ["ssh:10.0.0.1:22"], {"ssh:10.0.0.1:22": "10.0.0.1:22"}),
        ([], ["dummy:a", "ssh:a", "ssh:b"], {"dummy:a": "dummy:a", "ssh:a": "ssh:a", "ssh:b": "b"}),
        (["a"], ["ssh:a"], {"a": "a", "ssh:a": "ssh:a"}),
    ],
)
def test_a_resource_goes_by_its_bare_id_where_nothing_else_does(
    minions: list[str], srns: list[str], called: dict[str, str]
) -> None:
    assert labels(minions, srns) == called


def test_no_two_targets_are_called_the_same() -> None:
    # A bare id may look like the SRN of another one.
    srns = ["a:b", "c:a:b", "d:b"]
    assert len(set(labels(["b"], srns).values())) == 4
