"""The rpm database, package files and `.repo` files: what `yumpkg`, `zypperpkg` and `rpm_lowpkg` share.

The first part queries rpm in a root folder and compares names and versions, the second builds the reports of `pkg` and
`lowpkg`, and the third reads and edits repository files. Only the third changes the machine.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from saltlite.errors import CommandExecutionError, CommandNotFoundError, SaltInvocationError
from saltlite.plugins.modules import _packages

UNIT, RECORD = "\x1f", "\x1e"
"""Control characters that no field of a package contains; a description contains line breaks."""

NAMES = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+~^%{}-]*", re.ASCII)
VERSIONS = re.compile(r"(?:[<>]=?|=)?[A-Za-z0-9][A-Za-z0-9_.+~^:*-]*", re.ASCII)
NAME_RULES = _packages.NameRules(NAMES, VERSIONS)

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
"""Names that are an architecture after the last dot of a package name."""

_DEBIAN_NAMES = {"amd64": "x86_64", "arm64": "aarch64", "armhf": "armv7hl", "i386": "i686", "ppc64el": "ppc64le"}
"""The grain `osarch` on Debian, where dpkg gives it -> rpm's name."""

_TOKEN = re.compile(r"~|\^|[0-9]+|[A-Za-z]+")
_NONE = "(none)"


class Package(NamedTuple):
    """An installed package. `name` ends with the architecture if that differs from the architecture of this machine."""

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
    """The first of the given root folders, or an empty string for this machine. Raises SaltInvocationError."""
    root = next((str(each) for each in given if each not in (None, "", "/")), "")
    if root and not (os.path.isabs(root) and os.path.isdir(root)):
        raise SaltInvocationError(f"root is not the absolute path of a folder on this minion: {root!r}")
    return os.path.realpath(root) if root else ""


def below(root: str, path: str) -> str:
    """The path `path` in the system whose root folder is `root`."""
    return os.path.join(root, path.lstrip("/")) if root else path


def run(arguments: Sequence[str], root: str = "") -> subprocess.CompletedProcess[str]:
    """Run rpm. Raises CommandNotFoundError."""
    return _packages.run(["rpm", *(["--root", root] if root else []), *arguments], {"TZ": "UTC"})


def native_architecture(grains: Mapping[str, Any]) -> str:
    """rpm's name of the architecture of this machine."""
    found = str(grains.get("osarch") or os.uname().machine)
    return _DEBIAN_NAMES.get(found, found)


def shown_name(name: str, arch: str, native: str) -> str:
    """`name`, or `name.arch` if the package was built for another architecture."""
    if arch in (native, "noarch", _NONE, ""):
        return name
    if any({arch, native} <= kin for kin in (_X86_64, _X86_32, _ARM_32)):
        return name
    return f"{name}.{arch}"


def split_architecture(name: str) -> tuple[str, str | None]:
    """A package name without its architecture, and the architecture or None."""
    bare, dot, arch = name.rpartition(".")
    return (bare, arch) if dot and arch in ARCHITECTURES else (name, None)


def normalised(name: str, native: str) -> str:
    """The name without its architecture, if that is the architecture of this machine."""
    bare, arch = split_architecture(name)
    return bare if arch and shown_name(bare, arch, native) == bare else name


def query(tags: Sequence[str], names: Sequence[str] = (), root: str = "") -> Iterator[list[str]]:
    """The values of these tags for each installed package, or for those that match one of the names or globs.

    Raises CommandExecutionError if the database cannot be read.
    """
    form = UNIT.join(tag if "%" in tag else f"%{{{tag}}}" for tag in tags) + RECORD
    done = run(["-qa", "--nodigest", "--nosignature", "--queryformat", form, "--", *names], root)
    # rpm also returns 0 if it cannot open the database.
    wrong = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    if done.returncode or wrong:
        raise CommandExecutionError(f"The rpm database cannot be read: {'; '.join(wrong) or done.stderr.strip()}")
    for record in done.stdout.split(RECORD)[:-1]:
        yield record.split(UNIT)


