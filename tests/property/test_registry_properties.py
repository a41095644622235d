"""The registry against a dict, whatever is done to it; and its file against damage of every kind."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from saltlite.errors import UnknownRowError
from saltlite.resources.registry.layout import STATES
from saltlite.resources.registry.mmap import FILE, ResourceRegistry
from saltlite.resources.registry.registry import Conflict

MINIONS = [f"m{number}" for number in range(4)]
TYPES = ["dummy", "ssh"]
IDS = [f"r{number}" for number in range(30)]
SETS = st.dictionaries(st.sampled_from(TYPES), st.lists(st.sampled_from(IDS), max_size=20), max_size=2)


class RegistryAgainstADict(RuleBasedStateMachine):
    """Two processes' views of one file, and the rows as they have to be: (type, id) -> minion."""

    @initialize()
    def start(self) -> None:
        self.folder = tempfile.mkdtemp()
        self.reports: list[str] = []
        self.open = [self.opened(), self.opened()]
        self.rows: dict[tuple[str, str], str] = {}

    def opened(self) -> ResourceRegistry:
        return ResourceRegistry({"cachedir": self.folder}, report=self.reports.append)

    @rule(who=st.integers(0, 1), minion=st.sampled_from(MINIONS), sets=SETS, conflict=st.sampled_from(Conflict))
    def register(self, who: int, minion: str, sets: dict[str, list[str]], conflict: Conflict) -> None:
        wanted = {(kind, bare_id) for kind, ids in sets.items() for bare_id in ids}
        others = {row: owner for row, owner in self.rows.items() if row in wanted and owner != minion}
        had = {row for row, owner in self.rows.items() if owner == minion}
        done = self.open[who].register(minion, sets, conflict=conflict)
        if conflict is Conflict.REFUSE:
            assert dict(done.refused) == {f"{kind}:{bare_id}": owner for (kind, bare_id), owner in others.items()}
            wanted -= others.keys()
        assert (done.put, done.deleted) == (len(wanted - had), len(had - wanted))
        for row in had - wanted:
            del self.rows[row]
        self.rows.update(dict.fromkeys(wanted, minion))

    @rule(who=st.integers(0, 1), minion=st.sampled_from(MINIONS))
    def unregister(self, who: int, minion: str) -> None:
        had = [row for row, owner in self.rows.items() if owner == minion]
        assert self.open[who].unregister_minion(minion) == len(had)
        for row in had:
            del self.rows[row]

    @rule(
        who=st.integers(0, 1),
        kind=st.sampled_from(TYPES),
        bare_id=st.sampled_from(IDS),
        minion=st.sampled_from(MINIONS),
    )
    def transfer(self, who: int, kind: str, bare_id: str, minion: str) -> None:
        assert self.open[who].transfer(kind, bare_id, minion) == self.rows.get((kind, bare_id))
        if (kind, bare_id) in self.rows:
            self.rows[kind, bare_id] = minion

    @rule(who=st.integers(0, 1))
    def compact(self, who: int) -> None:
        assert self.open[who].compact()[1] == len(self.rows)

    @rule(who=st.integers(0, 1), many=st.integers(60, 200))
    def grow(self, who: int, many: int) -> None:
        self.register(who, "m9", {"dummy": [f"more{number}" for number in range(many)]}, Conflict.REFUSE)

    @rule(who=st.integers(0, 1))
    def restart(self, who: int) -> None:
        self.open[who].close()
        self.open[who] = self.opened()

    @precondition(lambda self: self.rows)
    @rule(who=st.integers(0, 1))
    def verify(self, who: int) -> None:
        assert self.open[who].verify().problems == ()

    @rule(who=st.integers(0, 1))
    def ask(self, who: int) -> None:
        """Point look-ups; the views are asked by another rule, so that they sleep for as long as it likes."""
        registry = self.open[who]
        for kind in TYPES:
            for bare_id in IDS:
                owner = self.rows.get((kind, bare_id))
                assert registry.get_managing_minions_for_srn(kind, bare_id) == ([owner] if owner else [])

    @rule(who=st.integers(0, 1))
    def ask_views(self, who: int) -> None:
        registry = self.open[who]
        for minion in [*MINIONS, "m9"]:
            held = {
                kind: sorted(bare_id for (k, bare_id), owner in self.rows.items() if (k, owner) == (kind, minion))
                for kind in TYPES
            }
            assert registry.get_resources_for_minion(minion) == {kind: ids for kind, ids in held.items() if ids}
        for kind in TYPES:
            owners = {owner for (k, _), owner in self.rows.items() if k == kind}
            assert registry.get_managing_minions_by_type(kind)["minions"] == sorted(owners)
            assert registry.get_resource_ids_by_type(kind) == sorted(b for k, b in self.rows if k == kind)
        for bare_id in IDS:
            assert registry.resolve_bare_resource_id(bare_id) == sorted(row for row in self.rows if row[1] == bare_id)

    @invariant()
    def the_count_is_right(self) -> None:
        if hasattr(self, "rows"):
            assert self.open[0].stats()["primary"]["rows"] == len(self.rows)
            assert self.reports == []

    def teardown(self) -> None:
        if hasattr(self, "open"):
            for registry in self.open:
                registry.close()
            shutil.rmtree(self.folder)


