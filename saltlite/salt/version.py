"""`salt.version`: the release of Salt whose library this one follows, and the order of releases."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from typing import Any, ClassVar, NamedTuple

from saltlite import SALT_VERSION
from saltlite import __version__ as _own_version

__version__ = SALT_VERSION

_BY_DATE = {
    "Hydrogen": (2014, 1), "Helium": (2014, 7), "Lithium": (2015, 5), "Beryllium": (2015, 8), "Boron": (2016, 3),
    "Carbon": (2016, 11), "Nitrogen": (2017, 7), "Oxygen": (2018, 3), "Fluorine": (2019, 2),
}  # fmt: skip
_NUMBERED = (
    "Neon Sodium Magnesium Aluminium Silicon Phosphorus Sulfur Chlorine Argon Potassium Calcium Scandium Titanium "
    "Vanadium Chromium Manganese Iron Cobalt Nickel Copper Zinc Gallium Germanium Arsenic Selenium Bromine "
    "Krypton Rubidium Strontium Yttrium Zirconium Niobium Molybdenum Technetium Ruthenium Rhodium Palladium "
    "Silver Cadmium Indium Tin Antimony Tellurium Iodine Xenon Cesium Barium Lanthanum Cerium Praseodymium "
    "Neodymium Promethium Samarium Europium Gadolinium Terbium Dysprosium Holmium Erbium Thulium Ytterbium "
    "Lutetium Hafnium Tantalum Tungsten Rhenium Osmium Iridium Platinum Gold Mercury Thallium Lead Bismuth "
    "Polonium Astatine Radon Francium Radium Actinium Thorium Protactinium Uranium Neptunium Plutonium Americium "
    "Curium Berkelium Californium Einsteinium Fermium Mendelevium Nobelium Lawrencium Rutherfordium Dubnium "
    "Seaborgium Bohrium Hassium Meitnerium Darmstadtium Roentgenium Copernicium Nihonium Flerovium Moscovium "
    "Livermorium Tennessine Oganesson"
)
_FIRST_NUMBER = 3000
_FIRST_WITH_ZERO = 3006
_LAST_RELEASED = 3008
_HIGHEST = 2**63 - 201

_DESCRIBED = re.compile(
    r"[^\d]*(?P<major>\d{1,4})(?:\.(?P<minor>\d{1,2}))?(?:\.(?P<bugfix>\d{0,2}))?(?:\.(?P<mbugfix>\d{0,2}))?"
    r"(?:-(?P<patch>\d{1,2})\b(?!-g?[a-f0-9]))?(?:(?P<pre_type>rc|alpha|beta|a|b|nb)(?P<pre_num>\d+))?"
    r"(?:.*(?:\+|-)(?P<noc>0na|\d+|n/a)[-.](?P<sha>g?[a-f0-9]{7,40}))?"
)


class _Release(NamedTuple):
    name: str
    info: tuple[int, ...]
    released: bool


class SaltVersion(_Release):
    """One release with its name; releases are ordered by their numbers."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SaltVersion) and self.info == other.info

    def __lt__(self, other: Any) -> bool:
        return bool(self.info < other.info)

    def __le__(self, other: Any) -> bool:
        return bool(self.info <= other.info)

    def __gt__(self, other: Any) -> bool:
        return bool(self.info > other.info)

    def __ge__(self, other: Any) -> bool:
        return bool(self.info >= other.info)

    def __hash__(self) -> int:
        return hash(self.info)


class SaltVersionsInfo:
    """All releases, each as an attribute with its name in capitals."""

    _all: ClassVar[list[SaltVersion]] = []

    @classmethod
    def versions(cls) -> list[SaltVersion]:
        return cls._all

    @classmethod
    def current_release(cls) -> SaltVersion:
        return [one for one in cls._all if one.released][-1]

    @classmethod
    def next_release(cls) -> SaltVersion:
        return next(one for one in cls._all if one > cls.current_release())

    @classmethod
    def previous_release(cls) -> SaltVersion:
        return [one for one in cls._all if one < cls.current_release()][-1]


