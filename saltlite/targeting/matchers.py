"""The matchers: each decides for one term of a target which minions and resources match.

    GlobMatcher      a word with wildcards, and M@; compares minion ids, and narrows resources by their minion
    ListMatcher      L@ and lists: minion ids, SRNs and bare ids, separated by commas or white space
    WordMatcher      one name as a plain word; the name of a resource's minion only narrows
    RegexMatcher     E@: regular expressions over minion ids and bare ids, anchored at the start only
    TypeMatcher      T@ssh, T@ssh:web-01, T@ssh:web*: resources of a type, or a glob of their bare ids
    GrainMatcher     G@ and P@: grains of minions and resources
    MinionMatcher    I@, J@ and S@: pillar and addresses, which resources do not have

Globs are Salt's (`*`, `?`, `[abc]`, `[!abc]`), case-sensitive, and match the complete id.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Set
from functools import cached_property, lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import NamedTuple, Protocol, TypeAlias

from saltlite.errors import UsageError
from saltlite.model.ids import RESOURCE_ID_MAX, MinionId, TargetId, parse_srn, resource_index_srn_key
from saltlite.targeting.fleet import DataQuery, Fleet
from saltlite.targeting.patterns import glob_pattern, has_wildcard, regex_pattern

Row: TypeAlias = tuple[TargetId, MinionId]
"""A resource and its owner."""

GUESS_OF_OWNER = 100
GUESS_OF_TYPE = 1_000_000
GUESS_OF_ALL = 10_000_000
"""Estimates of how many resources one minion, one type and the fleet have; only their order matters."""

ID_LENGTH = 32
"""Characters charged for an id when many are compared with a pattern, because measuring each would cost too much."""

ROWS_PAID_AT_ONCE = 1024
"""Resources that are compared with a pattern per charge to the budget."""


class Named(NamedTuple):
    """A single name in a term, and its bearers."""

    text: str
    minion: MinionId | None
    rows: list[Row]


class Matcher(Protocol):
    """One term of a target over one fleet."""

    def minions(self, among: Set[MinionId]) -> Set[MinionId]:
        """The matching minions of `among`."""
        ...

    def of_resource(self, srn: TargetId, owner: MinionId) -> bool:
        """Whether the resource matches."""
        ...

    def names_resource(self, srn: TargetId, owner: MinionId) -> bool:
        """Whether the resource matches in a way that can select it, instead of only narrowing."""
        ...

    def rows(self) -> Iterable[Row]:
        """Every matching resource."""
        ...

    def naming_rows(self) -> Iterable[Row]:
        """Every resource that the term names."""
        ...

    def guess(self) -> int:
        """An estimate of the resources that `rows` walks."""
        ...

    def named(self) -> Iterable[Named]:
        """The names in the term, in order; patterns have none."""
        ...

    def condition(self, owner: MinionId | None) -> str:
        """The condition in words, for a minion or a resource with that owner: `its id is 'web1'`."""
        ...


def bare_id(srn: TargetId) -> str:
    """The id in an SRN."""
    return srn.partition(":")[2]


def as_set(found: Collection[MinionId]) -> Set[MinionId]:
    """The collection as a set, for cheap membership tests."""
    return found if isinstance(found, Set) else frozenset(found)


def look_up(fleet: Fleet, name: str) -> list[Row]:
    """The resource with this SRN; if there is none, the resources with this bare id.

    A bare id may contain colons. Registering one that looks like the SRN of another resource must not capture it.
    """
    owner = registered(fleet, name)
    return [(name, owner)] if owner is not None else list(fleet.with_bare_id(name))


def registered(fleet: Fleet, name: str) -> MinionId | None:
    """The owner of the resource with this SRN, or None."""
    return fleet.owner(name) if ":" in name else None


class GlobMatcher:
    """A plain word with wildcards, and `M@`."""

    def __init__(self, fleet: Fleet, pattern: str, *, takes_resources: bool) -> None:
        """`takes_resources`: also select the resources of matching minions. Raises UsageError for a long glob."""
        self._fleet = fleet
        self._pattern = pattern
        self._asked = glob_pattern(pattern, fleet.budget)
        self._matches = self._asked.over(fleet.budget)
        self._takes = takes_resources
        self._owners: Set[MinionId] | None = None

    def minions(self, among: Set[MinionId]) -> Set[MinionId]:
        if self._pattern == "*":
            return among
        if not has_wildcard(self._pattern):
            name = MinionId(self._pattern)
            return {name} if name in among else frozenset()
        self._asked.pay(self._fleet.budget, len(among), len(among) * ID_LENGTH)
        return {minion for minion in among if self._matches(minion)}

    def of_resource(self, _srn: TargetId, owner: MinionId) -> bool:
        return owner in self._matching()

    def names_resource(self, srn: TargetId, owner: MinionId) -> bool:
        return self._takes and self.of_resource(srn, owner)

    def rows(self) -> Iterable[Row]:
        owners = self._matching()
        if len(owners) > 1 and len(owners) == len(self._fleet.minions()):
            return self._fleet.resources()
        return ((srn, owner) for owner in owners for srn in self._fleet.resources_of(owner))

    def naming_rows(self) -> Iterable[Row]:
        return self.rows() if self._takes else ()

    def guess(self) -> int:
        return len(self._matching()) * GUESS_OF_OWNER

    def named(self) -> Iterable[Named]:
        if has_wildcard(self._pattern):
            return ()
        name = MinionId(self._pattern)
        return [Named(name, name if name in self._fleet.minions() else None, [])]

    def condition(self, owner: MinionId | None) -> str:
        whose = "its id" if owner is None else f"the id of its minion {owner!r}"
        return f"{whose} {'matches' if has_wildcard(self._pattern) else 'is'} {self._pattern!r}"

    def _matching(self) -> Set[MinionId]:
        if self._owners is None:
            self._owners = self.minions(as_set(self._fleet.minions()))
        return self._owners


Network: TypeAlias = IPv4Network | IPv6Network
Address: TypeAlias = IPv4Address | IPv6Address

ADDRESS_GRAINS = ("ipv4", "ipv6")
"""The grains that list every address of a minion; Salt's matcher reads the same."""

