"""The registry of a running master as time passes: damage is made good by the minions, orphans go, it stays compact."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from saltlite.master.processes.fleet import Registered, Registrations
from saltlite.master.processes.maintenance import ASK_AGAIN_S, REGISTRY_LOOK_S, RegistryMaintenance
from saltlite.master.store.banks import LocalBanks
from saltlite.master.store.ports import MinionRow
from saltlite.model.ids import MinionId
from saltlite.platform.daemon import ManualClock
from saltlite.resources.registry.mmap import FILE, ResourceRegistry
from saltlite.testing.memory_store import MemoryStore
from tests.support.keys import NOW
from tests.support.store import had_sessions, key, row

MA, MB = MinionId("ma"), MinionId("mb")


class Site:
    """A master's cachedir and store, with the minions ma, which is up, and mb, which is away."""

    def __init__(self, cachedir: Path) -> None:
        self.cachedir = cachedir
        self.path = cachedir / FILE
        self.store = MemoryStore()
        self.wanted: list[tuple[str, str]] = []
        self.clock = ManualClock(wall=NOW)
        self.upkeep = RegistryMaintenance(self.store, self.clock, self, self.opened)
        with self.store.write() as tx:
            for minion in (MA, MB):
                tx.put_key(key(minion))
            rows: list[MinionRow] = [row(MA, up=True), row(MB)]
            had_sessions(tx, rows)

    def fetch(self, minion: str, what: str) -> None:
        self.wanted.append((minion, what))

    @contextmanager
    def opened(self) -> Iterator[tuple[ResourceRegistry, LocalBanks]]:
        registry = ResourceRegistry({"cachedir": str(self.cachedir)}, report=lambda _sentence: None)
        banks = LocalBanks(str(self.cachedir))
        yield registry, banks
        registry.close()
        banks.close()

    def register(self, minion: MinionId, count: int) -> None:
        with self.opened() as (registry, banks):
            registry.register(minion, {"dummy": [f"{minion}-{n}" for n in range(count)]})
            Registrations(banks).put(minion, Registered(count=count), "digest")

    def held(self) -> dict[str, int]:
        with self.opened() as (registry, _banks):
            types = {minion: registry.get_resources_for_minion(minion) for minion in (MA, MB)}
            return {minion: len(held.get("dummy", ())) for minion, held in types.items()}

    def incomplete(self) -> bool:
        with self.opened() as (registry, _banks):
            found: bool = registry.stats()["primary"]["incomplete"]
            return found

    def look(self) -> list[tuple[str, str]]:
        self.wanted.clear()
        self.upkeep.look()
        return list(self.wanted)

    def said(self) -> list[str]:
        return [event.data["state"] for event in self.store.events() if event.tag == "resource/registry"]


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def damage(site: Site) -> None:
    """Overwrite the header: the file is no registry any more, and everything in it is lost."""
    with site.path.open("r+b") as file:
        file.write(bytes(4096))


def test_a_registry_in_order_asks_nobody_for_anything(site: Site) -> None:
    site.register(MA, 3)
    assert (site.look(), site.said(), site.incomplete()) == ([], [], False)


def test_a_damaged_registry_is_made_good_by_the_minions_and_says_so(site: Site) -> None:
    site.register(MA, 3)
    site.register(MB, 2)
    damage(site)
    assert site.look() == [("ma", "resources")]
    assert (site.incomplete(), site.said(), site.held()) == (True, ["incomplete"], {"ma": 0, "mb": 0})
    site.register(MA, 3)
    # mb is away: its resources are missing, and nobody calls that complete.
    assert (site.look(), site.incomplete(), site.said()) == ([], True, ["incomplete"])
    site.register(MB, 2)
    site.look()
    assert (site.incomplete(), site.said(), site.held()) == (False, ["incomplete", "complete"], {"ma": 3, "mb": 2})


def test_who_does_not_register_is_asked_less_and_less(site: Site) -> None:
    site.register(MA, 3)
    damage(site)
    asked_at: list[float] = []
    begun_at = site.clock.monotonic()
    for _ in range(200):
        if site.look():
            asked_at.append(site.clock.monotonic() - begun_at)
        site.clock.advance(REGISTRY_LOOK_S)
    assert asked_at[:4] == [0.0, REGISTRY_LOOK_S, 3 * REGISTRY_LOOK_S, 7 * REGISTRY_LOOK_S]
    assert asked_at[-1] - asked_at[-2] == ASK_AGAIN_S


def test_pillars_that_were_kept_go_where_none_is_to_be_kept(site: Site) -> None:
    with site.opened() as (_registry, banks):
        banks.bank("pillar").put("ma", {"password": "x"})
        banks.bank("grains").put("ma", {"os": "x"})
    site.upkeep.drop_pillars()
    with site.opened() as (_registry, banks):
        assert (banks.bank("pillar").keys(), banks.bank("grains").keys()) == ([], ["ma"])


def test_of_a_minion_whose_key_is_gone_nothing_is_waited_for(site: Site) -> None:
    site.register(MB, 2)
    damage(site)
    with site.store.write() as tx:
        tx.delete_key(key(MB).fingerprint)
    site.look()
    assert not site.incomplete()


def test_when_the_banks_are_lost_as_well_whoever_is_up_is_asked(site: Site) -> None:
    site.register(MA, 3)
    damage(site)
    with site.opened() as (_registry, banks):
        Registrations(banks).forget(MA)
    assert site.look() == [("ma", "resources")]


def test_what_belongs_to_no_accepted_key_goes_and_the_rest_stays(site: Site) -> None:
    site.register(MA, 3)
    site.register(MB, 2)
    with site.opened() as (_registry, banks):
        banks.bank("grains").put("mb", {"os": "x"})
        banks.bank("grains").put("ma", {"os": "x"})
    with site.store.write() as tx:
        tx.delete_key(key(MB).fingerprint)
    site.upkeep.drop_orphans()
    assert site.held() == {"ma": 3, "mb": 0}
    with site.opened() as (_registry, banks):
        assert (banks.bank("grains").keys(), banks.bank("resource_types").keys()) == (["ma"], ["ma"])


def test_a_registry_full_of_what_was_released_is_compacted(site: Site) -> None:
    site.register(MA, 3000)
    site.register(MA, 1)
    before = site.path.stat().st_size
    site.look()
    assert site.path.stat().st_size < before / 2
    assert site.held() == {"ma": 1, "mb": 0}
