"""The names by which the fault tests reach into the product: each still means something there."""

from __future__ import annotations

import importlib

import pytest

from tests.faults.points import ERRORS, MASTER, MINION, PACE, POINTS, Point


@pytest.mark.parametrize("name", [*POINTS, *ERRORS])
def test_a_named_point_is_a_function_of_the_product(name: str) -> None:
    assert callable((POINTS | ERRORS)[name].function())


@pytest.mark.parametrize("where", PACE)
def test_a_time_that_is_shortened_is_a_constant_of_the_product(where: str) -> None:
    module, _, name = where.partition(":")

    assert isinstance(getattr(importlib.import_module(module), name), int | float)


def test_both_daemons_have_their_points() -> None:
    assert {point.daemon for point in POINTS.values()} == {MASTER, MINION}
    assert len(POINTS) >= 20


def test_a_point_whose_function_is_gone_is_found_out() -> None:
    with pytest.raises(AttributeError):
        Point(MASTER, "saltlite.master.protocol.session_manager:SessionManager.was_never_there").function()
