"""The fuzzer of the master's verbs sends every field; one that it does not know fails here, in the first minute."""

from __future__ import annotations

from saltlite.master.handlers.operator_verbs import VERBS
from tests.fuzz.surfaces.verbs import FIELDS


def test_the_fuzzer_has_a_value_for_every_field_of_every_verb() -> None:
    fields = {field for verb in VERBS.values() for field in (*verb.needs, *verb.takes)}
    assert fields - FIELDS.keys() == set(), "add a value to FIELDS in tests/fuzz/surfaces/verbs.py"