for _name, _info in (
    *_BY_DATE.items(),
    *((_name, (_number,)) for _number, _name in enumerate(_NUMBERED.split(), _FIRST_NUMBER)),
):
    _version = SaltVersion(_name, _info, _info <= (_LAST_RELEASED,))
    SaltVersionsInfo._all.append(_version)
    setattr(SaltVersionsInfo, _name.upper(), _version)


@functools.total_ordering
class SaltStackVersion:
    """A version of Salt, such as 3006.9 or 2019.2.5rc1; it compares with texts and tuples, too."""

    NAMES: ClassVar[dict[str, tuple[int, ...]]] = {one.name: one.info for one in SaltVersionsInfo.versions()}
    LNAMES: ClassVar[dict[str, tuple[int, ...]]] = {name.lower(): info for name, info in NAMES.items()}
    VNAMES: ClassVar[dict[tuple[int, ...], str]] = {info: name for name, info in NAMES.items()}
    RMATCH: ClassVar[dict[tuple[int, ...], str]] = VNAMES

    def __init__(
        self,
        major: Any,
        minor: Any = None,
        bugfix: Any = None,
        mbugfix: Any = 0,
        pre_type: Any = None,
        pre_num: Any = None,
        noc: Any = 0,
        sha: Any = None,
        *,
        patch: Any = None,
    ) -> None:
        self.major = int(major)
        self.minor = _number(minor, 0 if self.can_have_dot_zero(self.major) else None)
        self.bugfix = _number(bugfix, None if self.new_version(self.major) else 0)
        self.mbugfix = _number(mbugfix, 0)
        self.patch = _number(patch, 0)
        self.pre_type = pre_type or ""
        self.pre_num = _number(pre_num, 0)
        self.noc = -1 if noc in ("0na", "n/a") else _number(noc, 0)
        self.sha = sha
        self.name = self.VNAMES.get(self._named())

    @staticmethod
    def new_version(major: Any) -> bool:
        """Whether the release has a number, and no date."""
        return _FIRST_NUMBER <= int(major) < _HIGHEST

    @staticmethod
    def can_have_dot_zero(major: Any) -> bool:
        """Whether the first version of the release ends with `.0`."""
        return _FIRST_WITH_ZERO <= int(major) < _HIGHEST

    @classmethod
    def parse(cls, version_string: Any) -> SaltStackVersion:
        """The version of a text or name. Raises ValueError."""
        text = version_string.decode() if isinstance(version_string, bytes) else version_string
        if text.lower() in cls.LNAMES:
            return cls.from_name(text)
        found = _DESCRIBED.match(text)
        if not found:
            raise ValueError(f"Unable to parse version string: '{version_string}'")
        return cls(**found.groupdict())

    @classmethod
    def from_name(cls, name: str) -> SaltStackVersion:
        """The first version of a release by its name. Raises ValueError."""
        if name.lower() not in cls.LNAMES:
            raise ValueError(f"Named version '{name}' is not known")
        return cls(*cls.LNAMES[name.lower()])

    @classmethod
    def current_release(cls) -> SaltStackVersion:
        return cls(*SaltVersionsInfo.current_release().info)

    @classmethod
    def next_release(cls) -> SaltStackVersion:
        return cls(*SaltVersionsInfo.next_release().info)

    def _named(self) -> tuple[Any, ...]:
        return (self.major,) if self.new_version(self.major) else (self.major, self.minor)

    def min_info(self) -> list[Any]:
        if not self.new_version(self.major):
            return [self.major, self.minor, self.bugfix, self.mbugfix]
        has_minor = self.minor or self.can_have_dot_zero(self.major)
        return [self.major, self.minor] if has_minor else [self.major]

    @property
    def info(self) -> tuple[Any, ...]:
        return tuple(self.min_info())

    @property
    def pre_info(self) -> tuple[Any, ...]:
        return (*self.min_info(), self.pre_type, self.pre_num)

    @property
    def noc_info(self) -> tuple[Any, ...]:
        return (*self.pre_info, self.noc)

    @property
    def full_info(self) -> tuple[Any, ...]:
        return (*self.noc_info, self.sha)

    @property
    def string(self) -> str:
        if self.new_version(self.major):
            text = ".".join(map(str, self.min_info()))
        else:
            text = f"{self.major}.{self.minor}.{self.bugfix}"
        text += f".{self.mbugfix}" if self.mbugfix else ""
        text += f"-{self.patch}" if self.patch else ""
        text += f"{self.pre_type}{self.pre_num}" if self.pre_type else ""
        return text + (f"+{'0na' if self.noc < 0 else self.noc}.{self.sha}" if self.sha else "")

    @property
    def formatted_version(self) -> str:
        """The version with its release's name: `3008.3 (Argon)`."""
        name = self.RMATCH.get(self._named())
        return f"{self.string} ({name})" if name else self.string

    def _key(self) -> tuple[Any, ...]:
        # "zzz" of a final version is behind every kind of pre-release.
        numbers = (self.major, self.minor or 0, self.bugfix or 0, self.mbugfix or 0)
        return (*numbers, self.pre_type or "zzz", self.pre_num, self.noc, self.patch)

    @classmethod
    def _of(cls, other: Any) -> SaltStackVersion:
        if isinstance(other, SaltStackVersion):
            return other
        if isinstance(other, str):
            return cls.parse(other)
        if isinstance(other, list | tuple):
            return cls(*other)
        raise ValueError(f"Cannot instantiate Version from type '{type(other)}'")

    def __eq__(self, other: object) -> bool:
        return self._key() == self._of(other)._key()

    def __lt__(self, other: Any) -> bool:
        return self._key() < self._of(other)._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __str__(self) -> str:
        return self.string

    def __repr__(self) -> str:
        return f"<SaltStackVersion name={self.name!r} version={self.string!r}>"