TestRegistryAgainstADict = RegistryAgainstADict.TestCase
TestRegistryAgainstADict.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)

ROWS = {"dummy": [f"r{number}" for number in range(6)], "ssh": ["r1", "web"]}
RIGHT = {(kind, bare_id): "m1" for kind, ids in ROWS.items() for bare_id in ids} | {("dummy", "r0"): "m2"}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A small registry with a row that changed its owner and one that was deleted."""
    folder = tmp_path_factory.mktemp("whole")
    registry = ResourceRegistry({"cachedir": str(folder)})
    registry.register_minion("m1", ROWS)
    registry.register_minion("m3", {"dummy": ["deleted"]})
    registry.register_minion("m3", {})
    registry.register_minion("m2", {"dummy": ["r0"]})
    tail = registry.stats()["primary"]["bytes"]
    registry.close()
    return (folder / FILE).read_bytes()[: tail + 64]


UNKNOWN = "unknown"


def owners_of(registry: ResourceRegistry, kind: str, bare_id: str) -> list[str] | str:
    try:
        return registry.get_managing_minions_for_srn(kind, bare_id)
    except UnknownRowError:
        return UNKNOWN


def check_that_nothing_wrong_is_said(folder: Path, content: bytes) -> None:
    """Open that file: every answer is the right one or an error, it can be written to, and loss was reported."""
    path = folder / FILE
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    reports: list[str] = []
    registry = ResourceRegistry({"cachedir": str(folder)}, report=reports.append)
    try:
        for (kind, bare_id), minion in RIGHT.items():
            assert owners_of(registry, kind, bare_id) in ([minion], UNKNOWN)
        found = registry.verify()
        listed = {
            (kind, bare_id): minion
            for minion in ("m1", "m2", "m3")
            for kind, ids in registry.get_resources_for_minion(minion).items()
            for bare_id in ids
        }
        assert listed.items() <= RIGHT.items()
        assert found.rows == len(listed)
        for (kind, bare_id), minion in RIGHT.items():
            owners = owners_of(registry, kind, bare_id)
            assert owners == ([minion] if (kind, bare_id) in listed else UNKNOWN)
        incomplete = registry.stats()["primary"]["incomplete"]
        assert owners_of(registry, "dummy", "deleted") == (UNKNOWN if incomplete else [])
        if len(listed) < len(RIGHT):
            assert reports
            assert registry.stats()["primary"]["incomplete"]
        registry.register("m1", ROWS)
        assert registry.get_managing_minions_for_srn("ssh", "web") == ["m1"]
        assert registry.verify().problems == ()
    finally:
        registry.close()


def around(end: int, step: int) -> list[int]:
    """Offsets up to `end`: all of headers and states, and every `step`th of the rest."""
    near = {place for start in (0, 512, *STATES, 3072) for place in range(start, start + 120)}
    return sorted(near | set(range(0, end, step)))


def test_a_file_cut_off_at_any_byte_loses_rows_but_tells_no_lie(whole: bytes, tmp_path: Path) -> None:
    places = [place for place in around(len(whole), 331) if place >= 8192 or place % 64 == 0]
    for place in sorted({*places, *range(8192, len(whole))}):
        check_that_nothing_wrong_is_said(tmp_path, whole[:place])


def test_one_flipped_bit_anywhere_loses_rows_but_tells_no_lie(whole: bytes, tmp_path: Path) -> None:
    used = [place for place in range(len(whole)) if whole[place] or place >= 8192]
    for number, place in enumerate(used):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << number % 8
        check_that_nothing_wrong_is_said(tmp_path, bytes(damaged))


@settings(max_examples=150, deadline=None)
@given(content=st.binary(max_size=20_000))
def test_a_file_of_random_bytes_is_put_aside(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        check_that_nothing_wrong_is_said(Path(folder), content)


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_random_bytes_over_any_part_of_the_file_tell_no_lie(whole: bytes, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(whole)))
    noise = data.draw(st.binary(min_size=1, max_size=200))
    with tempfile.TemporaryDirectory() as folder:
        check_that_nothing_wrong_is_said(Path(folder), whole[:start] + noise + whole[start + len(noise) :])