ADDRESS_MAX = 64
"""Characters of an address: 39 for IPv6, and the name of an interface."""

_ADDRESSES_KEPT = 200_000
"""Parsed addresses in the cache: parsing one costs as much as ten comparisons."""

_IPV6 = 1 << 128
"""Added to the numbers of IPv6 addresses, so that they differ from those of IPv4."""


def parse_network(text: str) -> Network:
    """The network or address in `text`. Host bits are ignored, as in Salt. Raises UsageError."""
    try:
        return ip_network(text, strict=False)
    except ValueError:
        raise UsageError(
            f"{text[:80]!r} is neither an address nor a network: write 192.168.1.7, 10.0.0.0/8 or 2001:db8::/32"
        ) from None


def has_address(grains: Mapping[str, object], network: Network) -> bool:
    """Whether a minion with these grains has an address in that network."""
    return any(map(address_test(network), _texts(grains)))


def address_test(network: Network) -> Callable[[str], bool]:
    """Tests whether a text from ADDRESS_GRAINS, which may be anything, is an address in that network."""
    first, last = _number(network.network_address), _number(network.broadcast_address)
    return lambda text: len(text) <= ADDRESS_MAX and first <= _address_number(text) <= last


def _texts(grains: Mapping[str, object]) -> Iterator[str]:
    for name in ADDRESS_GRAINS:
        value = grains.get(name)
        yield from (text for text in (value if isinstance(value, list | tuple) else [value]) if isinstance(text, str))


@lru_cache(_ADDRESSES_KEPT)
def _address_number(text: str) -> int:
    """The number of an address, which is compared ten times as fast; -1 for another text."""
    try:
        return _number(ip_address(text))
    except ValueError:
        return -1


def _number(address: Address) -> int:
    return int(address) + (_IPV6 if address.version == 6 else 0)


STEPS_OF_A_NAME = 30
"""Budget steps for looking up a name."""


def listed(expression: str) -> list[str]:
    """The names in a list expression, in the order in which they were typed, each once."""
    return list(dict.fromkeys(expression.replace(",", " ").split()))


