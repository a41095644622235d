"""Times and columns as the listing commands take and show them."""

from __future__ import annotations

import io
import time
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from saltlite.cli.console import Console
from saltlite.cli.options import format_timestamp, parse_timestamp
from saltlite.cli.output import COLUMN_MIN, columns, shorter, width_for
from saltlite.cli.verbs.job import call_text, result_text, took_text
from saltlite.errors import UsageError

NOW = 1_800_000_000.0


@pytest.fixture
def in_nepal(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A time zone with an unusual offset."""
    monkeypatch.setenv("TZ", "NPT-5:45")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("in_nepal")
@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2h", NOW - 7200),
        ("90", NOW - 90),
        ("2027-01-15", 1_799_950_500.0),
        ("2027-01-15T13:45", NOW),
        ("2027-01-15 13:45:00", NOW),
        ("2027-01-15T08:00Z", NOW),
        ("2027-01-15T09:00+01:00", NOW),
    ],
)
def test_a_moment_is_so_long_ago_or_a_local_time(text: str, moment: float) -> None:
    assert parse_timestamp(text, lambda: NOW) == moment


@pytest.mark.parametrize("text", ["", "noon", "2026-13-01", "-2h", "99999d", "99999-01-01", "2h ago"])
def test_what_is_no_moment_is_refused_with_examples(text: str) -> None:
    with pytest.raises(UsageError, match="is not a time: write 30m"):
        parse_timestamp(text, lambda: NOW)


@pytest.mark.usefixtures("in_nepal")
def test_a_moment_is_shown_in_local_time_with_its_age() -> None:
    assert format_timestamp(NOW - 240, NOW) == "2027-01-15 13:41:00 (4m ago)"


def test_columns_are_aligned_and_lines_have_no_blanks_at_their_end() -> None:
    assert columns([("A", "B"), ("aaa", "")], cut=(0,), width=None) == "A    B\naaa\n"


def test_columns_are_cut_in_the_order_asked_for_until_they_fit() -> None:
    rows = [("ID", "TARGET", "FUN"), ("1", "t" * 30, "f" * 30)]
    text = columns(rows, cut=(2, 1), width=50)
    assert text.splitlines()[1] == "1   " + "t" * 30 + "  " + "f" * 11 + "..."
    text = columns(rows, cut=(2, 1), width=30)
    assert text.splitlines()[1] == "1   " + "t" * 13 + "...  " + "f" * 5 + "..."


@given(st.lists(st.tuples(st.text(), st.text(), st.text()), min_size=1), st.integers(1, 100))
def test_no_line_is_wider_than_the_terminal_unless_every_column_is_at_its_least(
    rows: list[tuple[str, str, str]], width: int
) -> None:
    lines = columns(rows, cut=(0, 1, 2), width=width)[:-1].split("\n")
    assert len(lines) == len(rows)
    assert all(len(line) <= max(width, 3 * COLUMN_MIN + 4) for line in lines)


def test_control_characters_never_reach_a_terminal_through_a_column() -> None:
    assert columns([("A",), ("\x1b[31m\n",)], cut=(0,), width=None) == "A\n?[31m?\n"


@given(st.text(), st.integers(3, 40))
def test_a_text_that_is_too_long_keeps_its_beginning(text: str, length: int) -> None:
    short = shorter(text, length)
    assert len(short) <= length
    assert short == text or (short.endswith("...") and text.startswith(short[:-3]))


def test_output_that_goes_to_a_file_is_not_cut() -> None:
    assert width_for(Console(None, io.StringIO(), None)) is None


def test_a_call_is_shown_as_it_could_be_typed() -> None:
    assert call_text("cmd.run", ["ls -l", "x", 5], {"cwd": "/", "on": None}) == 'cmd.run "ls -l" x 5 cwd=/ on=null'
    assert call_text("f.f", [b"\xff", "\x1b", ""], {}) == 'f.f "b\'\\\\xff\'" "\\u001b" ""'


@pytest.mark.parametrize(
    ("milliseconds", "text"), [(0, "0ms"), (999, "999ms"), (1234, "1.2s"), (59_999, "60.0s"), (60_000, "1m")]
)
def test_a_run_time_has_the_precision_that_matters(milliseconds: int, text: str) -> None:
    assert took_text(milliseconds) == text


def test_a_result_names_only_what_there_is() -> None:
    assert result_text({"outcomes": {"ok": 2, "open": 1}, "cancelled_at": None}) == "2 ok, 1 open"
    assert result_text({"outcomes": {"missing": 1}, "cancelled_at": 5.0}) == "1 missing, killed"
