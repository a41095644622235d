"""`salt.utils.pkg.rpm`: names, versions and architectures of RPM packages."""

from __future__ import annotations

import datetime
import platform
import subprocess
from importlib import import_module
from typing import Any, NamedTuple

from saltlite.salt.utils.path import which

ARCHES_X86_64 = ("x86_64", "x86_64_v2")
ARCHES_64 = (*ARCHES_X86_64, "athlon", "amd64", "ia32e", "ia64", "geode")
ARCHES_32 = ("i386", "i486", "i586", "i686")
ARCHES_PPC = ("ppc", "ppc64", "ppc64le", "ppc64iseries", "ppc64pseries")
ARCHES_S390 = ("s390", "s390x")
ARCHES_SPARC = ("sparc", "sparcv8", "sparcv9", "sparcv9v", "sparc64", "sparc64v")
ARCHES_ALPHA = (
    "alpha", "alphaev4", "alphaev45", "alphaev5", "alphaev56", "alphapca56", "alphaev6", "alphaev67", "alphaev68",
    "alphaev7",
)  # fmt: skip
ARCHES_ARM_32 = ("armv5tel", "armv5tejl", "armv6l", "armv6hl", "armv7l", "armv7hl", "armv7hnl")
ARCHES_ARM_64 = ("aarch64",)
ARCHES_SH = ("sh3", "sh4", "sh4a")
ARCHES = (
    *ARCHES_64, *ARCHES_32, *ARCHES_PPC, *ARCHES_S390, *ARCHES_ALPHA, *ARCHES_ARM_32, *ARCHES_ARM_64, *ARCHES_SH,
)  # fmt: skip

QUERYFORMAT = "%{NAME}_|-%{EPOCH}_|-%{VERSION}_|-%{RELEASE}_|-%{ARCH}_|-%{REPOID}_|-%{INSTALLTIME}"
_COLUMNS = 7
_NONE = ("(none)", "0")


class PkgInfo(NamedTuple):
    """One installed package; dates are ISO text and seconds since 1970."""

    name: str
    version: str
    arch: str
    repoid: str
    install_date: str | None = None
    install_date_time_t: int | None = None


pkginfo = PkgInfo


def get_osarch() -> str:
    """The architecture of this machine, as RPM calls it."""
    if which("rpm"):
        done = subprocess.run(["rpm", "--eval", "%{_host_cpu}"], capture_output=True, text=True, check=False)
        return done.stdout.strip() or "unknown"
    return platform.machine() or "unknown"


def check_32(arch: str, osarch: str | None = None) -> bool:
    """Whether package and machine are both of 32 bits, and of one family."""
    both = {arch, get_osarch() if osarch is None else osarch}
    return both <= set(ARCHES_32) or both <= set(ARCHES_ARM_32)


def resolve_name(name: str, arch: str, osarch: str | None = None) -> str:
    """The name of a package, with its architecture if that is not the machine's."""
    own = get_osarch() if osarch is None else osarch
    both_x86 = arch in ARCHES_X86_64 and own in ARCHES_X86_64
    return name if arch in (own, "noarch") or both_x86 or check_32(arch, own) else f"{name}.{arch}"


def parse_pkginfo(line: str, osarch: str | None = None) -> PkgInfo | None:
    """The package of a line of QUERYFORMAT, or None."""
    columns = line.split("_|-")
    if len(columns) != _COLUMNS:
        return None
    name, epoch, version, release, arch, repoid, installed = columns
    full = (f"{epoch}:" if epoch not in _NONE else "") + version + (f"-{release}" if release else "")
    seconds = None if installed in _NONE else int(installed)
    date = None if seconds is None else f"{datetime.datetime.fromtimestamp(seconds, datetime.UTC).isoformat()}Z"
    return PkgInfo(resolve_name(name, arch, osarch), full, arch, repoid, date, seconds)


def combine_comments(comments: Any) -> str:
    """One or several texts as lines of comment."""
    texts = comments if isinstance(comments, list) else [comments]
    return "".join(f"# {str(text).lstrip('#').lstrip()}\n" for text in texts)


def evr_compare(evr1: tuple[Any, Any, Any], evr2: tuple[Any, Any, Any]) -> int:
    """-1, 0 or 1 for two of (epoch, version, release)."""
    epochs = int(evr1[0] or 0), int(evr2[0] or 0)
    if epochs[0] != epochs[1]:
        return 1 if epochs[0] > epochs[1] else -1
    compare: Any = import_module("saltlite.plugins.modules._rpm").compare_parts
    found: int = compare(evr1[1] or "", evr2[1] or "") or compare(evr1[2] or "", evr2[2] or "")
    return found


def version_to_evr(verstring: str | None) -> tuple[str, str, str]:
    """(epoch, version, release) of `1:2.3-4`; "0" for no epoch."""
    if not verstring:
        return "0", "", ""
    epoch, colon, rest = verstring.partition(":") if ":" in verstring else ("0", "", verstring)
    version, _, release = rest.partition("-")
    try:
        number = str(int(epoch))
    except ValueError:
        number = "0"
    return number if colon else "0", version, release