class ListMatcher:
    """Minions with these ids, and resources with these SRNs, or bare ids where no SRN matches."""

    def __init__(self, fleet: Fleet, expression: str) -> None:
        self._fleet = fleet
        self._names = dict.fromkeys(listed(expression))
        fleet.budget.spend(len(self._names) * STEPS_OF_A_NAME)

    def minions(self, among: Set[MinionId]) -> Set[MinionId]:
        return {minion for name in self._names if (minion := MinionId(name)) in among}

    def of_resource(self, srn: TargetId, _owner: MinionId) -> bool:
        return srn in self._names or bare_id(srn) in self._bare_ids

    @cached_property
    def _bare_ids(self) -> Set[str]:
        """The names that are not SRNs."""
        return {name for name in self._names if registered(self._fleet, name) is None}

    def names_resource(self, srn: TargetId, owner: MinionId) -> bool:
        return self.of_resource(srn, owner)

    def rows(self) -> Iterable[Row]:
        return (row for name in self._names for row in look_up(self._fleet, name))

    def naming_rows(self) -> Iterable[Row]:
        return self.rows()

    def guess(self) -> int:
        return len(self._names)

    def named(self) -> Iterator[Named]:
        minions = self._fleet.minions()
        for name in self._names:
            minion = MinionId(name)
            yield Named(name, minion if minion in minions else None, look_up(self._fleet, name))

    def condition(self, owner: MinionId | None) -> str:
        return "its id is in the list" if owner is None else "its id or its SRN is in the list"


class WordMatcher(ListMatcher):
    """One name as a plain word; also matches, without naming them, the resources of the minion of that name."""

    def __init__(self, fleet: Fleet, name: str) -> None:
        super().__init__(fleet, "")
        self._name = name
        self._names = {name: None} if name else {}

    def of_resource(self, srn: TargetId, owner: MinionId) -> bool:
        return owner == self._name or super().of_resource(srn, owner)

    def names_resource(self, srn: TargetId, owner: MinionId) -> bool:
        return super().of_resource(srn, owner)

    def rows(self) -> Iterable[Row]:
        yield from super().rows()
        owner = MinionId(self._name)
        if owner in self._fleet.minions():
            yield from ((srn, owner) for srn in self._fleet.resources_of(owner))

    def naming_rows(self) -> Iterable[Row]:
        return super().rows()

    def guess(self) -> int:
        return GUESS_OF_OWNER

    def condition(self, owner: MinionId | None) -> str:
        whose = "its id" if owner is None else f"its id, its SRN or its minion {owner!r}"
        return f"{whose} is {self._name!r}"


class RegexMatcher:
    """Minions whose id matches, and resources whose bare id does."""

    def __init__(self, fleet: Fleet, pattern: str) -> None:
        """Raises UsageError, with the position, for an invalid or unsafe regular expression."""
        self._fleet = fleet
        self._pattern = pattern
        self._asked = regex_pattern(pattern, fleet.budget, longest=RESOURCE_ID_MAX)
        self._matches = self._asked.over(fleet.budget)

    def minions(self, among: Set[MinionId]) -> Set[MinionId]:
        self._asked.pay(self._fleet.budget, len(among), len(among) * ID_LENGTH)
        return {minion for minion in among if self._matches(minion)}

    def of_resource(self, srn: TargetId, _owner: MinionId) -> bool:
        return bool(self._matches(bare_id(srn)))

    def names_resource(self, srn: TargetId, owner: MinionId) -> bool:
        return self.of_resource(srn, owner)

    def rows(self) -> Iterable[Row]:
        return self._paid(self._fleet.resources())

    def _paid(self, rows: Iterable[Row]) -> Iterator[Row]:
        """The matching rows, charged by their real length, which the registering minion chooses."""
        matches, budget, count, characters = self._matches, self._fleet.budget, 0, 0
        for row in rows:
            count += 1
            characters += len(row[0])
            if count == ROWS_PAID_AT_ONCE:
                self._asked.pay(budget, count, characters)
                count = characters = 0
            if matches(bare_id(row[0])):
                yield row

    def naming_rows(self) -> Iterable[Row]:
        return self.rows()

    def guess(self) -> int:
        return GUESS_OF_ALL

    def named(self) -> Iterable[Named]:
        return ()

    def condition(self, owner: MinionId | None) -> str:
        return f"its {'id' if owner is None else 'bare id'} matches {self._pattern!r} from its start"


