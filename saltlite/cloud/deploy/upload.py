"""The upload of a deployment: one tar stream with the deploy script, its input, the wheels, and a file for each step.

Secrets are only in these files, which are readable by the deploying user alone; command lines hold file names only.

The wheels are made from what is installed here, without build tools: a wheel is a zip archive of the installed files
(Python Packaging User Guide, "Binary distribution format"), and RECORD lists them. saltlite itself may also run from a
checkout; its wheel then holds the files that Python would import.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import importlib.metadata
import importlib.util
import io
import json
import os
import re
import shlex
import stat
import sys
import sysconfig
import tarfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from typing import NamedTuple

import saltlite
from saltlite import __version__
from saltlite.cloud.api import driver
from saltlite.cloud.api.exceptions import SaltCloudExecutionFailure
from saltlite.cloud.deploy import settings
from saltlite.cloud.deploy.settings import BUILT_IN, Deployment

SECRET = 0o600
PROGRAM = 0o700

BYTES_MAX = 512 << 20
"""Limit of one upload, which is built in memory. The machine should fetch larger files by itself."""


class Upload:
    """A tar archive in memory: files are added one by one, then sent as `stream()`."""

    def __init__(self) -> None:
        self._made = io.BytesIO()
        self._size = 0
        self._tar = tarfile.open(fileobj=self._made, mode="w", format=tarfile.PAX_FORMAT)  # noqa: SIM115 - ends in stream()

    def add(self, name: str, data: bytes | str, mode: int = SECRET) -> None:
        """Add a file. Raises SaltCloudExecutionFailure if the upload becomes too large."""
        content = data.encode() if isinstance(data, str) else data
        self._grow(len(content))
        entry = tarfile.TarInfo(name)
        entry.size = len(content)
        entry.mode = mode
        self._tar.addfile(entry, io.BytesIO(content))

    def add_tree(self, name: str, path: str) -> None:
        """Add a local file or folder with its modes and links, without its owner.

        Raises SaltCloudExecutionFailure if it cannot be read, or the upload becomes too large.
        """
        try:
            self._tar.add(os.path.realpath(path), name, filter=self._taken)
        except OSError as error:
            raise SaltCloudExecutionFailure(f"{error.filename or path} cannot be read: {error.strerror}") from error

    def stream(self) -> bytes:
        """Close the archive and return its bytes."""
        self._tar.close()
        return self._made.getvalue()

    def _taken(self, entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
        """The entry without its owner; None skips sockets and devices."""
        if not (entry.isfile() or entry.isdir() or entry.issym() or entry.islnk()):
            return None
        self._grow(entry.size)
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = ""
        return entry

    def _grow(self, size: int) -> None:
        self._size += size
        if self._size > BYTES_MAX:
            raise SaltCloudExecutionFailure(
                f"what is to be uploaded is more than {BYTES_MAX >> 20} MiB: let the machine fetch it by itself"
            )


def name_of_file(number: int, path: str) -> str:
    """The path of a file or folder of `file_map` in the upload."""
    return f"files/{number}/{os.path.basename(os.path.normpath(path))}"


# -- wheels

OWN = "saltlite"
DAEMONS = ("saltlite_minion", "saltlite_master", "saltlite_api")
"""Top-level modules of saltlite's wheel."""
COMMAND = "saltlite/cli/saltlite.sh"
"""The script that is installed as `saltlite`."""
UNIT = "saltlite-minion.service"
INSTALLER = "pip"

_WHEN = (1980, 1, 1, 0, 0, 0)
_REQUIREMENT = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)")


@dataclass(frozen=True, slots=True)
class Kind:
    """The platform of compiled wheels; `abi` is such as cpython-311-x86_64-linux-gnu."""

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
    """Whether the local packages run there: the same Python and processor, and a libc that is not older."""
    here = this_kind()
    return there.abi == here.abi and there.libc >= here.libc


