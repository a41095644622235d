"""Reports on installed packages: what is known of them, and which of their files were changed.

What belongs here: the parts of `pkg` and `lowpkg` that read more of the rpm database than names and versions.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from saltlite.errors import CommandExecutionError, CommandNotFoundError, SaltInvocationError
from saltlite.plugins.modules import _packages, _rpm

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
"""Name of an attribute in the result -> rpm's tag, or a form of its own."""

_MISMATCHES = {
    "S": "size",
    "M": "mode",
    "5": "md5sum",
    "D": "device major/minor number",
    "L": "readlink path",
    "U": "user",
    "G": "group",
    "T": "mtime",
    "P": "capabilities",
}
_CHANGES = {
    "S": "size",
    "M": "mode",
    "5": "checksum",
    "D": "device",
    "L": "symlink",
    "U": "owner",
    "G": "group",
    "T": "time",
    "P": "capabilities",
}
_FILE_TYPES = {"c": "config", "d": "doc", "g": "ghost", "l": "license", "r": "readme"}
_VERIFIED = re.compile(
    r"^(?P<flags>missing|[.?A-Z0-9]{8,9}) +(?:(?P<type>[acdglmnr]) +)?(?P<path>/.*?)(?: \(.*\))?$", re.MULTILINE
)
_OPTION = re.compile(r"no[a-z]+")

_CPIO_HEADER = 110
"""Bytes before the name of a file in an archive of the "new ASCII" form. Contract: cpio(5)."""


def info(names: Sequence[Any], *, root: str = "", attr: Any = None, all_versions: bool = False) -> dict[str, Any]:
    """`{name: attributes}` of installed packages, or lists of them with `all_versions`, the newest first.

    Without `all_versions` of the newest version. Keys of gpg are no packages here. Raises CommandExecutionError when
    `attr` names no attribute.
    """
    asked = attr.split(",") if isinstance(attr, str) else attr
    wanted = None if asked is None else {str(key).strip() for key in asked}
    if wanted is not None and not wanted & _ATTRIBUTES:
        raise CommandExecutionError(f"None of {', '.join(sorted(wanted))} is an attribute of packages.")
    found: dict[str, list[dict[str, Any]]] = {}
    for name, *values in _rpm.query(["NAME", *_TAGS.values()], _rpm.checked_names(names), root):
        if name != "gpg-pubkey":
            found.setdefault(name, []).append(_attributes(dict(zip(_TAGS, values, strict=True))))
    report: dict[str, Any] = {}
    for name, rows in found.items():
        rows.sort(key=lambda row: _rpm.version_key(row["edition"]), reverse=True)
        shown = [{key: value for key, value in row.items() if wanted is None or key in wanted} for row in rows]
        if wanted is None and not all_versions:
            del shown[0]["edition"]
        report[name] = shown if all_versions else shown[0]
    return report


def info_installed(names: Sequence[Any], *, failhard: bool, **choice: Any) -> dict[str, Any]:
    """As `info`, under the names that `pkg.info_installed` has; raises CommandExecutionError for what is missing."""
    found = info(names, **choice)
    missing = [str(name) for name in names if not _packages.select(found, [name])]
    if missing and failhard:
        raise CommandExecutionError(f"Not installed: {', '.join(missing)}")
    for rows in found.values():
        for row in rows if isinstance(rows, list) else [rows]:
            if "source_rpm" in row:
                row["source"] = row.pop("source_rpm")
    return found


_ATTRIBUTES = {*_TAGS, "edition", "name", "build_date", "install_date"}


