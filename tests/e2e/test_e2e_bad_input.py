"""What an operator mistypes: one sentence, its exit code, and nothing published."""

from __future__ import annotations

import pytest

from tests.e2e.fleet import Fleet

pytestmark = pytest.mark.e2e


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("a", "test.pign"), "saltlite: none of the targeted minions has 'test.pign'; did you mean test.ping?"),
        (("*", "nosuch.function"), "saltlite: none of the targeted minions has 'nosuch.function'."),
        (("a", "test"), "saltlite: 'test' is not a function"),
        (("a", "test.ping.pong"), "saltlite: 'test.ping.pong' is not a function"),
        (("a", "../../etc.passwd"), "saltlite: '../../etc.passwd' is not a function"),
        (("a",), "saltlite: 'a' is no command, and a target needs a function"),
        (("-E", "(", "test.ping"), "saltlite: -E '(' is not a regular expression: missing )"),
        (("-E", "-L", "a", "test.ping"), "saltlite: --pcre and --list exclude each other"),
        (("-t", "soon", "a", "test.ping"), "saltlite: --timeout: 'soon' is not a duration"),
        (("--out", "xml", "a", "test.ping"), "saltlite: --out: 'xml' is not known"),
        (("--lsit", "a", "test.ping"), "saltlite: there is no option --lsit"),
        (("a", "test.arg", "x=1", "x=2"), "saltlite: the keyword 'x' is given twice"),
        (("a", "test.arg", "x" * 66_000), "saltlite: the arguments make a job of"),
        (("a", "test.arg", "[" * 60 + "]" * 60), "saltlite: "),
        (("a", "test.ping", "--deliver-by", "31d"), "saltlite: --deliver-by takes at most 30 days"),
    ],
)
def test_a_mistake_is_one_sentence_and_code_2_and_publishes_nothing(
    shared: Fleet, words: tuple[str, ...], sentence: str
) -> None:
    before = shared.jobs_published()
    said = shared.cli(*words)
    assert (said.code, said.out) == (2, ""), said
    assert said.err.startswith(sentence)
    assert "defect" not in said.err
    assert len(said.err.splitlines()) == 1
    assert shared.jobs_published() == before
