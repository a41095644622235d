"""Whatever is configured, planted or answered: redaction, listings, maps and levels keep their promises."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st

from saltlite.cloud.rules.catalogue import (
    LIST_FIELDS,
    LISTING_FIELDS,
    TEXT_FIELDS,
    Level,
    MapMachine,
    Settings,
    explained,
    flattened,
    normal_listing,
    waves,
)
from saltlite.cloud.rules.flow import CREATING, Announcer, order_of_create
from saltlite.model.redaction import Secrets

TEXTS = st.text(max_size=8)
PLAIN = st.none() | st.booleans() | st.integers() | TEXTS
DATA: st.SearchStrategy[Any] = st.recursive(
    PLAIN, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4), max_leaves=12
)
MAPS = st.dictionaries(TEXTS, DATA, max_size=5)


def plant(data: Any, secret: str, draw: st.DataObject) -> Any:
    """The data with the secret somewhere in every text and key."""
    match data:
        case str():
            return draw.draw(st.sampled_from([f"{data}{secret}", f"{secret}{data}", f"{data} {secret} {data}"]))
        case list():
            return [plant(one, secret, draw) for one in data]
        case dict():
            return {f"{key}{secret}": plant(one, secret, draw) for key, one in data.items()}
        case _:
            return data


@given(MAPS, st.text(st.characters(codec="ascii", categories=("L", "N")), min_size=8), st.data())
def test_no_event_has_a_known_secret_however_deep_it_stands(
    data: dict[str, Any], secret: str, draw: st.DataObject
) -> None:
    secrets = Secrets()
    secrets.add(secret)
    for what in ("requesting", "deploying", "created", "querying"):
        assert secret not in json.dumps(secrets.event(what, plant(data, secret, draw)))


@given(st.dictionaries(TEXTS, st.dictionaries(st.sampled_from([*LISTING_FIELDS, "other"]), DATA), max_size=4))
def test_a_listing_has_six_fields_of_the_right_types_whatever_the_driver_says(machines: dict[str, Any]) -> None:
    for one in normal_listing(machines).values():
        assert set(one) == set(LISTING_FIELDS)
        assert all(isinstance(one[field], str) for field in TEXT_FIELDS)
        assert all(isinstance(one[field], list) for field in LIST_FIELDS)
        assert all(isinstance(address, str) for field in LIST_FIELDS for address in one[field])


@given(st.lists(st.sets(st.integers(0, 11)), min_size=1, max_size=12), st.sets(st.integers(0, 11)))
def test_every_machine_of_a_map_is_made_once_and_after_what_it_requires(needs: list[set[int]], there: set[int]) -> None:
    machines = [
        MapMachine(str(number), "p", Settings({}), tuple(str(one) for one in needed if one < number))
        for number, needed in enumerate(needs)
    ]
    made: set[str] = {str(one) for one in there}
    order = []
    for wave in waves(machines, set(made)):
        assert all(set(one.requires) <= made for one in wave)
        order += [one.name for one in wave]
        made.update(one.name for one in wave)
    assert sorted(order) == sorted(one.name for one in machines if int(one.name) not in there)


@given(st.lists(MAPS, min_size=1, max_size=4))
def test_what_is_explained_is_what_holds(maps: list[dict[str, Any]]) -> None:
    levels = [Level(str(number), Settings(one)) for number, one in enumerate(maps)]
    holds = flattened(levels)
    for row in explained(levels):
        found: Any = holds
        for part in row.path:
            found = found[part]
        assert found == row.value
        assert row.origins
    for key, value in maps[0].items():
        assume(not isinstance(value, dict))
        assert holds[key] == value


@given(st.lists(st.sampled_from([*CREATING, "querying"]), max_size=12), st.booleans())
def test_the_events_of_a_create_are_each_fired_once_and_in_order(said: list[str], deploys: bool) -> None:
    order = order_of_create(deploys=deploys)
    announcer = Announcer({"name": "a"}, order)
    fired = [what for what, _ in announcer.begun({})]
    for what in said:
        fired += [one for one, _ in announcer.continued(what, {})]
    fired += [one for one, _ in announcer.made({})]
    assert [what for what in fired if what != "querying"] == list(order)
