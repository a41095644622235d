"""Wheels that travel along: saltlite itself and what it needs, made of what is installed here, without any tools.

A wheel is a zip of what an installation consists of (Python Packaging User Guide, "Binary distribution format"), so
what was installed from one can be made into one again: its RECORD names every file. saltlite itself may also run from a
checkout; its wheel is then made of the files that are imported.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import importlib.metadata
import importlib.util
import io
import os
import re
import sys
import sysconfig
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import saltlite
from saltlite import __version__
from saltlite.cloud.api.exceptions import SaltCloudExecutionFailure

OWN = "saltlite"
DAEMONS = ("saltlite_minion", "saltlite_master", "saltlite_api")
"""Modules of the top level that belong to saltlite's wheel."""
UNIT = "saltlite-minion.service"
INSTALLER = "pip"

_WHEN = (1980, 1, 1, 0, 0, 0)
_REQUIREMENT = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)")


@dataclass(frozen=True, slots=True)
class Kind:
    """What decides whether compiled wheels of one machine work on another: `abi` as in cpython-311-x86_64-linux-gnu."""

    abi: str
    libc: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Wheel:
    """One wheel: its file name, and its bytes."""

    name: str
    data: bytes


@functools.cache
def this_kind() -> Kind:
    """The kind of this machine."""
    return Kind(str(sysconfig.get_config_var("SOABI")), version_of(os.confstr("CS_GNU_LIBC_VERSION") or ""))


def version_of(text: str) -> tuple[int, ...]:
    """`2.36` -> (2, 36)."""
    return tuple(int(part) for part in re.findall(r"\d+", text)[:3])


def fits(there: Kind) -> bool:
    """Whether what is installed here runs there too: the same Python and processor, and a libc that is not older."""
    here = this_kind()
    return there.abi == here.abi and there.libc >= here.libc


def travelling(there: Kind, wheel_dir: str) -> tuple[list[Wheel], bool]:
    """The wheels for a machine of that kind, and whether nothing is missing, so that no index is needed.

    Raises SaltCloudExecutionFailure when saltlite's own wheel cannot be made.
    """
    wheels = [own_wheel(), *installer()]
    if wheel_dir:
        names = sorted(name for name in os.listdir(wheel_dir) if name.endswith(".whl"))
        taken = {wheel.name for wheel in wheels}
        for name in names:
            if name not in taken and not name.startswith(f"{OWN}-"):
                with open(os.path.join(wheel_dir, name), "rb") as file:
                    wheels.append(Wheel(name, file.read()))
        return wheels, True
    needed = requirements() if fits(there) else None
    return [*wheels, *(needed or ())], needed is not None


@functools.cache
def installer() -> tuple[Wheel, ...]:
    """pip as a wheel, which runs from it; none where pip is not installed here."""
    made = _installed(INSTALLER)
    return () if made is None else (made,)


@functools.cache
def requirements() -> tuple[Wheel, ...] | None:
    """What saltlite needs, as it is installed here; None when a part of it was not installed from wheels."""
    wheels = []
    for name in _needed(OWN, set()):
        made = _installed(name)
        if made is None:
            return None
        wheels.append(made)
    return tuple(wheels)


