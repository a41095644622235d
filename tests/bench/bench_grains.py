"""What questions to grains cost; prints JSON. By hand: `python tests/bench/bench_grains.py [minions …] [folder]`.

Without numbers: 50,000 minions of 100 top-level grains each, 20 of them with values that no other minion has, two of
them nested. The targets are those of 50,000. The cache is in files, as a master has it.
"""

from __future__ import annotations

import json
import random
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from saltlite.master.store.banks import LocalBanks
from saltlite.targeting.banks import Bank
from saltlite.targeting.fleet import DataQuery
from saltlite.targeting.grain_index import BankIndex
from tests.bench.measure import Figure, Others, machine

MINIONS = (50_000,)
REPEATS = 7

OSES = ["Debian", "Ubuntu", "RedHat", "Rocky", "SUSE", "Alpine"]
ROLES = ["web", "db", "cache", "queue", "proxy", "build", "mail", "dns"]

FIGURES = {
    "put_us": Figure("us: one minion's grains into the bank", 500, ""),
    "cold_s": Figure("s: the first question, which reads all of the bank", 10, "10.3 s each"),
    "index_mib": Figure("MiB that the index adds to a process, with no view", 250, ""),
    "views_mib": Figure("MiB that it adds after all questions below", 400, ""),
    "path_few_ms": Figure("ms: the first question to a key with six different values", 500, "10.3 s"),
    "path_unique_ms": Figure("ms: the first question to a key whose values all differ", 500, "10.3 s"),
    "exact_ms": Figure("ms: os:Debian, a sixth of the fleet", 5, "10.3 s"),
    "exact_one_ms": Figure("ms: serialnumber:X, one minion", 5, "10.3 s"),
    "list_ms": Figure("ms: roles:web, from lists", 5, "10.3 s"),
    "nested_ms": Figure("ms: ip_interfaces:eth0:ADDRESS, one minion", 5, "10.3 s"),
    "glob_few_ms": Figure("ms: os:*ian", 150, "10.3 s"),
    "glob_unique_ms": Figure("ms: serialnumber:*77*", 150, "10.3 s"),
    "glob_nested_ms": Figure("ms: ip_interfaces:*:10.0.1*", 150, "10.3 s"),
    "regex_unique_ms": Figure("ms: serialnumber:.*[37]{3}", 150, "10.3 s"),
    "exists_ms": Figure("ms: serialnumber:*, everybody", 150, "10.3 s"),
    "nowhere_ms": Figure("ms: a key that nobody has", 5, "10.3 s"),
    "any_key_ms": Figure("ms: *:Debian, no view can help", 15_000, "10.3 s"),
    "update_ms": Figure("ms: one minion's new grains in the index and in all views, at the next question", 2, ""),
}


def grains_of(number: int) -> dict[str, Any]:
    """A hundred top-level grains, in the mix of a real machine."""
    chance = random.Random(number)
    address = f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}"
    return {
        "os": chance.choice(OSES),
        "roles": sorted(chance.sample(ROLES, 2)),
        "mem_total": chance.randrange(1 << 17),
        "ip_interfaces": {"eth0": [address], "lo": ["127.0.0.1", "::1"]},
        "serialnumber": f"SN-{chance.randrange(16**12):012X}",
        **{f"unique_{key}": f"{chance.randrange(16**16):016x}" for key in range(17)},
        **{f"few_{key}": f"value-{chance.randrange(key + 1)}" for key in range(40)},
        **{f"flag_{key}": chance.random() < 0.5 for key in range(13)},
        **{f"same_{key}": f"what everybody has under {key}" for key in range(24)},
        "systemd": {"version": str(chance.choice([247, 252, 255])), "features": "+PAM +AUDIT +SELINUX"},
    }


def seconds(call: Callable[[], object]) -> float:
    began = perf_counter()
    call()
    return perf_counter() - began


def resident_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 2**20


def filled(bank: Bank, minions: int) -> list[float]:
    """Microseconds of each put."""
    took = []
    for number in range(minions):
        grains = grains_of(number)
        took.append(seconds(lambda grains=grains, number=number: bank.put(f"minion-{number:05d}", grains)) * 1e6)  # type: ignore[misc]
    return took


def warm(index: BankIndex, minions: int) -> dict[str, list[float]]:
    """Milliseconds of each question, once its path was asked for."""
    some = grains_of(minions // 2)
    questions = {
        "exact_ms": DataQuery("os:Debian"),
        "exact_one_ms": DataQuery(f"serialnumber:{some['serialnumber']}"),
        "list_ms": DataQuery("roles:web"),
        "nested_ms": DataQuery(f"ip_interfaces:eth0:{some['ip_interfaces']['eth0'][0]}"),
        "glob_few_ms": DataQuery("os:*ian"),
        "glob_unique_ms": DataQuery("serialnumber:*77*"),
        "glob_nested_ms": DataQuery("ip_interfaces:*:10.0.1*"),
        "regex_unique_ms": DataQuery("serialnumber:.*[37]{3}", regex=True),
        "exists_ms": DataQuery("serialnumber:*"),
        "nowhere_ms": DataQuery("nowhere:x"),
    }
    found: dict[str, list[float]] = {}
    for name, query in questions.items():
        selected = index.select(query)
        assert bool(selected) == (name != "nowhere_ms"), (name, len(selected))
        found[name] = [seconds(lambda query=query: index.select(query)) * 1e3 for _ in range(REPEATS)]  # type: ignore[misc]
    found["any_key_ms"] = [seconds(lambda: index.select(DataQuery("*:Debian"))) * 1e3]
    return found


def updated(index: BankIndex, bank: Bank, minions: int) -> list[float]:
    """Milliseconds that another minion's new grains add to a question."""
    query = DataQuery("nowhere:x")
    took = []
    for number in range(50):
        bank.put(f"minion-{number:05d}", grains_of(minions + number))
        took.append((seconds(lambda: index.select(query)) - seconds(lambda: index.select(query))) * 1e3)
    return took


def one_size(folder: str, minions: int) -> dict[str, Any]:
    others = Others()
    banks = LocalBanks(folder)
    bank = banks.bank("grains")
    samples = {"put_us": filled(bank, minions)}
    index = BankIndex(bank)
    before = resident_mib()
    samples["cold_s"] = [seconds(lambda: index.select(DataQuery("nowhere:x")))]
    samples["index_mib"] = [resident_mib() - before]
    samples["path_few_ms"] = [seconds(lambda: index.select(DataQuery("os:Debian"))) * 1e3]
    samples["path_unique_ms"] = [seconds(lambda: index.select(DataQuery("serialnumber:x"))) * 1e3]
    samples |= warm(index, minions)
    samples["views_mib"] = [resident_mib() - before]
    samples["update_ms"] = updated(index, bank, minions)
    banks.close()
    figures = {name: FIGURES[name].report(values) for name, values in samples.items()}
    return {"others_percent": others.share_percent(), "grains": len(grains_of(0))} | figures


def main(sizes: list[int], where: str | None) -> None:
    document: dict[str, Any] = {"machine": machine()}
    for minions in sizes:
        folder = tempfile.mkdtemp(dir=where)
        try:
            document[f"minions_{minions}"] = one_size(folder, minions)
        finally:
            shutil.rmtree(folder)
    print(json.dumps(document, indent=2))


if __name__ == "__main__":
    numbers = [int(argument) for argument in sys.argv[1:] if argument.isdigit()]
    folders = [argument for argument in sys.argv[1:] if not argument.isdigit()]
    main(numbers or list(MINIONS), folders[0] if folders else None)
