"""The copies of masters that share a store against dicts, whatever is done to them, is lost, or breaks off."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from saltlite.errors import StoreError
from saltlite.master.store.projection import Projection
from saltlite.resources.registry.mmap import FILE
from saltlite.targeting.banks import GRAINS, PILLAR
from saltlite.testing.memory_store import MemoryInventory

SEEDS = (0, 1, 2, 3, 4, 24, 128, 153, 170, 266, 276, 295)
STEPS = 60
BANKS = (GRAINS, PILLAR)
MINIONS = tuple(f"m{number}" for number in range(4))
TYPES = ("dummy", "ssh")
LOST = (FILE, "banks", "banks/grains", "banks/.cursor", "resources", "")

Process = tuple[str, int]


class CopiesAgainstDicts:
    """Two processes of each of two masters."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder
        self.random = random.Random(seed)
        self.rows = MemoryInventory()
        self.open = {(name, number): self.opened(name) for name in "ab" for number in range(2)}
        self.values: dict[tuple[str, str], int] = {}
        self.owners: dict[str, str] = {}
        self.count = 0

    def opened(self, name: str) -> Projection:
        return Projection(self.rows, {"cachedir": str(self.folder / name)}, bytes(32))

    def step(self) -> None:
        who = self.random.choice(list(self.open))
        bank, minion = self.random.choice(BANKS), self.random.choice(MINIONS)
        match self.random.randrange(12):
            case 0 | 1 | 2:
                self.put(who, bank, minion)
            case 3:
                was_there = self.values.pop((bank, minion), None) is not None
                assert self.open[who].banks.bank(bank).delete(minion) == was_there
            case 4 | 5 | 6:
                self.register(who, minion)
            case 7:
                self.lose(self.folder / who[0] / self.random.choice(LOST))
            case 8:
                self.damage(self.folder / who[0] / "banks" / bank / minion)
            case 9:
                with suppress(StoreError):  # the folder is gone
                    self.open[who].registry.compact()
            case 10:
                self.rows.prune(self.rows.head().seq - 2)
            case 11:
                self.restart(who)
        self.look(self.random.choice(list(self.open)))

    def put(self, who: Process, bank: str, minion: str) -> None:
        self.count, before = self.count + 1, self.rows.head().seq
        with self.dying(who):
            self.open[who].banks.bank(bank).put(minion, {"n": self.count}, str(self.count))
        if self.rows.head().seq > before:
            self.values[bank, minion] = self.count

    def register(self, who: Process, minion: str) -> None:
        sets = {kind: self.random.sample("abcdefg", self.random.randrange(5)) for kind in TYPES}
        wanted = {f"{kind}:{one}" for kind, ids in sets.items() for one in ids}
        others = {srn: owner for srn, owner in self.owners.items() if owner != minion}
        before = self.rows.head().seq
        with self.dying(who):
            done = self.open[who].registry.register(minion, sets)
            assert {srn for srn, _owner in done.refused} == wanted & others.keys()
        if self.rows.head().seq > before:
            self.owners = others | dict.fromkeys(wanted - others.keys(), minion)

    @contextmanager
    def dying(self, who: Process) -> Iterator[None]:
        """At times the process dies after a commit, before or after the files have it; another one takes its place."""
        if self.random.random() < 0.7:
            yield
            return

        def die(*_args: object) -> None:
            raise StoreError("killed")

        setattr(self.open[who], self.random.choice(["committed", "_write"]), die)
        with suppress(StoreError):
            yield
        self.restart(who)

    def restart(self, who: Process) -> None:
        self.open[who].close()
        self.open[who] = self.opened(who[0])

    def lose(self, place: Path) -> None:
        if place.is_dir():
            shutil.rmtree(place)
        else:
            place.unlink(missing_ok=True)

    def damage(self, place: Path) -> None:
        if place.exists():
            place.write_bytes(place.read_bytes()[:-1] + b"?")

    def look(self, who: Process) -> None:
        """What a request on this process reads is what all have committed."""
        one = self.open[who]
        one.look_again()
        for bank in BANKS:
            wanted = {minion: {"n": number} for (name, minion), number in self.values.items() if name == bank}
            assert {minion: one.banks.bank(bank).get(minion) for minion in wanted} == wanted
            assert one.banks.bank(bank).keys() == sorted(wanted)
        views = one.registry.views().by_minion
        held = {
            f"{kind}:{bare_id}": minion
            for minion, types in views.items()
            for kind, holding in types.items()
            for bare_id in holding.ids
        }
        assert held == self.owners
        for srn, minion in self.owners.items():
            assert one.registry.get_managing_minions_for_srn(*srn.split(":")) == [minion]

    def close(self) -> None:
        for one in self.open.values():
            one.close()


@pytest.mark.parametrize("seed", SEEDS)
def test_each_process_of_each_master_reads_what_was_committed(tmp_path: Path, seed: int) -> None:
    machine = CopiesAgainstDicts(tmp_path, seed)
    try:
        for _ in range(STEPS):
            machine.step()
        for who in machine.open:
            machine.look(who)
    finally:
        machine.close()