def _attributes(row: dict[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {key: text for key, text in row.items() if text and text != "(none)"}
    found["signature"] = row["signature"] or "(none)"
    found["edition"] = _rpm.full_version(row["epoch"], row["version"], row["release"])
    for key in ("build_date", "install_date"):
        seconds = found.pop(f"{key}_time_t", "")
        if seconds.isdecimal():
            found[f"{key}_time_t"] = int(seconds)
            found[key] = timestamp(int(seconds))
    return found


def timestamp(seconds: int) -> str:
    """The time of day in UTC, as in 2026-01-31T12:00:00Z."""
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")


def list_pkgs(packages: Mapping[str, Sequence[_rpm.Package]], versions_as_list: bool, attr: Any) -> dict[str, Any]:
    """What `pkg.list_pkgs` gives: texts, lists of versions, or with `attr` lists of dicts of attributes."""
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


def verify(
    names: Sequence[Any], *, root: str = "", ignore_types: Any = (), verify_options: Any = ()
) -> dict[str, dict[str, Any]]:
    """`{path: {"mismatch": [what], "type": kind}}`, or `{path: {"missing": True}}`, of files that are not as packed.

    Raises CommandExecutionError for a package that is not installed, SaltInvocationError for an option that rpm could
    take for something else than leaving out a check.
    """
    ignored = _texts(ignore_types)
    found: dict[str, dict[str, Any]] = {}
    for match in _verified(names, root, _texts(verify_options)):
        row: dict[str, Any] = {"missing": True} if match["flags"] == "missing" else {}
        if not row:
            row["mismatch"] = [_MISMATCHES[flag] for flag in match["flags"] if flag in _MISMATCHES]
        if match["type"] in _FILE_TYPES:
            row["type"] = _FILE_TYPES[match["type"]]
        if row.get("type") not in ignored:
            found[match["path"]] = row
    return found


def modified(names: Sequence[Any], *, root: str = "", **wanted: bool) -> dict[str, list[str]]:
    """`{path: [what changed]}` of the files of packages that were changed; `wanted` says which changes it must have
    (True) or not have (False). A file that is missing has the change `missing`."""
    found: dict[str, list[str]] = {}
    for match in _verified(names, root, ()):
        flags = match["flags"]
        changes = ["missing"] if flags == "missing" else [_CHANGES[flag] for flag in flags if flag in _CHANGES]
        if match["type"] == "c":
            changes.append("config")
        if all((change in changes) == bool(must) for change, must in wanted.items()):
            found[match["path"]] = changes
    return found


def changes_asked(flags: Mapping[str, Any]) -> dict[str, bool]:
    """The keyword arguments of `modified` that name changes. Raises SaltInvocationError for others."""
    taken = _packages.take(flags, *_CHANGES.values(), "missing", "config")
    return {change: bool(must) for change, must in taken.items() if must is not None}


def _verified(names: Sequence[Any], root: str, options: Sequence[str]) -> list[re.Match[str]]:
    for option in options:
        if not _OPTION.fullmatch(option):
            raise SaltInvocationError(f"{option!r} does not leave out a check: nodeps, nofiles, nodigest and such do.")
    asked = _rpm.checked_names(names)
    done = _rpm.run(["-V", *(f"--{option}" for option in options), *([] if asked else ["-a"]), "--", *asked], root)
    lost = re.findall(r"^package (.*) is not installed$", done.stdout, re.MULTILINE)
    if lost:
        raise CommandExecutionError(f"Not installed: {', '.join(lost)}")
    if done.returncode and not done.stdout.strip():
        raise CommandExecutionError(f"The packages cannot be verified: {done.stderr.strip()}")
    return list(_VERIFIED.finditer(done.stdout))


def _texts(given: Any) -> list[str]:
    found = given.split(",") if isinstance(given, str) else given or []
    if not isinstance(found, list | tuple):
        raise SaltInvocationError(f"{given!r} is neither a list nor a text with commas.")
    return [str(each).strip() for each in found if str(each).strip()]


def file_list(names: Sequence[Any], root: str = "") -> dict[str, list[str]]:
    """What `pkg.file_list` gives."""
    found = file_dict(names, root)
    return {
        "errors": found["errors"],
        "files": sorted({each for paths in found["packages"].values() for each in paths}),
    }


def file_dict(names: Sequence[Any], root: str = "") -> dict[str, Any]:
    """What `pkg.file_dict` gives."""
    found = _rpm.files(_rpm.checked_names(names), root)
    lost = [f"Package {name} is not installed." for name in names if not _packages.select(found, [name])]
    return {"errors": lost, "packages": found}


def owner(paths: Sequence[Any], root: str = "") -> str | dict[str, str]:
    """What `pkg.owner` gives: a name for one path, a dict for several."""
    found = {str(path): _rpm.owners(path, root) for path in paths}
    return found if len(paths) > 1 else next(iter(found.values()), "")


def downloaded(folders: Sequence[str], native: str) -> dict[str, Any]:
    """The package files below some folders, as `pkg.list_downloaded` gives them, without what is no package."""
    found: dict[str, Any] = {}
    for folder in folders:
        for place, _, names in os.walk(folder):
            for path in sorted(os.path.join(place, name) for name in names if name.endswith(".rpm")):
                try:
                    values = _rpm.of_package_file(path, ("NAME", "EPOCH", "VERSION", "RELEASE", "ARCH"))
                    state = os.stat(path)
                except (CommandExecutionError, FileNotFoundError):
                    continue  # half a download, or it was removed meanwhile
                name, epoch, version, release, arch = values
                row = {"path": path, "size": state.st_size, "creation_date_time_t": int(state.st_ctime)}
                row["creation_date_time"] = timestamp(int(state.st_ctime))
                shown = _rpm.full_version(epoch, version, release)
                found.setdefault(_rpm.shown_name(name, arch, native), {})[shown] = row
    return found


def is_whole(package_file: str, root: str = "") -> bool:
    """Whether digests and signatures of a package file are good."""
    return os.path.isfile(package_file) and not _rpm.run(["-K", "--quiet", "--", package_file], root).returncode


def difference(package_file: str, path: str, root: str = "") -> str:
    """How a file on this machine differs from the one in the package file; an empty text for not at all.

    Raises CommandExecutionError when the package does not hold the file, or it cannot be read.
    """
    import difflib

    packed = _unpacked(_packages.path(package_file), _packages.path(path))
    try:
        with open(_rpm.below(root, path), "rb") as stream:
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
