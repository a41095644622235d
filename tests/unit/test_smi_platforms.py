"""Which machines the decorators of an interface speak of."""

from __future__ import annotations

from typing import Any

import pytest

from saltlite.interfaces import Platforms


@pytest.mark.parametrize(
    ("wanted", "grains"),
    [
        ({"os": ["Debian"]}, {"os": "Debian"}),
        ({"os": ["Debian"]}, {"os": "debian"}),
        ({"os": "Debian"}, {"os": "Debian"}),
        ({"os": ["A", "B"]}, {"os": "B"}),
        ({"os": ["beos"], "os_family": ["linux"]}, {"os": "Debian", "os_family": "Linux"}),
        ({"osfamily": ["Debian"]}, {"os_family": "Debian"}),
        ({"roles": ["web"]}, {"roles": ["db", "Web"]}),
        ({"cpu:model": ["x"]}, {"cpu": {"model": "X"}}),
        ({"cpu:model": ["x"]}, {"cpu:model": "x"}),
        ({"virtual": [True]}, {"virtual": "true"}),
        ({"osmajorrelease": ["12"]}, {"osmajorrelease": 12}),
    ],
)
def test_a_machine_is_meant_when_any_grain_has_any_of_the_values(
    wanted: dict[str, Any], grains: dict[str, Any]
) -> None:
    assert Platforms(wanted).match(grains)


@pytest.mark.parametrize(
    ("wanted", "grains"),
    [
        ({"os": ["Debian"]}, {}),
        ({"os": ["Debian"]}, {"os": "Debianx"}),
        ({"os": ["None"]}, {"os": None}),
        ({"os": ["null"]}, {"os": None}),
        ({"cpu:model": ["x"]}, {"cpu": "x"}),
        ({"cpu": ["x"]}, {"cpu": {"x": 1}}),
        ({"roles": ["web"]}, {"roles": []}),
    ],
)
def test_a_grain_that_is_missing_or_different_is_no_match(wanted: dict[str, Any], grains: dict[str, Any]) -> None:
    assert not Platforms(wanted).match(grains)


def test_two_decorators_mean_the_machines_of_either() -> None:
    both = Platforms({"os": ["A"]}) | Platforms({"os": ["B"], "kernel": ["K"]})
    assert both.text() == "kernel=K; os=A, B"


def test_a_decorator_without_grains_is_refused() -> None:
    with pytest.raises(TypeError, match="at least one grain"):
        Platforms({})
