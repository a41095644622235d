"""Salt's library for users' files: what each function returns."""

from __future__ import annotations

from collections import defaultdict

import pytest

from tests.support.salt_library import module_of, result, table

PACKAGE = "saltlite.salt"

LINES: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
for _expression, _value in table():
    LINES[module_of(_expression)].append((_expression, _value))


@pytest.mark.parametrize("module", sorted(LINES))
def test_functions_return_what_salts_do(module: str) -> None:
    found = {expression: result(expression, PACKAGE) for expression, _ in LINES[module]}
    assert found == dict(LINES[module])
