"""Targets on the command line: the options that say how one is read, and targets in words and as a nodeset."""

from __future__ import annotations

from saltlite.cli.options import Option
from saltlite.errors import UsageError

TYPE_CHECKING = False  # importing typing takes as long as the rest of the command line
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from saltlite.cli.options import Parsed

    Number = tuple[str, str, str]
    """One number in a name: what stands before it, its digits, what stands behind it."""


TARGET_OPTIONS = (
    Option("-E", "--pcre", help="the target is a regular expression on ids"),
    Option("-L", "--list", help="the target is a list of ids: web1,web2"),
    Option("-G", "--grain", help="the target is a grain and a glob: os:Debian"),
    Option("-P", "--grain-pcre", help="the same with a regular expression"),
    Option("-I", "--pillar", help="the target is a pillar key and a glob: role:web*"),
    Option("-J", "--pillar-pcre", help="the same with a regular expression"),
    Option("-S", "--ipcidr", help="the target is a network or an address: 10.0.0.0/8"),
    Option("-N", "--nodegroup", help="the target is a nodegroup of the configuration"),
    Option("-C", "--compound", help="the target is compound: 'G@os:Debian and not web1'"),
)
"""Without one of them a target is a glob."""

# The options of TARGET_OPTIONS by what `saltlite.model.job.TargetKind` calls the way of reading.
_SHORT = {
    "pcre": "-E", "list": "-L", "grain": "-G", "grain_pcre": "-P", "pillar": "-I", "pillar_pcre": "-J", "ipcidr": "-S",
    "nodegroup": "-N", "compound": "-C",
}  # fmt: skip

GLOB = "glob"
_ENGINE_AND_DELIMITER = 2


def target_kind(parsed: Parsed) -> str:
    """How the target is read. Raises UsageError for two ways."""
    given = [kind for kind in _SHORT if parsed.on(kind)]
    if len(given) > 1:
        one, other = (f"--{kind.replace('_', '-')}" for kind in given[:2])
        raise UsageError(f"{one} and {other} exclude each other: a target is read in one way")
    return given[0] if given else GLOB


def written_target(target: str, kind: str) -> str:
    """The target with its option, as it is typed on a command line."""
    return f"{_SHORT[kind]} {target}" if kind in _SHORT else target


def compound_hint(target: str, kind: str) -> str:
    """A hint for a glob that looks like a compound target; "" for others."""
    letter, at, _pattern = target.partition(" ")[0].partition("@")
    looks_so = at and letter.isupper() and len(letter) <= _ENGINE_AND_DELIMITER
    return f"; with -C it is read as a compound target: -C {target!r}" if kind == GLOB and looks_so else ""


def minions_text(count: int) -> str:
    """`1 minion`, `2 minions`."""
    return f"{count} minion{'' if count == 1 else 's'}"


def resources_text(count: int) -> str:
    """`1 resource`, `2 resources`."""
    return f"{count} resource{'' if count == 1 else 's'}"


def targets_text(minions: int, resources: int) -> str:
    """`2 minions`, `1 resource`, `12 targets: 2 minions, 10 resources`."""
    kinds = kinds_text(minions, resources)
    return f"{minions + resources} targets: {kinds}" if minions and resources else kinds


def kinds_text(minions: int, resources: int) -> str:
    """`2 minions`, `1 resource`, `2 minions, 10 resources`."""
    counts = [minions_text(minions)] if minions or not resources else []
    return ", ".join([*counts, *([resources_text(resources)] if resources else [])])


def noun(minions: int, resources: int) -> str:
    """The common noun for these targets: `minions`, `resources` or `targets`."""
    return "targets" if minions and resources else "resources" if resources else "minions"


def skipped_lines(skipped: Sequence[Mapping[str, Any]]) -> list[str]:
    """The resources that a job skipped, and why, one line per type."""
    return [
        f"{resources_text(row['count'])} {'was' if row['count'] == 1 else 'were'} skipped: "
        f"type {row['type']} has no {row['fun']}"
        for row in skipped
    ]


def missing_executor_lines(missing: Sequence[Mapping[str, Any]]) -> list[str]:
    """The requested executors that some minions do not have, one line each."""
    lines = []
    for row in missing:
        minions = row["one"] if row["count"] == 1 else f"{row['one']} and {row['count'] - 1} more"
        lines.append(
            f"{minions} will refuse the job, without the executor {row['executor']}: "
            f"`saltlite {row['one']} saltutil.sync_executors` installs it"
        )
    return lines


_DIGITS = frozenset("0123456789")


def nodeset(names: Iterable[str]) -> str:
    """Many names as one short text: `db[01-40],web[1-3,7]`. Names that share nothing stand as they are.

    Each name counts once; consecutive numbers become a range; the order is that of the text. Of several numbers in a
    name, the one that most other names share is folded, at equal counts the last. A number with a leading zero shares a
    range only with numbers of as many digits.
    """
    numbers = {name: _numbers(name) for name in set(names)}
    sharing: dict[tuple[str, str], int] = {}
    for found in numbers.values():
        for before, _, behind in found:
            sharing[before, behind] = sharing.get((before, behind), 0) + 1
    groups: dict[tuple[str, str], list[str]] = {}
    texts = []
    for name, found in numbers.items():
        best = max(reversed(found), key=lambda number: sharing[number[0], number[2]], default=None)
        if best is None or sharing[best[0], best[2]] == 1:
            texts.append(name)
        else:
            groups.setdefault((best[0], best[2]), []).append(best[1])
    texts += [_folded(before, digits, behind) for (before, behind), digits in groups.items()]
    return ",".join(sorted(texts, key=natural_key))


def natural_key(name: str) -> list[tuple[str, int]]:
    """The key that sorts names as people do: `web2` before `web10`."""
    key, end = [], 0
    for before, digits, _behind in _numbers(name):
        key.append((before[end:], int(digits)))
        end = len(before) + len(digits)
    return [*key, (name[end:], -1), (name, -1)]


def _numbers(name: str) -> list[Number]:
    """Every number in the name."""
    found = []
    start = None
    for index, character in enumerate(f"{name}."):
        if character in _DIGITS:
            start = index if start is None else start
        elif start is not None:
            found.append((name[:start], name[start:index], name[index:]))
            start = None
    return found


def _folded(before: str, digits: list[str], behind: str) -> str:
    if len(digits) == 1:  # the others with this prefix and suffix are folded at another number
        return f"{before}{digits[0]}{behind}"
    padded_widths = {len(one) for one in digits if one[0] == "0" and len(one) > 1}
    by_width: dict[int, list[int]] = {}
    for one in digits:
        by_width.setdefault(len(one) if len(one) in padded_widths else 0, []).append(int(one))
    ranges = [text for width in sorted(by_width, reverse=True) for text in _ranges(sorted(by_width[width]), width)]
    return f"{before}[{','.join(ranges)}]{behind}"


def _ranges(values: list[int], width: int) -> list[str]:
    """`1-3`, `7` for sorted whole numbers; `width` is that of padded ones, else 0."""
    runs: list[list[int]] = []
    for value in values:
        if runs and value == runs[-1][1] + 1:
            runs[-1][1] = value
        else:
            runs.append([value, value])
    return [f"{first:0{width}d}" if first == last else f"{first:0{width}d}-{last:0{width}d}" for first, last in runs]