def installed(native: str, root: str = "") -> dict[str, list[Package]]:
    """All installed packages by shown name, each with its versions from old to new."""
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
    """Valid names or globs of packages. Raises SaltInvocationError."""
    found = [str(name) for name in names]
    for name in found:
        if not NAMES.fullmatch(re.sub(r"[*?\[\]!]", "_", name)):
            raise SaltInvocationError(f"{name!r} is not the name of a package.")
    return found


def owners(path: Any, root: str = "") -> str:
    """The packages that a path belongs to, separated by commas; an empty string for none."""
    done = run(["-qf", "--queryformat", "%{NAME}\n", "--", _packages.path(path)], root)
    if done.returncode:
        return ""
    return ",".join(dict.fromkeys(done.stdout.splitlines()))


def files(names: Sequence[str] = (), root: str = "") -> dict[str, list[str]]:
    """The files of installed packages, or of those that match the names or globs, by package."""
    found: dict[str, list[str]] = {}
    for name, *paths in query(["NAME", f"[%{{FILENAMES}}{UNIT}]"], names, root):
        found.setdefault(name, []).extend(path for path in paths if path)
    return found


def of_package_file(path: str, tags: Sequence[str]) -> list[str]:
    """The values of these tags of a package file. Raises CommandExecutionError if it is not a package."""
    form = UNIT.join(f"%{{{tag}}}" for tag in tags) + RECORD
    done = run(["-qp", "--nosignature", "--queryformat", form, "--", path])
    if done.returncode:
        raise CommandExecutionError(f"{path} is not an rpm package: {done.stderr.strip()}")
    return done.stdout.removesuffix(RECORD).split(UNIT)


def parts_of_version(text: str) -> tuple[int, str, str]:
    """Epoch, version and release of `[epoch:]version[-release]`."""
    epoch, colon, rest = str(text).rpartition(":")
    version, _, release = rest.partition("-")
    return int(epoch) if colon and epoch.isdecimal() else 0, version, release


