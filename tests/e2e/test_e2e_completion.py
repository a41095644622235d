"""Completion against a real master: its words come from the store."""

from __future__ import annotations

import subprocess

import pytest

from tests.support.fleet import BIN, Fleet

pytestmark = pytest.mark.e2e


def complete(fleet: Fleet, *words: str) -> list[str]:
    """The lines of the hidden command, without help texts."""
    done = subprocess.run(
        [BIN / "saltlite", "__complete", "--", "-c", fleet.folder / "master", *words],
        capture_output=True,
        text=True,
        check=True,
        env=fleet.environment(),
        timeout=60,
    )
    return [line.partition("\t")[0] for line in done.stdout.splitlines()]


def test_targets_are_the_minions(shared: Fleet) -> None:
    assert {"a", "b", "key"} <= set(complete(shared, ""))
    assert complete(shared, "-L", "a,") == ["a,a", "a,b"]


def test_a_function_is_completed_module_first(shared: Fleet) -> None:
    assert {"test.", "pkg.", ":nospace"} <= set(complete(shared, "a", ""))
    assert "test.ping" in complete(shared, "a", "test.pi")


def test_arguments_are_those_of_the_signature(shared: Fleet) -> None:
    words = complete(shared, "a", "cmd.run", "")
    assert {"cmd=", "cwd=", ":nospace"} <= set(words)
    assert not [word for word in words if word.startswith(("*", "__"))]


def test_jobs_are_found_by_the_beginning_of_their_id_newest_first(shared: Fleet) -> None:
    older, newer = shared.publish("a", "test.ping"), shared.publish("a", "test.ping")
    assert complete(shared, "job", "kill", newer[:8])[:2] == [newer, older]
    assert complete(shared, "job", "kill", older) == [older]
    assert complete(shared, "job", "kill", "1999") == []


def test_keys_are_those_that_the_command_can_change(shared: Fleet) -> None:
    assert complete(shared, "key", "revoke", "") == ["a", "b"]
    assert complete(shared, "key", "accept", "") == []
