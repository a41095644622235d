"""Two machines with one key are told from one machine that restarts often."""

from __future__ import annotations

from saltlite.core.clones import ALTERNATIONS, BOOTS_MAX, KEYS_MAX, WINDOW_S, Clones
from saltlite.model.keys import Fingerprint

KEY = Fingerprint("k" * 40)


def test_a_daemon_that_restarts_again_and_again_is_no_clone() -> None:
    clones = Clones()
    assert not any(clones.arrived(KEY, f"boot {number}", number) for number in range(100))


def test_a_daemon_that_reconnects_again_and_again_is_no_clone() -> None:
    clones = Clones()
    assert not any(clones.arrived(KEY, "boot", number) for number in range(100))


def test_two_boot_ids_that_alternate_are_a_clone_at_the_limit_and_the_other_one_stays() -> None:
    clones = Clones()
    came = [clones.arrived(KEY, "ab"[number % 2], number) for number in range(3 + ALTERNATIONS)]
    assert came == [False] * (2 + ALTERNATIONS) + [True]
    assert not clones.arrived(KEY, "ab"[(1 + ALTERNATIONS) % 2], 10)


def test_slow_alternation_is_forgotten() -> None:
    clones = Clones()
    assert not any(clones.arrived(KEY, "ab"[number % 2], number * WINDOW_S) for number in range(50))


def test_memory_is_bounded() -> None:
    clones = Clones()
    for number in range(KEYS_MAX + 5):
        clones.arrived(Fingerprint(str(number)), "boot", 0.0)
    for number in range(BOOTS_MAX * 3):
        clones.arrived(KEY, f"boot {number}", 0.0)
    assert len(clones._watched) == KEYS_MAX
    assert len(clones._watched[KEY].boots) == BOOTS_MAX