def compare(first: str, second: str) -> int:
    """-1, 0 or 1 if the first version is older, equal or newer.

    Releases count only if both have one: 3.2 is equal to 3.2-1.
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

    Contract: RPM reference manual, "Version comparison": runs of digits and of letters are compared in turn; digits are
    newer than letters; `~` is older than the end, `^` is newer than the end and older than anything else.
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
    """The order of token kinds: `~`, the end, `^`, letters, digits."""
    if token in ("~", "", "^"):
        return ("~", "", "^").index(token)
    return 4 if token.isdigit() else 3


version_key = functools.cmp_to_key(compare)
"""A key that sorts versions as rpm does."""


# --- reports of `pkg` and `lowpkg`


_TAGS = {
    "version": "VERSION",
    "vendor": "VENDOR",
    "release": "RELEASE",
    "epoch": "EPOCH",
    "build_date_time_t": "BUILDTIME",
    "install_date_time_t": "INSTALLTIME",
    "build_host": "BUILDHOST",
    "group": "GROUP",
    "source_rpm": "SOURCERPM",
    "size": "LONGSIZE",
    "arch": "ARCH",
    "license": "LICENSE",
    "packager": "PACKAGER",
    "url": "URL",
    "summary": "SUMMARY",
    "description": "DESCRIPTION",
    "relocations": "%|PREFIXES?{[%{PREFIXES} ]}:{(not relocatable)}|",
    "signature": "%|DSAHEADER?{%{DSAHEADER:pgpsig}}:{%|RSAHEADER?{%{RSAHEADER:pgpsig}}:{(none)}|}|",
}
"""Name of an attribute in the result -> tag of rpm, or a query format."""

_MISMATCHES = {
    "S": "size", "M": "mode", "5": "md5sum", "D": "device major/minor number", "L": "readlink path", "U": "user",
    "G": "group", "T": "mtime", "P": "capabilities",
}  # fmt: skip
_CHANGES = {
    "S": "size", "M": "mode", "5": "checksum", "D": "device", "L": "symlink", "U": "owner", "G": "group",
    "T": "time", "P": "capabilities",
}  # fmt: skip
_FILE_TYPES = {"c": "config", "d": "doc", "g": "ghost", "l": "license", "r": "readme"}
_VERIFIED = r"^(?P<flags>missing|[.?A-Z0-9]{8,9}) +(?:(?P<type>[acdglmnr]) +)?(?P<path>/.*?)(?: \(.*\))?$"
_OPTION = r"no[a-z]+"

_CPIO_HEADER = 110
"""Bytes before the name of a file in an archive of the "new ASCII" form. Contract: cpio(5)."""


def info(names: Sequence[Any], *, root: str = "", attr: Any = None, all_versions: bool = False) -> dict[str, Any]:
    """`{name: attributes}` of installed packages, of the newest version, or a list of all versions with `all_versions`.

    GPG keys are skipped. Raises CommandExecutionError if `attr` contains no known attribute.
    """
    asked = attr.split(",") if isinstance(attr, str) else attr
    wanted = None if asked is None else {str(key).strip() for key in asked}
    if wanted is not None and not wanted & _ATTRIBUTES:
        raise CommandExecutionError(f"None of {', '.join(sorted(wanted))} is an attribute of packages.")
    found: dict[str, list[dict[str, Any]]] = {}
    for name, *values in query(["NAME", *_TAGS.values()], checked_names(names), root):
        if name != "gpg-pubkey":
            found.setdefault(name, []).append(_attributes(dict(zip(_TAGS, values, strict=True))))
    report: dict[str, Any] = {}
    for name, rows in found.items():
        rows.sort(key=lambda row: version_key(row["edition"]), reverse=True)
        shown = [{key: value for key, value in row.items() if wanted is None or key in wanted} for row in rows]
        if wanted is None and not all_versions:
            del shown[0]["edition"]
        report[name] = shown if all_versions else shown[0]
    return report


_ATTRIBUTES = {*_TAGS, "edition", "name", "build_date", "install_date"}


def _attributes(row: dict[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {key: text for key, text in row.items() if text and text != "(none)"}
    found["signature"] = row["signature"] or "(none)"
    found["edition"] = full_version(row["epoch"], row["version"], row["release"])
    for key in ("build_date", "install_date"):
        seconds = found.pop(f"{key}_time_t", "")
        if seconds.isdecimal():
            found[f"{key}_time_t"] = int(seconds)
            found[key] = timestamp(int(seconds))
    return found


def timestamp(seconds: int) -> str:
    """The time in UTC, as in 2026-01-31T12:00:00Z."""
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")


def list_pkgs(packages: Mapping[str, Sequence[Package]], versions_as_list: bool, attr: Any) -> dict[str, Any]:
    """The result of `pkg.list_pkgs`: strings, lists of versions, or with `attr` lists of dicts of attributes."""
    if attr is None:
        lists = {name: [each.full_version for each in several] for name, several in packages.items()}
        return _packages.listed(lists, versions_as_list)
    asked = [key.strip() for key in attr.split(",")] if isinstance(attr, str) else [str(key) for key in attr]
    found: dict[str, Any] = {}
    for name, several in packages.items():
        rows = [each._asdict() for each in several]
        for row in rows:
            del row["name"]
            at = row["install_date_time_t"]
            row["install_date"] = None if at is None else timestamp(at)
        found[name] = [row if asked == ["all"] else {key: row[key] for key in asked if key in row} for row in rows]
    return found


def _verified(names: Sequence[Any], root: str, options: Sequence[str]) -> list[re.Match[str]]:
    for option in options:
        if not re.fullmatch(_OPTION, option):
            raise SaltInvocationError(f"{option!r} does not skip a check: use nodeps, nofiles, nodigest and the like.")
    asked = checked_names(names)
    done = run(["-V", *(f"--{option}" for option in options), *([] if asked else ["-a"]), "--", *asked], root)
    lost = re.findall(r"^package (.*) is not installed$", done.stdout, re.MULTILINE)
    if lost:
        raise CommandExecutionError(f"Not installed: {', '.join(lost)}")
    if done.returncode and not done.stdout.strip():
        raise CommandExecutionError(f"The packages cannot be verified: {done.stderr.strip()}")
    return list(re.finditer(_VERIFIED, done.stdout, re.MULTILINE))


def _texts(given: Any) -> list[str]:
    if not isinstance(given, str | list | tuple | None):
        raise SaltInvocationError(f"{given!r} is neither a list nor a comma-separated string.")
    return _packages.words(given)


def downloaded(folders: Sequence[str], native: str) -> dict[str, Any]:
    """The package files below some folders, as the result of `pkg.list_downloaded`; invalid files are skipped."""
    found: dict[str, Any] = {}
    for folder in folders:
        for place, _, names in os.walk(folder):
            for path in sorted(os.path.join(place, name) for name in names if name.endswith(".rpm")):
                try:
                    values = of_package_file(path, ("NAME", "EPOCH", "VERSION", "RELEASE", "ARCH"))
                    state = os.stat(path)
                except (CommandExecutionError, FileNotFoundError):
                    continue  # half a download, or it was removed meanwhile
                name, epoch, version, release, arch = values
                row = {"path": path, "size": state.st_size, "creation_date_time_t": int(state.st_ctime)}
                row["creation_date_time"] = timestamp(int(state.st_ctime))
                shown = full_version(epoch, version, release)
                found.setdefault(shown_name(name, arch, native), {})[shown] = row
    return found


def is_whole(package_file: str, root: str = "") -> bool:
    """Whether the digests and signatures of a package file are valid."""
    return os.path.isfile(package_file) and not run(["-K", "--quiet", "--", package_file], root).returncode


def difference(package_file: str, path: str, root: str = "") -> str:
    """How a file of this machine differs from the one in the package file; an empty string if they are equal.

    Raises CommandExecutionError if the package does not contain the file, or the file cannot be read.
    """
    import difflib

    packed = _unpacked(_packages.path(package_file), _packages.path(path))
    try:
        with open(below(root, path), "rb") as stream:
            present = stream.read()
    except OSError as error:
        raise CommandExecutionError(f"{path} cannot be read: {error.strerror}") from error
    if packed == present:
        return ""
    try:
        old, new = packed.decode().splitlines(), present.decode().splitlines()
    except UnicodeDecodeError:
        return f"File '{path}' is binary and its content has been modified."
    return "\n".join(difflib.unified_diff(old, new, f"A {path}", f"B {path}", lineterm=""))


def differences(paths: Sequence[str], root: str, download: Callable[[str], str]) -> dict[str, str]:
    """The result of `pkg.diff`; `download` fetches a package and returns the path of its file."""
    found = {}
    for path in paths:
        package = owners(path, root).partition(",")[0]
        if package:
            found[path] = difference(download(package), path, root) or "Unchanged"
        else:
            found[path] = "Not managed" if os.path.exists(below(root, path)) else "N/A"
    return found


def _unpacked(package_file: str, path: str) -> bytes:
    """The content of one file of a package file."""
    try:
        done = subprocess.run(["rpm2cpio", package_file], stdin=subprocess.DEVNULL, capture_output=True, check=False)
    except FileNotFoundError as error:
        raise CommandNotFoundError("rpm2cpio (there is no such program on this minion)") from error
    except (OSError, ValueError) as error:
        raise _packages.cannot_be_started("rpm2cpio", error) from error
    archive, at = done.stdout, 0
    while archive[at : at + 5] == b"07070":
        fields = [int(archive[at + 6 + 8 * index : at + 14 + 8 * index], 16) for index in range(13)]
        size, name_size = fields[6], fields[11]
        name = archive[at + _CPIO_HEADER : at + _CPIO_HEADER + name_size - 1]
        begin = _padded(at + _CPIO_HEADER + name_size)
        if os.fsdecode(name).lstrip("./") == path.lstrip("/"):
            return archive[begin : begin + size]
        at = _padded(begin + size)
    reason = done.stderr.decode(errors="replace").strip() if done.returncode else "it is not in that package"
    raise CommandExecutionError(f"{path} cannot be taken from {package_file}: {reason}")


def _padded(offset: int) -> int:
    return (offset + 3) & ~3


# --- functions of `pkg` that yumpkg and zypperpkg offer unchanged


def version_cmp(pkg1: str, pkg2: str, ignore_epoch: bool = False) -> int:
    """Compare two versions as rpm does: -1, 0 or 1 when the first is older, equal or newer.

    CLI Example: ``saltlite '*' pkg.version_cmp '0.2-001' '0.2.0.1-002'``
    """
    return _packages.compare(compare, pkg1, pkg2, ignore_epoch)


def parse_arch(name: str) -> dict[str, str | None]:
    """The name and the architecture in a package name: ``{"name": name, "arch": arch or None}``.

    CLI Example: ``saltlite '*' pkg.parse_arch zsh.x86_64``
    """
    return dict(zip(("name", "arch"), split_architecture(str(name)), strict=True))


def info_installed(
    *names: str,
    attr: str | list[str] | None = None,
    all_versions: bool = False,
    failhard: bool = True,
    root: str | None = None,
) -> dict[str, Any]:
    """Information about the named packages, or about all installed ones.

    ``attr`` limits the answer to some of version, vendor, release, epoch, build_date, install_date, build_host, group,
    source_rpm, size, arch, license, signature, packager, url, summary and description. With ``all_versions`` each
    package has a list, newest first. ``failhard=False`` skips packages that are not installed instead of raising an
    error.

    CLI Example::

        saltlite '*' pkg.info_installed bash
        saltlite '*' pkg.info_installed bash kernel all_versions=True
    """
    found = info(names, root=root_folder(root), attr=attr, all_versions=all_versions)
    missing = [name for name in names if not _packages.select(found, [name])]
    if missing and failhard:
        raise CommandExecutionError(f"Not installed: {', '.join(missing)}")
    for rows in found.values():
        for row in rows if isinstance(rows, list) else [rows]:
            if "source_rpm" in row:
                row["source"] = row.pop("source_rpm")
    return found


def owner(*paths: str, root: str | None = None) -> str | dict[str, str]:
    """The package that a file belongs to, or a dict for several files; an empty string for none.

    CLI Example::

        saltlite '*' pkg.owner /usr/bin/rpm
        saltlite '*' pkg.owner /usr/bin/rpm /usr/bin/basename
    """
    folder = root_folder(root)
    found = {str(path): owners(path, folder) for path in paths}
    return found if len(paths) > 1 else next(iter(found.values()), "")


def file_list(*packages: str, root: str | None = None) -> dict[str, Any]:
    """The files of the named packages, or of all, in one list: ``{"errors": [], "files": []}``.

    CLI Example: ``saltlite '*' pkg.file_list hostname``
    """
    return _packages.file_list(file_dict(*packages, root=root))


def file_dict(*packages: str, root: str | None = None) -> dict[str, Any]:
    """The files of the named packages, or of all, by package: ``{"errors": [], "packages": {name: []}}``.

    CLI Example: ``saltlite '*' pkg.file_dict hostname``
    """
    found = files(checked_names(packages), root_folder(root))
    lost = [f"Package {name} is not installed." for name in packages if not _packages.select(found, [name])]
    return {"errors": lost, "packages": found}


def verify(
    *names: str,
    ignore_types: str | list[str] | None = None,
    verify_options: str | list[str] | None = None,
    root: str | None = None,
) -> dict[str, Any]:
    """The files that differ from their packages: ``{path: {"mismatch": [what], "type": kind}}`` or ``{path: {"missing":
    True}}``.

    ``ignore_types`` skips some of config, doc, ghost, license and readme; ``verify_options`` skips checks, as in
    ``nodeps,nofiles``.

    CLI Example::

        saltlite '*' pkg.verify
        saltlite '*' pkg.verify httpd ignore_types='[config, doc]'
    """
    ignored = _texts(ignore_types)
    found: dict[str, dict[str, Any]] = {}
    for match in _verified(names, root_folder(root), _texts(verify_options)):
        row: dict[str, Any] = {"missing": True} if match["flags"] == "missing" else {}
        if not row:
            row["mismatch"] = [_MISMATCHES[flag] for flag in match["flags"] if flag in _MISMATCHES]
        if match["type"] in _FILE_TYPES:
            row["type"] = _FILE_TYPES[match["type"]]
        if row.get("type") not in ignored:
            found[match["path"]] = row
    return found


def modified(*packages: str, root: str | None = None, **flags: Any) -> dict[str, list[str]]:
    """The changed files of the named packages, or of all: ``{path: [what changed]}``.

    Keyword arguments select files by a change that they must have (True) or must not have (False): size, mode,
    checksum, device, symlink, owner, group, time, capabilities, missing, config.

    CLI Example::

        saltlite '*' pkg.modified httpd
        saltlite '*' pkg.modified httpd checksum=True config=False
    """
    taken = _packages.take(flags, *_CHANGES.values(), "missing", "config")
    wanted = {change: bool(must) for change, must in taken.items() if must is not None}
    found: dict[str, list[str]] = {}
    for match in _verified(packages, root_folder(root), ()):
        state = match["flags"]
        changes = ["missing"] if state == "missing" else [_CHANGES[flag] for flag in state if flag in _CHANGES]
        if match["type"] == "c":
            changes.append("config")
        if all((change in changes) == must for change, must in wanted.items()):
            found[match["path"]] = changes
    return found


# --- repository files (NAME.repo): comments, order and unknown lines are preserved


_REPOSITORY_ID = r"[A-Za-z0-9_][A-Za-z0-9_.:+@()-]*"
_SETTING_NAME = r"[a-z_][a-z0-9_.-]*"
_SECTION = r"^\[(.+)\]\s*$"
_SETTING = r"^([^=:\s\[#;][^=:]*?)\s*[=:]\s*(.*)$"


def checked_repository(repo: Any) -> str:
    """The id of a repository, which also names its file. Raises SaltInvocationError if it is invalid."""
    if not re.fullmatch(_REPOSITORY_ID, str(repo), re.ASCII):
        raise SaltInvocationError(f"{repo!r} is not the id of a repository.")
    return str(repo)


def read_repositories(folders: Sequence[str]) -> dict[str, dict[str, Any]]:
    """All repositories in the folders: `{id: {"file": path, key: value}}`, with `comments` if there are any."""
    found: dict[str, dict[str, Any]] = {}
    for folder in folders:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            for name in sorted(os.listdir(folder)):
                if name.endswith(".repo"):
                    path = os.path.join(folder, name)
                    found |= {repo: {**values, "file": path} for repo, values in stanzas(path).items()}
    return found


def stanzas(path: str) -> dict[str, dict[str, Any]]:
    """The repositories of one file: `{id: {key: value}}`. Lines of a value are joined by line breaks.

    Raises CommandExecutionError if it cannot be read.
    """
    return stanzas_of(_repository_text(path))


def stanzas_of(text: str) -> dict[str, dict[str, Any]]:
    """The repositories in the text of a file, as `stanzas`."""
    found: dict[str, dict[str, Any]] = {}
    for repo, lines in _sections(text):
        if repo is None:
            continue
        values = found.setdefault(repo, {})
        key = ""
        for line in lines[1:]:
            setting = re.match(_SETTING, line)
            if line.startswith(("#", ";")):
                values.setdefault("comments", []).append(line[1:].strip())
            elif setting:
                key = setting[1].strip().lower()
                values[key] = setting[2].strip()
            elif line[:1].isspace() and line.strip() and key:
                values[key] = f"{values[key]}\n{line.strip()}".strip()
    return found


def changed_repository(path: str, repo: str, values: Mapping[str, Any]) -> str:
    """The text of the file after these values of a repository were set; values of None are removed.

    The file and the repository may be new. Raises SaltInvocationError for invalid keys or values, and
    CommandExecutionError if the file cannot be read.
    """
    lines = {key: _setting_lines(key, value) for key, value in values.items()}
    text = _repository_text(path) if os.path.exists(path) else ""
    sections = _sections(text)
    if repo not in [name for name, _ in sections]:
        if text.strip():
            sections[-1][1].append("")
        sections.append((repo, [f"[{repo}]"]))
    out: list[str] = []
    for name, body in sections:
        out += _changed_lines(body, lines) if name == repo else body
    return "\n".join(out).strip("\n") + "\n"


def delete_repository(folders: Sequence[str], repo: str, *, test: bool) -> tuple[str, bool]:
    """Remove a repository from its file: the path, and whether the file had no other and was removed.

    With `test` nothing changes. Raises CommandExecutionError if there is no such repository.
    """
    known = read_repositories(folders)
    if repo not in known:
        raise CommandExecutionError(f"There is no repository {repo!r} in {', '.join(folders)}.")
    path = str(known[repo]["file"])
    sections = _sections(_repository_text(path))
    emptied = {name for name, _ in sections} <= {None, repo}
    if not test:
        kept = [line for name, body in sections if name != repo for line in body]
        save_repositories(path, "" if emptied else "\n".join(kept).strip("\n") + "\n")
    return path, emptied


def save_repositories(path: str, text: str) -> None:
    """Write the file atomically; mode and owner are kept. An empty string removes the file."""
    if text:
        from saltlite.plugins.modules._safe_files import write_whole

        write_whole(path, text.encode("utf-8", "surrogateescape"), new_mode=0o644)
    else:
        os.unlink(path)


def _sections(text: str) -> list[tuple[str | None, list[str]]]:
    """The lines of a file by repository, with None for those before the first."""
    found: list[tuple[str | None, list[str]]] = [(None, [])]
    for line in text.splitlines():
        heading = re.match(_SECTION, line)
        if heading:
            found.append((heading[1].strip(), []))
        found[-1][1].append(line)
    return found


def _changed_lines(body: Sequence[str], lines: Mapping[str, list[str]]) -> Iterator[str]:
    """The lines of one repository with replaced values; new ones follow the last value."""
    left = dict(lines)
    kept: list[str] = []
    dropping = False
    for line in body:
        setting = re.match(_SETTING, line)
        if setting:
            key = setting[1].strip().lower()
            dropping = key in lines
            if dropping:
                kept += left.pop(key, [])
                continue
        elif dropping and line[:1].isspace() and line.strip():
            continue  # continues a replaced value
        else:
            dropping = False
        kept.append(line)
    end = len(kept)
    while end > 1 and not kept[end - 1].strip():
        end -= 1
    yield from kept[:end]
    for added in left.values():
        yield from added
    yield from kept[end:]


def _setting_lines(key: str, value: Any) -> list[str]:
    """The lines of one setting; none for None."""
    if not re.fullmatch(_SETTING_NAME, key, re.ASCII):
        raise SaltInvocationError(f"{key!r} is not the name of a setting of a repository.")
    if value is None:
        return []
    if isinstance(value, bool):
        value = "1" if value else "0"
    parts = [str(each) for each in value] if isinstance(value, list | tuple) else str(value).split("\n")
    if any(ord(character) < 32 and character != "\t" for part in parts for character in part):
        raise SaltInvocationError(f"{key} holds control characters.")
    first, *more = parts or [""]
    # Further lines are indented, so that they belong to the value and cannot begin another repository.
    return [f"{key}={first}", *(f"    {part.strip()}" for part in more if part.strip())]


def _repository_text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as stream:
            return stream.read()
    except OSError as error:
        raise CommandExecutionError(f"{path} cannot be read: {error.strerror}") from error