def _number(value: Any, missing: Any) -> Any:
    return missing if value in (None, "") else int(value)


__saltstack_version__ = SaltStackVersion.parse(__version__)
__version_info__ = __saltstack_version__.info


def salt_information() -> Iterator[tuple[str, str]]:
    """("Salt", its version)."""
    yield "Salt", __version__
    yield "saltlite", _own_version


def versions_information(
    include_salt_cloud: bool = False, include_extensions: bool = True
) -> dict[str, dict[str, Any]]:
    """The versions of Salt's library, of Python and the libraries, and of the system."""
    import platform
    from importlib import metadata

    names = ["cryptography", "jinja2", "msgpack", "pyyaml", "pyzmq", "tornado"]
    names += ["apache-libcloud"] if include_salt_cloud else []
    libraries: dict[str, Any] = {"Python": platform.python_version()}
    for name in names:
        try:
            libraries[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            libraries[name] = None
    found: dict[str, dict[str, Any]] = {"Salt Version": dict(salt_information()), "Dependency Versions": libraries}
    if include_extensions:
        points = metadata.entry_points(group="salt.loader")
        extensions = {point.dist.name: point.dist.version for point in points if point.dist is not None}
        if extensions:
            found["Salt Extensions"] = extensions
    system = platform.uname()
    found["System Versions"] = {"machine": system.machine, "release": system.release, "system": system.system}
    return found


def versions_report(include_salt_cloud: bool = False, include_extensions: bool = True) -> Iterator[str]:
    """The lines of a report of `versions_information`."""
    information = versions_information(include_salt_cloud, include_extensions)
    width = max(len(name) for versions in information.values() for name in versions)
    for title, versions in information.items():
        yield f"{title}:"
        for name in sorted(versions, key=str.lower):
            yield f"{name:>{width}}: {versions[name] or 'Not Installed'}"
        yield " "
