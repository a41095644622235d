"""The resource registry's file: damage is repaired or told of, and never believed."""

from __future__ import annotations

import hashlib
import random
import struct
from collections.abc import Sequence
from pathlib import Path
from zlib import crc32

from saltlite.errors import StoreError
from saltlite.resources.registry.layout import HEAD, HEADERS, KIND, STATES
from saltlite.resources.registry.mmap import Environment, FilePrimary
from saltlite.resources.registry.registry import Registry
from tests.fuzz.surface import INPUT_MAX, mutate_bytes

HEADER_BYTES, STATE_BYTES = 80, 72
NUMBERS = (0, 1, 8, 128, 4095, 4096, 8192, 8200, 2**20, 2**31, 2**32, 2**40, 2**63, 2**64 - 1)
LOG = 8192


class RegistryBytes:
    """The input is the file, as a process finds it that starts after the machine did."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path = folder / "resources" / "registry"
        self._lives = 1
        self._drawn = 0

    def seeds(self) -> Sequence[bytes]:
        found = []
        for rows in (0, 3, 60):
            self._clean()
            registry = self._opened()
            names = [f"r{number}" for number in range(rows)]
            registry.register("web1", {"dummy": names, "ssh": names[:2]})
            registry.register("web2", {"dummy": ["other"]})
            registry.register("web1", {"dummy": names[1:]})
            registry.close()
            found.append(self._path.read_bytes()[:INPUT_MAX])
        return found

    def run(self, data: bytes) -> None:
        self._drawn = self._lives = 0
        self._clean()
        self._path.parent.mkdir(exist_ok=True)
        self._path.write_bytes(data)
        try:
            registry = self._opened()
        except StoreError:
            return
        try:
            for minion in ("web1", "web2"):
                for kind, ids in registry.get_resources_for_minion(minion).items():
                    for bare in ids:
                        registry.get_managing_minions_for_srn(kind, bare)
            registry.resolve_bare_resource_id("r1")
            registry.stats()
            registry.verify()
            registry.register("web3", {"dummy": ["mine"]})
            assert registry.get_managing_minions_for_srn("dummy", "mine") != []
            registry.unregister_minion("web1")
            registry.compact()
            # Numbers that were changed together with their checksum may show only now: then it is repaired.
            registry.verify()
            assert registry.verify().problems == ()
        except StoreError:
            pass
        finally:
            registry.close()

    def mutate(self, data: bytes, rng: random.Random) -> bytes:
        if len(data) < LOG or rng.random() < 0.2:
            return mutate_bytes(data, rng)
        changed = bytearray(data)
        for _ in range(rng.choice((1, 1, 3))):
            match rng.randrange(4):
                case 0:
                    _put(changed, rng.choice(HEADERS) + 8 * rng.randrange(1, 10), rng)
                case 1:
                    _put(changed, rng.choice(STATES) + 8 * rng.randrange(0, 9), rng)
                case 2:
                    _put(changed, 3072 + 8 * rng.randrange(0, 400), rng)
                case _:
                    changed[LOG:] = mutate_bytes(bytes(changed[LOG:]), rng)
        if rng.random() < 0.8:
            _mend(changed)
        return bytes(changed)

    def close(self) -> None:
        self._clean()

    def _opened(self) -> Registry:
        self._lives += 1
        boot = self._lives.to_bytes(16, "big")
        world = Environment(entropy=self._entropy, wall_ns=lambda: 1, boot=boot, report=lambda _sentence: None)
        return Registry(FilePrimary(str(self._path), world, capacity=1, sync=False))

    def _entropy(self, size: int) -> bytes:
        # Others each time, for they name files; the same in each run, so that what is found is found again.
        self._drawn += 1
        return hashlib.blake2b(self._drawn.to_bytes(8, "big"), digest_size=size).digest()

    def _clean(self) -> None:
        if self._path.parent.is_dir():
            for left in self._path.parent.iterdir():
                left.unlink()


def _put(data: bytearray, at: int, rng: random.Random) -> None:
    if at + 8 <= len(data):
        number = rng.choice((*NUMBERS, len(data), len(data) + 8, rng.randrange(2**20)))
        data[at : at + 8] = struct.pack("<Q", number)


def _mend(data: bytearray) -> None:
    """Right the checksums, so that what is wrong is what they cover."""
    for start, size in [*((at, HEADER_BYTES) for at in HEADERS), *((at, STATE_BYTES) for at in STATES)]:
        data[start + size : start + size + 4] = crc32(bytes(data[start : start + size])).to_bytes(4, "little")
    at = LOG
    while at + HEAD.size <= len(data):
        size = HEAD.unpack_from(data, at)[0] & ~KIND
        if not 16 <= size <= 4096 or at + size > len(data):
            break
        data[at + size - 4 : at + size] = crc32(bytes(data[at : at + size - 4])).to_bytes(4, "little")
        at += size