@functools.cache
def own_wheel() -> Wheel:
    """saltlite itself. Raises SaltCloudExecutionFailure where it is not installed."""
    try:
        found = importlib.metadata.distribution(OWN)
    except importlib.metadata.PackageNotFoundError as error:
        raise SaltCloudExecutionFailure(
            "saltlite is not installed here, so no wheel of it can travel: install it, or set `install: index`"
        ) from error
    info = f"{OWN}-{__version__}.dist-info"
    metadata = re.sub(r"(?m)^Version: .*$", f"Version: {__version__}", found.read_text("METADATA") or "", count=1)
    files = {
        **dict(_own_files()),
        f"{info}/METADATA": metadata.encode(),
        f"{info}/entry_points.txt": (found.read_text("entry_points.txt") or "").encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: saltlite\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    return Wheel(f"{OWN}-{__version__}-py3-none-any.whl", _zip(files, info))


def unit_text(command: str, config_dir: str) -> str:
    """The unit of systemd for a minion that is started by this command."""
    root = os.path.dirname(os.path.dirname(os.path.abspath(saltlite.__file__)))
    places = [os.path.join(sys.prefix, "share", OWN, "systemd", UNIT), os.path.join(root, "systemd", UNIT)]
    for path in places:
        if os.path.isfile(path):
            with open(path, encoding="utf-8") as file:
                return re.sub(r"(?m)^ExecStart=.*$", f"ExecStart={command} -c {config_dir}", file.read())
    raise SaltCloudExecutionFailure(f"the unit {UNIT} is not there: looked in {' and '.join(places)}")


def _own_files() -> Iterator[tuple[str, bytes]]:
    """Path in the wheel -> content, of the package and the daemons that this process would import."""
    package = os.path.dirname(os.path.abspath(saltlite.__file__))
    for folder, folders, names in os.walk(package):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        for name in sorted(names):
            path = os.path.join(folder, name)
            yield os.path.relpath(path, os.path.dirname(package)), _content(path)
    for module in DAEMONS:
        spec = importlib.util.find_spec(module)
        if spec is None or spec.origin is None:
            raise SaltCloudExecutionFailure(f"the daemon {module} is not installed here: install saltlite again")
        yield os.path.basename(spec.origin), _content(spec.origin)


def _needed(name: str, seen: set[str]) -> Iterator[str]:
    """The names of what a distribution requires here, and what that requires, extras left out."""
    for line in importlib.metadata.distribution(name).requires or ():
        requirement, _, marker = line.partition(";")
        found = _REQUIREMENT.match(requirement)
        if found is None or "extra" in marker or found[1].lower() in seen:
            continue
        seen.add(found[1].lower())
        try:
            importlib.metadata.distribution(found[1])
        except importlib.metadata.PackageNotFoundError:
            continue  # for another platform or Python than this one
        yield found[1]
        yield from _needed(found[1], seen)


def _installed(name: str) -> Wheel | None:
    """A wheel of what is installed under that name; None when it did not come from a wheel."""
    try:
        found = importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        return None
    said, listed = found.read_text("WHEEL"), found.files
    if said is None or listed is None or (found.read_text("direct_url.json") or "").find('"editable"') >= 0:
        return None
    files: dict[str, bytes] = {}
    info = ""
    for each in listed:
        path = str(each)
        if path.startswith("..") or "__pycache__" in each.parts or os.path.isabs(path):
            continue  # scripts, which are made anew where it is installed
        if each.parts[0].endswith(".dist-info"):
            info = each.parts[0]
            if each.name in {"RECORD", "INSTALLER", "REQUESTED", "direct_url.json"}:
                continue
        try:
            files[path] = _content(str(each.locate()))
        except OSError:
            return None
    tags = re.findall(r"(?m)^Tag: *(\S+)$", said)
    if not info or not tags:
        return None
    # A file name with several tags is the product of their parts.
    parts = [".".join(dict.fromkeys(part)) for part in zip(*(tag.split("-") for tag in tags), strict=True)]
    return Wheel(f"{info.removesuffix('.dist-info')}-{'-'.join(parts)}.whl", _zip(files, info))


def _content(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _zip(files: dict[str, bytes], info: str) -> bytes:
    record = "".join(_recorded(files.items())) + f"{info}/RECORD,,\n"
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for path, data in (*files.items(), (f"{info}/RECORD", record.encode())):
            entry = zipfile.ZipInfo(path, _WHEN)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, data)
    return made.getvalue()


def _recorded(files: Iterable[tuple[str, bytes]]) -> Iterator[str]:
    for path, data in files:
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        quoted = '"' + path.replace('"', '""') + '"' if "," in path or '"' in path else path
        yield f"{quoted},sha256={digest},{len(data)}\n"
