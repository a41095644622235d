"""A minion that is to be left alone refuses jobs, wherever that is said of it, and says how it ends."""

from __future__ import annotations

from typing import Any

import pytest

from saltlite.loader.call import ALWAYS_ALLOWED, blackout
from saltlite.loader.index import build_index
from saltlite.loader.loader import Loader


def loader(place: str = "", **said: Any) -> Loader:
    """One whose configuration, grains or pillar says this."""
    places: dict[str, dict[str, Any]] = {"configuration": {}, "grains": {}, "pillar": {}}
    places.setdefault(place, {}).update(said)
    return Loader(build_index(()), places["configuration"], places["grains"], places["pillar"])


@pytest.mark.parametrize("place", ["configuration", "grains", "pillar"])
def test_a_blackout_refuses_all_but_its_list_and_the_way_out(place: str) -> None:
    dark = loader(place, minion_blackout=True, minion_blackout_whitelist=["test.ping"])
    refused = blackout(dark, ["pkg.install"])
    assert refused is not None
    assert refused.retcode == 1
    assert str(refused.value).startswith("Minion in blackout mode: pkg.install does not run. ")
    assert f"in its {place}" in refused.value
    assert blackout(dark, ["test.ping"]) is None
    assert blackout(dark, [ALWAYS_ALLOWED]) is None


def test_one_function_that_is_not_listed_refuses_the_whole_job() -> None:
    dark = loader("pillar", minion_blackout=True, minion_blackout_whitelist=["test.ping"])
    assert blackout(dark, ["test.ping", "cmd.run"]) is not None


def test_a_list_of_one_place_is_none_of_another() -> None:
    dark = loader("grains", minion_blackout=True)
    dark.opts.refresh({"minion_blackout_whitelist": ["test.ping"]})
    assert blackout(dark, ["test.ping"]) is not None


@pytest.mark.parametrize("value", ["True", "False", 1, {}, []])
def test_what_is_neither_true_nor_false_is_a_blackout(value: object) -> None:
    assert blackout(loader("pillar", minion_blackout=value), ["test.ping"]) is not None


@pytest.mark.parametrize("said", [{}, {"minion_blackout": False}, {"minion_blackout": None}])
def test_without_one_everything_runs(said: dict[str, Any]) -> None:
    assert blackout(loader("pillar", **said), ["pkg.install"]) is None


def test_a_list_that_is_a_text_lists_nothing() -> None:
    dark = loader("pillar", minion_blackout=True, minion_blackout_whitelist="test.ping")
    assert blackout(dark, ["test.ping"]) is not None
