"""What a master keeps in memory of registrations."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Mapping

from saltlite.master.processes.fleet import Registered, Registrations
from saltlite.model.ids import MinionId
from saltlite.testing.banks import MemoryBanks, MemoryCache

MA, MB = MinionId("ma"), MinionId("mb")


def functions_of(registrations: Registrations, minion: MinionId) -> Mapping[str, str]:
    row = registrations.of(minion)
    assert row is not None
    return row.functions["dummy"]


def test_minions_share_the_functions_of_a_type_and_what_no_minion_has_any_more_is_forgotten() -> None:
    registrations = Registrations(MemoryBanks(MemoryCache(lambda: 0.0)))
    for minion in (MA, MB):
        registrations.put(minion, Registered({"dummy": {"test.ping": "test.ping()"}}), "")
    assert functions_of(registrations, MA) is functions_of(registrations, MB)
    assert functions_of(registrations, MA) == {"test.ping": "test.ping()"}
    kept = weakref.ref(functions_of(registrations, MA))
    registrations.forget(MA)
    registrations.forget(MB)
    assert registrations.of(MA) is None
    gc.collect()
    assert kept() is None


def test_what_another_minion_took_is_counted_once() -> None:
    registrations = Registrations(MemoryBanks(MemoryCache(lambda: 0.0)))
    registrations.put(MA, Registered(count=3), "digest")
    for _ in range(2):
        registrations.lose(MA, ["dummy:d1", "dummy:d2"])
    row = registrations.of(MA)
    assert row is not None
    assert (row.count, row.lost) == (1, frozenset({"dummy:d1", "dummy:d2"}))
    assert registrations.digest(MA) == ""