class TypeMatcher:
    """Resources of one type: all, those with one id, or those whose bare id matches a glob."""

    def __init__(self, fleet: Fleet, pattern: str) -> None:
        """Raises UsageError for a long glob."""
        self._fleet = fleet
        self._pattern = pattern
        self._type, self._id = parse_srn(pattern)
        self._wide = self._id is None or has_wildcard(self._id)
        self._matches = glob_pattern(self._id, fleet.budget).over(fleet.budget) if self._id is not None else None

    def minions(self, _among: Set[MinionId]) -> Set[MinionId]:
        return frozenset()

    def of_resource(self, srn: TargetId, _owner: MinionId) -> bool:
        kind, _, bare = srn.partition(":")
        return kind == self._type and (self._matches is None or bool(self._matches(bare)))

    def names_resource(self, srn: TargetId, owner: MinionId) -> bool:
        return self.of_resource(srn, owner)

    def rows(self) -> Iterable[Row]:
        if self._type is None:
            return ()
        if not self._wide:
            return [row for named in self.named() for row in named.rows]
        found = self._fleet.resources_of_type(self._type)
        return found if self._matches is None else (row for row in found if self.of_resource(*row))

    def naming_rows(self) -> Iterable[Row]:
        return self.rows()

    def guess(self) -> int:
        return GUESS_OF_TYPE if self._wide else 1

    def named(self) -> Iterable[Named]:
        if self._id is None or self._wide:
            return ()
        srn = resource_index_srn_key(self._type or "", self._id)
        owner = self._fleet.owner(srn)
        return [Named(srn, None, [(srn, owner)] if owner is not None else [])]

    def condition(self, owner: MinionId | None) -> str:
        if owner is None:
            return "it is a resource, and no minion"
        if self._id is None:
            return f"its type is {self._type!r}"
        return f"its type is {self._type!r}, and its bare id {'matches' if self._wide else 'is'} {self._id!r}"


class GrainMatcher:
    """Minions and resources with matching grains; queries the fleet once, at the first use."""

    def __init__(self, fleet: Fleet, query: DataQuery) -> None:
        self._fleet = fleet
        self._query = query

    @cached_property
    def _found(self) -> tuple[Set[MinionId], Collection[TargetId]]:
        minions, resources = self._fleet.grains(self._query)
        return as_set(minions), resources if isinstance(resources, Set) else frozenset(resources)

    def minions(self, among: Set[MinionId]) -> Set[MinionId]:
        return self._found[0] & among

    def of_resource(self, srn: TargetId, _owner: MinionId) -> bool:
        return srn in self._found[1]

    def names_resource(self, srn: TargetId, owner: MinionId) -> bool:
        return self.of_resource(srn, owner)

    def rows(self) -> Iterator[Row]:
        for srn in self._found[1]:
            owner = self._fleet.owner(srn)
            if owner is not None:
                yield srn, owner

    def naming_rows(self) -> Iterable[Row]:
        return self.rows()

    def guess(self) -> int:
        return len(self._found[1])

    def named(self) -> Iterable[Named]:
        return ()

    def condition(self, owner: MinionId | None) -> str:
        return f"{'its' if owner is None else 'its own'} grains match {_question(self._query)}"


class MinionMatcher:
    """Minions matched by data that resources do not have."""

    def __init__(self, found: Callable[[], Collection[MinionId]], what: str) -> None:
        """`what` is the condition in words; `found` is called once, at the first use."""
        self._find = found
        self._what = what

    @cached_property
    def _found(self) -> Set[MinionId]:
        return as_set(self._find())

    def minions(self, among: Set[MinionId]) -> Set[MinionId]:
        return self._found & among

    def of_resource(self, _srn: TargetId, _owner: MinionId) -> bool:
        return False

    def names_resource(self, _srn: TargetId, _owner: MinionId) -> bool:
        return False

    def rows(self) -> Iterable[Row]:
        return ()

    def naming_rows(self) -> Iterable[Row]:
        return ()

    def guess(self) -> int:
        return 0

    def named(self) -> Iterable[Named]:
        return ()

    def condition(self, owner: MinionId | None) -> str:
        return self._what if owner is None else f"{self._what}, and resources have none of their own"


def pillar_matcher(fleet: Fleet, query: DataQuery) -> MinionMatcher:
    """Minions with a matching pillar."""
    return MinionMatcher(lambda: fleet.pillar(query), f"its pillar matches {_question(query)}")


def address_matcher(fleet: Fleet, network: str) -> MinionMatcher:
    """Minions with that address, or one in that network."""
    return MinionMatcher(lambda: fleet.addresses(network), f"an address of it is in {network}")


def _question(query: DataQuery) -> str:
    return f"{query.expression!r}{', a regular expression' if query.regex else ''}"
