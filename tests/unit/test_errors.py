"""The errors that plug-in files raise and catch: texts, attributes and families are Salt's."""

from __future__ import annotations

import copy
import pickle

import pytest

from saltlite.errors import (
    CommandExecutionError,
    CommandNotFoundError,
    InterfaceError,
    RefusedError,
    SaltInvocationError,
    SaltliteError,
)

WHOLE = """\
It failed. Additional info follows:

changes:
    ----------
    a:
        1
list:
    - x
      y
    |_
      - True
    |_
      ----------
      b:
          None"""


def test_an_error_has_its_text_under_salts_names() -> None:
    for error in (SaltliteError("why"), CommandExecutionError("why"), RefusedError("why")):
        assert (str(error), error.message, error.strerror) == ("why", "why", "why")
    assert SaltliteError("why").pack() == {"message": "why", "args": ("why",)}


def test_an_error_without_a_text_has_an_empty_one() -> None:
    assert [str(kind()) for kind in (SaltliteError, CommandExecutionError, SaltInvocationError)] == ["", "", ""]


def test_another_error_as_the_text_is_its_text() -> None:
    error = CommandExecutionError(ValueError("why"))
    assert (str(error), error.error, error.args) == ("why", "why", ("why",))


def test_an_error_may_have_another_message() -> None:
    error = SaltliteError("why")
    error.message = "other"  # as drivers of clouds do
    assert (error.message, error.strerror) == ("other", "why")


def test_the_text_ends_with_the_info() -> None:
    info = {"changes": {"a": 1}, "list": ["x\ny", [True], {"b": None}]}
    error = CommandExecutionError("It failed", info=info)
    assert str(error) == error.strerror == WHOLE
    assert (error.error, error.info) == ("It failed", info)


@pytest.mark.parametrize(
    ("text", "info", "whole", "without_changes"),
    [
        ("Why?", ["x"], "Why? Additional info follows:\n\n- x", "Why? Additional info follows:\n\n- x"),
        ("", "x", "Additional info follows:\n\nx", "Additional info follows:\n\nx"),
        ("No", {"changes": {}}, "No. Additional info follows:\n\nchanges:\n    ----------", "No"),
        ("No", {"changes": 1, "b": 2}, "No. Additional info follows:\n\nb:\n    2\nchanges:\n    1",
         "No. Additional info follows:\n\nb:\n    2"),
        ("No", {}, "No", "No"),
        ("No", None, "No", "No"),
    ],
)  # fmt: skip
def test_states_read_the_text_without_the_changes(text: str, info: object, whole: str, without_changes: str) -> None:
    error = CommandExecutionError(text, info)
    assert (str(error), error.strerror_without_changes) == (whole, without_changes)


def test_the_families_are_salts() -> None:
    assert not issubclass(CommandNotFoundError, CommandExecutionError)
    assert issubclass(SaltInvocationError, TypeError)
    assert issubclass(InterfaceError, CommandExecutionError)


def test_errors_are_copied_and_travel_between_processes() -> None:
    error = CommandExecutionError("why", {"a": 1})
    for made in (copy.copy(error), pickle.loads(pickle.dumps(error))):  # noqa: S301 - what this test wrote
        assert (str(made), made.error, made.info) == (str(error), "why", {"a": 1})
