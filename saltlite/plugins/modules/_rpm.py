"""The rpm database: asking it, and the names and versions that it gives: the mechanics behind `pkg` and `lowpkg`.

What belongs here: questions to rpm about what is installed in a root folder, about package files and about versions.
What does not: repositories, and whatever changes the machine.
"""

from __future__ import annotations

import functools
import os
import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from saltlite.errors import CommandExecutionError, SaltInvocationError
from saltlite.plugins.modules import _packages

UNIT, RECORD = "\x1f", "\x1e"
"""Control characters that no field of a package holds; a description does hold line ends."""

NAMES = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+~^%{}-]*", re.ASCII)
VERSIONS = re.compile(r"(?:[<>]=?|=)?[A-Za-z0-9][A-Za-z0-9_.+~^:*-]*", re.ASCII)
SPELLING = _packages.Spelling(NAMES, VERSIONS)

_X86_64 = frozenset({"x86_64", "x86_64_v2", "x86_64_v3", "x86_64_v4", "amd64", "ia32e"})
_X86_32 = frozenset({"i386", "i486", "i586", "i686", "athlon", "geode"})
_ARM_32 = frozenset({"armv5tel", "armv5tejl", "armv6l", "armv6hl", "armv7l", "armv7hl", "armv7hnl"})
_OTHERS = frozenset(
    {"aarch64", "ia64", "noarch", "riscv64", "loongarch64", "mips64el", "mipsel", "s390", "s390x"}
    | {"ppc", "ppc64", "ppc64le", "ppc64iseries", "ppc64pseries", "sh3", "sh4", "sh4a"}
    | {"sparc", "sparcv8", "sparcv9", "sparcv9v", "sparc64", "sparc64v"}
    | {"alpha", "alphaev4", "alphaev45", "alphaev5", "alphaev56", "alphapca56", "alphaev6", "alphaev67"}
)
ARCHITECTURES = _X86_64 | _X86_32 | _ARM_32 | _OTHERS
"""What may stand behind the last dot of a package name and be its architecture."""

_DEBIAN_NAMES = {"amd64": "x86_64", "arm64": "aarch64", "armhf": "armv7hl", "i386": "i686", "ppc64el": "ppc64le"}
"""The grain `osarch` on Debian, where dpkg gives it -> rpm's name."""

_TOKEN = re.compile(r"~|\^|[0-9]+|[A-Za-z]+")
_NONE = "(none)"


class Package(NamedTuple):
    """One installed package. `name` has the architecture behind a dot where that is not the machine's own."""

    name: str
    epoch: str | None
    version: str
    release: str | None
    arch: str
    install_date_time_t: int | None

    @property
    def full_version(self) -> str:
        """`[epoch:]version[-release]`, without an epoch of 0."""
        return full_version(self.epoch, self.version, self.release)


def full_version(epoch: str | None, version: str, release: str | None) -> str:
    """`[epoch:]version[-release]`, without an epoch of 0."""
    shown = f"{version}-{release}" if release and release != _NONE else version
    return f"{epoch}:{shown}" if epoch and epoch not in ("0", _NONE) else shown


def root_folder(*given: Any) -> str:
    """The first of the given root folders, or an empty text for the machine itself. Raises SaltInvocationError."""
    root = next((str(each) for each in given if each not in (None, "", "/")), "")
    if root and not (os.path.isabs(root) and os.path.isdir(root)):
        raise SaltInvocationError(f"root is no folder of this minion with an absolute path: {root!r}")
    return os.path.realpath(root) if root else ""


def below(root: str, path: str) -> str:
    """The path `path` of the system whose root folder is `root`."""
    return os.path.join(root, path.lstrip("/")) if root else path


def run(arguments: Sequence[str], root: str = "") -> subprocess.CompletedProcess[str]:
    """Run rpm. Raises CommandNotFoundError."""
    return _packages.run(["rpm", *(["--root", root] if root else []), *arguments], {"TZ": "UTC"})


def native_architecture(grains: Mapping[str, Any]) -> str:
    """rpm's name of the architecture of this machine."""
    found = str(grains.get("osarch") or os.uname().machine)
    return _DEBIAN_NAMES.get(found, found)


def shown_name(name: str, arch: str, native: str) -> str:
    """`name`, or `name.arch` for what was not built for this machine."""
    if arch in (native, "noarch", _NONE, ""):
        return name
    if any({arch, native} <= kin for kin in (_X86_64, _X86_32, _ARM_32)):
        return name
    return f"{name}.{arch}"


def split_architecture(name: str) -> tuple[str, str | None]:
    """A package name without its architecture, and that, or None."""
    bare, dot, arch = name.rpartition(".")
    return (bare, arch) if dot and arch in ARCHITECTURES else (name, None)


def normalised(name: str, native: str) -> str:
    """The name without the architecture, where that goes without saying on this machine."""
    bare, arch = split_architecture(name)
    return bare if arch and shown_name(bare, arch, native) == bare else name