def travelling(there: Kind, wheel_dir: str) -> tuple[list[Wheel], bool]:
    """The wheels for a machine of that kind, and whether they are complete, so that no index is needed.

    Raises SaltCloudExecutionFailure if saltlite's own wheel cannot be made.
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
    """pip as a wheel, which can be run directly; none if pip is not installed here."""
    made = _installed(INSTALLER)
    return () if made is None else (made,)


@functools.cache
def requirements() -> tuple[Wheel, ...] | None:
    """The installed requirements of saltlite as wheels; None if one was not installed from a wheel."""
    wheels = []
    for name in _needed(OWN, set()):
        made = _installed(name)
        if made is None:
            return None
        wheels.append(made)
    return tuple(wheels)


@functools.cache
def own_wheel() -> Wheel:
    """The wheel of saltlite. Raises SaltCloudExecutionFailure if it is not installed."""
    try:
        found = importlib.metadata.distribution(OWN)
    except importlib.metadata.PackageNotFoundError as error:
        raise SaltCloudExecutionFailure(
            "saltlite is not installed here, so no wheel of it can travel: install it, or set `install: index`"
        ) from error
    info = f"{OWN}-{__version__}.dist-info"
    metadata = re.sub(r"(?m)^Version: .*$", f"Version: {__version__}", found.read_text("METADATA") or "", count=1)
    own = dict(_own_files())
    files = {
        **own,
        f"{OWN}-{__version__}{_SCRIPTS}{OWN}": own[COMMAND],
        f"{info}/METADATA": metadata.encode(),
        f"{info}/entry_points.txt": (found.read_text("entry_points.txt") or "").encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: saltlite\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    return Wheel(f"{OWN}-{__version__}-py3-none-any.whl", _zip(files, info))


def unit_text(command: str, config_dir: str) -> str:
    """The systemd unit of a minion with this command."""
    root = os.path.dirname(os.path.dirname(os.path.abspath(saltlite.__file__)))
    places = [os.path.join(sys.prefix, "share", OWN, "systemd", UNIT), os.path.join(root, "systemd", UNIT)]
    for path in places:
        if os.path.isfile(path):
            with open(path, encoding="utf-8") as file:
                return re.sub(r"(?m)^ExecStart=.*$", f"ExecStart={command} -c {config_dir}", file.read())
    raise SaltCloudExecutionFailure(f"the unit {UNIT} is not there: looked in {' and '.join(places)}")


def _own_files() -> Iterator[tuple[str, bytes]]:
    """(path in the wheel, content) of the package and the daemons that this process would import."""
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
    """The names of all requirements of a distribution, without extras."""
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
    """The wheel of an installed distribution; None if it was not installed from a wheel."""
    try:
        found = importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        return None
    wheel, listed = found.read_text("WHEEL"), found.files
    if wheel is None or listed is None or (found.read_text("direct_url.json") or "").find('"editable"') >= 0:
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
    tags = re.findall(r"(?m)^Tag: *(\S+)$", wheel)
    if not info or not tags:
        return None
    # A file name with several tags is the product of their parts.
    parts = [".".join(dict.fromkeys(part)) for part in zip(*(tag.split("-") for tag in tags), strict=True)]
    return Wheel(f"{info.removesuffix('.dist-info')}-{'-'.join(parts)}.whl", _zip(files, info))


def _content(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


_SCRIPTS = ".data/scripts/"
"""The folder in a wheel of what is installed as commands, as it stands."""


def _zip(files: dict[str, bytes], info: str) -> bytes:
    record = "".join(_recorded(files.items())) + f"{info}/RECORD,,\n"
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for path, data in (*files.items(), (f"{info}/RECORD", record.encode())):
            entry = zipfile.ZipInfo(path, _WHEN)
            entry.compress_type = zipfile.ZIP_DEFLATED
            # pip makes a file executable only if its mode also says that it is a regular file.
            entry.external_attr = (stat.S_IFREG | (0o755 if _SCRIPTS in path else 0o644)) << 16
            archive.writestr(entry, data)
    return made.getvalue()


def _recorded(files: Iterable[tuple[str, bytes]]) -> Iterator[str]:
    for path, data in files:
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        quoted = '"' + path.replace('"', '""') + '"' if "," in path or '"' in path else path
        yield f"{quoted},sha256={digest},{len(data)}\n"


# -- the steps


class Machine(NamedTuple):
    """What the first inspection found on the machine."""

    folder: str
    """Where the upload goes."""
    uid: int
    python: str
    """The interpreter that saltlite can run on, "" when there is none."""
    kind: Kind
    installed: str
    """The version of saltlite in the virtualenv, "" when there is none."""
    made_folders: tuple[str, ...] = ()
    """The folders that were made for `tmp_dir`, the deepest first."""

    def lacks(self, deployment: Deployment) -> bool:
        """Whether saltlite has to be installed."""
        return deployment.install.how != "none" and self.installed != __version__


class Step(NamedTuple):
    """One program of the upload: its file, and its name in messages."""

    file: str
    what: str


def files_of(deployment: Deployment, machine: Machine) -> tuple[bytes, list[Step]]:
    """The upload, and the steps to run in it, in their order."""
    upload = Upload()
    steps = [*_preflight(deployment, upload), *_files(deployment, upload)]
    if deployment.deploy:
        steps.append(_main(deployment, machine, upload))
    upload.add(UNDO, _UNDO.format(how="undo-own"))
    steps += _commands("inline", "the command {n} of inline_script", deployment.steps.inline, upload)
    return upload.stream(), steps


def rollback_of(deployment: Deployment, machine: Machine, *, listed: bool) -> bytes:
    """The upload that rolls back an earlier deployment; its program is UNDO.

    `listed`: there must be a list of what was made.
    """
    upload = Upload()
    _built_in(deployment, machine, upload, wheels_are_all=False)
    upload.add(UNDO, _UNDO.format(how="undo" if listed else "undo-any"))
    return upload.stream()


DEPLOY = Step("step-deploy", "the deploy script")
UNDO = "step-undo"
"""The program that rolls back the deployment of this upload."""

# Only the built-in script knows what it has made.
_UNDO = f'[ ! -f "$1/settings" ] || sh "$1/{BUILT_IN}" -c "$1" {{how}}\n'


def _preflight(deployment: Deployment, upload: Upload) -> list[Step]:
    return _commands("preflight", "the command {n} of preflight_cmds", deployment.steps.preflight, upload)


def _commands(kind: str, what: str, commands: tuple[str, ...], upload: Upload) -> list[Step]:
    steps = []
    for number, command in enumerate(commands, 1):
        steps.append(Step(f"step-{kind}-{number}", what.format(n=number)))
        upload.add(steps[-1].file, f"{command}\n")
    return steps


def _files(deployment: Deployment, upload: Upload) -> Iterator[Step]:
    for number, (local, remote) in enumerate(deployment.steps.files, 1):
        name = name_of_file(number, local)
        upload.add_tree(name, local)
        step = Step(f"step-file-{number}", f"putting {remote} there")
        # A folder goes into the place of that name; what is there besides stays.
        place, source = shlex.quote(remote), f'"$1"/{shlex.quote(name)}'
        upload.add(
            step.file,
            f'set -e\nmkdir -p "$(dirname {place})"\n'
            f"if [ -d {source} ]; then mkdir -p {place}; cp -R {source}/. {place}; else cp -p {source} {place}; fi\n",
        )
        yield step


def _main(deployment: Deployment, machine: Machine, upload: Upload) -> Step:
    own = deployment.steps.script
    if own:
        upload.add(BUILT_IN, text_of(own), PROGRAM)
        upload.add("grains", json.dumps(deployment.minion["grains"], ensure_ascii=False, default=str) + "\n")
        _minion(deployment, upload)
        start = f'"$1/{BUILT_IN}"'
    else:
        wheels_are_all = _wheels(deployment, machine, upload)
        _built_in(deployment, machine, upload, wheels_are_all=wheels_are_all)
        start = f'sh "$1/{BUILT_IN}"'
    variables = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in deployment.steps.script_env.items())
    upload.add(DEPLOY.file, f'{variables}cd "$1" || exit 1\n{start} -c "$1" {deployment.steps.script_args}\n')
    return DEPLOY


def _minion(deployment: Deployment, upload: Upload) -> None:
    upload.add("minion", settings.rendered(deployment.minion, deployment.paths, token=bool(deployment.token)))
    if deployment.token:
        upload.add("join_token", f"{deployment.token}\n")


def _built_in(deployment: Deployment, machine: Machine, upload: Upload, *, wheels_are_all: bool) -> None:
    install, paths = deployment.install, deployment.paths
    upload.add(BUILT_IN, text_of(""), PROGRAM)
    _minion(deployment, upload)
    upload.add("owned", "".join(f"{path}\n" for path in paths.owned))
    upload.add("unit", unit_text(f"{install.folder}/bin/saltlite-minion", paths.config_dir))
    settings = {
        "INSTALL": install.how,
        "INSTALL_DIR": install.folder,
        "INDEX": install.index,
        "PYTHON": machine.python,
        "VERSION": __version__,
        "IS_INSTALLED": "no" if machine.lacks(deployment) else "yes",
        "WHEELS_ARE_ALL": "yes" if wheels_are_all else "no",
        "CONFIG_DIR": paths.config_dir,
        "MINION_USER": paths.user,
        "STATUS_FILE": f"{paths.data_dir}/status.json",
        "START_S": str(max(1, round(deployment.start_s))),
        "REPLACE_MINION": "yes" if deployment.replaces else "no",
    }
    upload.add("settings", assignments(settings))


def text_of(script: str) -> str:
    """The text of a script, as `settings.script_of` has it. Raises SaltCloudConfigError when it cannot be read."""
    if not script:
        return resources.files(__package__).joinpath(BUILT_IN).read_text(encoding="utf-8")
    return script if settings.is_text(script) else driver.text_of(script, "the script")


def assignments(settings: Mapping[str, str]) -> str:
    """Shell assignments of these values, quoted."""
    return "".join(f"{name}={shlex.quote(value)}\n" for name, value in settings.items())


def _wheels(deployment: Deployment, machine: Machine, upload: Upload) -> bool:
    """Add the wheels to install; whether they are complete without an index."""
    if not machine.lacks(deployment):
        return True
    if deployment.install.how == "index":
        wheels, complete = list(installer()), False
    else:
        wheels, complete = travelling(machine.kind, deployment.install.wheel_dir)
    for each in wheels:
        upload.add(f"wheels/{each.name}", each.data)
    return complete
