"""Which machines a decorator of an interface speaks of: grains and the values that are meant.

Any grain with any of its values is a match. Values are compared as text without regard to case, numbers and truth
values by their YAML form; of a grain that is a list, any element may match; a grain that is not there never does.
`os_family` may be written `osfamily`, and a colon leads into a grain that is a dict, as in `**{"cpu:model": [...]}`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

_ALIASES = {"osfamily": "os_family"}


class Platforms:
    """Grain -> values, sorted by grain."""

    __slots__ = ("_values", "wanted")

    def __init__(self, wanted: Mapping[str, object]) -> None:
        """`wanted` is grain -> value, or list of values. Raises TypeError when there is none."""
        if not wanted:
            raise TypeError("name at least one grain with the values that are meant, as in os=['Debian']")
        self.wanted: dict[str, list[str]] = {}
        for grain, values in sorted(wanted.items()):
            listed = values if isinstance(values, list | tuple | set | frozenset) else (values,)
            self.wanted.setdefault(_ALIASES.get(grain, grain), []).extend(sorted(_text(value) for value in listed))
        self._values = {grain: {value.casefold() for value in values} for grain, values in self.wanted.items()}

    def __or__(self, other: Platforms) -> Platforms:
        """What either of them speaks of."""
        grains = {*self.wanted, *other.wanted}
        return Platforms({grain: {*self.wanted.get(grain, ()), *other.wanted.get(grain, ())} for grain in grains})

    def match(self, grains: Mapping[str, object]) -> bool:
        """Whether a machine with these grains is one of them."""
        return any(not values.isdisjoint(_values_of(grains, grain)) for grain, values in self._values.items())

    def text(self) -> str:
        """For people: `os=beos, frogbsd; os_family=linux`."""
        return "; ".join(f"{grain}={', '.join(values)}" for grain, values in self.wanted.items())


def _values_of(grains: Mapping[str, object], name: str) -> Iterator[str]:
    found = _find(grains, name)
    for value in found if isinstance(found, list | tuple) else (found,):
        if value is not None and not isinstance(value, Mapping):
            yield _text(value).casefold()


def _find(grains: Mapping[str, object], name: str) -> object:
    if name in grains:
        return grains[name]
    found: object = grains
    for part in name.split(":"):
        if not isinstance(found, Mapping) or part not in found:
            return None
        found = found[part]
    return found


def _text(value: object) -> str:
    """A value in its YAML form."""
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)
