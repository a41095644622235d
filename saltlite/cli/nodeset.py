"""Many names as one short text: `db[01-40],web[1-3,7]`. Names that share nothing stand as they are."""

from __future__ import annotations

TYPE_CHECKING = False  # typing costs as much start-up time as all of the command line
if TYPE_CHECKING:
    from collections.abc import Iterable

    Number = tuple[str, str, str]
    """One number in a name: what stands before it, its digits, what stands behind it."""

_DIGITS = frozenset("0123456789")


def nodeset(names: Iterable[str]) -> str:
    """The names, each once, numbers that follow one another as a range, in the order of their text.

    Of several numbers in a name the one is folded that it shares its surroundings with most other names in, of
    equals the last. A number with a leading zero only stands in a range with others of as many digits.
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
    return ",".join(sorted(texts))


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
    if len(digits) == 1:  # the others that share these surroundings are folded at another number
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