def query(tags: Sequence[str], names: Sequence[str] = (), root: str = "") -> Iterator[list[str]]:
    """The values of these tags for each installed package, or each that one of the names (or globs) means.

    Raises CommandExecutionError for a database that cannot be read.
    """
    form = UNIT.join(tag if "%" in tag else f"%{{{tag}}}" for tag in tags) + RECORD
    done = run(["-qa", "--nodigest", "--nosignature", "--queryformat", form, "--", *names], root)
    # rpm says 0 for a database that it cannot open, too.
    wrong = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    if done.returncode or wrong:
        raise CommandExecutionError(f"The rpm database cannot be read: {'; '.join(wrong) or done.stderr.strip()}")
    for record in done.stdout.split(RECORD)[:-1]:
        yield record.split(UNIT)


def installed(native: str, root: str = "") -> dict[str, list[Package]]:
    """All installed packages by the name that is shown, the versions of each from old to new."""
    found: dict[str, list[Package]] = {}
    tags = ("NAME", "EPOCH", "VERSION", "RELEASE", "ARCH", "INSTALLTIME")
    for name, epoch, version, release, arch, installed_at in query(tags, root=root):
        shown = shown_name(name, arch, native)
        moment = int(installed_at) if installed_at.isdecimal() and installed_at != "0" else None
        package = Package(shown, None if epoch == _NONE else epoch, version, release or None, arch, moment)
        found.setdefault(shown, []).append(package)
    for several in found.values():
        if len(several) > 1:
            several.sort(key=lambda package: version_key(package.full_version))
    return found


def checked_names(names: Iterable[Any]) -> list[str]:
    """Names or globs of packages as rpm can be asked for. Raises SaltInvocationError."""
    found = [str(name) for name in names]
    for name in found:
        if not NAMES.fullmatch(re.sub(r"[*?\[\]!]", "_", name)):
            raise SaltInvocationError(f"{name!r} is not the name of a package.")
    return found


def owners(path: Any, root: str = "") -> str:
    """The packages that a path belongs to, parted by commas; an empty text for none."""
    done = run(["-qf", "--queryformat", "%{NAME}\n", "--", _packages.path(path)], root)
    if done.returncode:
        return ""
    return ",".join(dict.fromkeys(done.stdout.splitlines()))


def files(names: Sequence[str] = (), root: str = "") -> dict[str, list[str]]:
    """The files of installed packages by package, which names or globs may limit."""
    found: dict[str, list[str]] = {}
    for name, *paths in query(["NAME", f"[%{{FILENAMES}}{UNIT}]"], names, root):
        found.setdefault(name, []).extend(path for path in paths if path)
    return found


def of_package_file(path: str, tags: Sequence[str]) -> list[str]:
    """The values of these tags of a package file. Raises CommandExecutionError when it is none."""
    form = UNIT.join(f"%{{{tag}}}" for tag in tags) + RECORD
    done = run(["-qp", "--nosignature", "--queryformat", form, "--", path])
    if done.returncode:
        raise CommandExecutionError(f"{path} is no rpm package: {done.stderr.strip()}")
    return done.stdout.removesuffix(RECORD).split(UNIT)


def parts_of_version(text: str) -> tuple[int, str, str]:
    """Epoch, version and release of `[epoch:]version[-release]`."""
    epoch, colon, rest = str(text).rpartition(":")
    version, _, release = rest.partition("-")
    return int(epoch) if colon and epoch.isdecimal() else 0, version, release


def compare(first: str, second: str) -> int:
    """-1, 0 or 1 when the first version is older, equal or newer.

    Where one of them has no release, releases do not count: 3.2 is equal to 3.2-1.
    """
    first_epoch, first_version, first_release = parts_of_version(first)
    second_epoch, second_version, second_release = parts_of_version(second)
    if first_epoch != second_epoch:
        return 1 if first_epoch > second_epoch else -1
    decided = compare_parts(first_version, second_version)
    if decided or not first_release or not second_release:
        return decided
    return compare_parts(first_release, second_release)


def compare_parts(first: str, second: str) -> int:
    """-1, 0 or 1 as rpm orders two versions, or two releases, without an epoch.

    Contract: RPM reference manual, "Version comparison": runs of digits and of letters are compared one after the
    other; digits are newer than letters; `~` is older than the end, `^` newer than the end and older than the rest.
    """
    left, right = _TOKEN.findall(first), _TOKEN.findall(second)
    for index in range(max(len(left), len(right)) + 1):
        one = left[index] if index < len(left) else ""
        other = right[index] if index < len(right) else ""
        if one == other:
            continue
        one_rank, other_rank = _rank(one), _rank(other)
        if one_rank != other_rank:
            return 1 if one_rank > other_rank else -1
        if one.isdigit() and int(one) == int(other):
            continue
        return 1 if (int(one) > int(other) if one.isdigit() else one > other) else -1
    return 0


def _rank(token: str) -> int:
    """What comes first: `~`, the end, `^`, letters, digits."""
    if token in ("~", "", "^"):
        return ("~", "", "^").index(token)
    return 4 if token.isdigit() else 3


version_key = functools.cmp_to_key(compare)
"""A key that sorts versions as rpm does."""
