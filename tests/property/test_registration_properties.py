"""Registrations of any shape: taken or refused with sentences, and never anything else."""

from __future__ import annotations

import contextlib
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from saltlite.errors import RefusedError
from saltlite.model.ids import MinionId, check_resource_id, check_resource_type
from saltlite.resources.registry.admission import (
    REASONS_MAX,
    RegistrationContext,
    RegistrationRules,
    admit,
    read_registration,
)
from tests.support.master import MasterRig

names = st.text(max_size=8) | st.sampled_from(
    ["dummy", "ssh", "d1", "d2", "ma", "mb", "dummy:d1", "..", "a/b", "and", ""]
)
junk = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | names | st.binary(max_size=4),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names | st.integers(0, 9), inner, max_size=4),
    max_leaves=8,
)
documents = junk.filter(lambda value: isinstance(value, dict)) | st.fixed_dictionaries(
    {"resources": junk | st.dictionaries(names, st.lists(names | junk, max_size=5), max_size=4)},
    optional={
        "grains": junk | st.dictionaries(names, junk, max_size=3),
        "stale": junk | st.lists(names, max_size=3),
        "functions": junk | st.dictionaries(names, st.lists(names | st.just("test.ping()"), max_size=3), max_size=3),
    },
)


@given(documents)
def test_what_is_read_has_possible_names_only_and_the_rest_has_reasons(document: dict[Any, Any]) -> None:
    try:
        registering = read_registration(document, quota=10)
    except RefusedError as error:
        reasons = str(error).splitlines()
    else:
        reasons = []
        _check(registering)
    assert len(reasons) <= REASONS_MAX + 1


def _check(registering: RegistrationContext) -> None:
    for kind, ids in registering.resources.items():
        check_resource_type(kind)
        assert [check_resource_id(bare_id) for bare_id in ids] == list(dict.fromkeys(ids))
    admitted = admit(
        registering, MinionId("ma"), RegistrationRules(), is_minion=lambda ids: [one for one in ids if one == "mb"]
    )
    assert not any("mb" in ids for ids in admitted.resources.values())


@given(documents)
def test_a_master_answers_any_registration_and_keeps_only_resources_of_the_last_that_counted(
    document: dict[Any, Any],
) -> None:
    rig = MasterRig("ma", "mb")
    rig.register("ma", {"dummy": ["first"]})
    with contextlib.suppress(UnicodeEncodeError):
        said = rig.register("ma", document.get("resources", {}), grains=document.get("grains", {}))
        assert said["state"] in ("ok", "refused")
        if said["state"] == "refused":
            assert rig.owned("ma") == {"dummy": ["first"]}
    rows = rig.ask("resource_list_grains").fields["resources"]
    held = {f"{kind}:{bare_id}" for kind, ids in rig.owned("ma").items() for bare_id in ids}
    assert rows.keys() <= held
