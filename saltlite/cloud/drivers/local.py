"""Machines on this host, made of namespaces, for labs and tests. Each has its own processes, host name, address and
disk, and starts in a tenth of a second. Needs root.

A provider:

    lab:
      driver: local
      network: 10.231.0.0/16        # the default; each machine has four addresses of it, and its own link to this host
      image_dir: /srv/images        # folders with a root file system each, in addition to the image `host`

A profile; none of it is required:

    small:
      provider: lab
      image: host                   # this host's root file system; or a folder of image_dir, or a path
      size: small                   # --list-sizes
      show_folders: [/srv/data]     # folders of this host that the machine sees at the same path, read-only
      hide_folders: [/srv/secret]   # with the image `host`: folders of this host that the machine sees empty

`deploy`, `minion`, `grains`, `preflight_cmds`, `file_map`, `script` with `script_args` and `script_env`, and
`inline_script` work as with every driver, but there is no login and nothing is installed: commands run in the machine
as root, and the minion is the saltlite that runs here. A `script` runs instead of starting it.

What a machine writes stays in memory, within the limit of its size, until it is destroyed or this host restarts. The
machine reaches this host if the firewall allows it, and other hosts only if this host forwards. A machine with the
image `host` sees this host's files, except /home, /root, /tmp, /etc/ssh and those of saltlite and its master, pillar
included, so its root must be as trustworthy as this host's. `show_folders` makes single folders visible.

Why not an existing tool: systemd-nspawn refuses `/` as a root unless the file system is btrfs, and has no disk limit
for its overlay. podman is ten packages (36 MB) with a store of images. bubblewrap 0.8 has no overlay, network, limits
or services, and would replace about 110 of our 1,000 lines. Our own code needs root, `ip` and Linux, which a host of a
lab has anyway, and starts a machine in 0.1 s.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import saltlite
from saltlite.cloud.api import cloud, config, port
from saltlite.cloud.api.config import lines_of, read_back
from saltlite.cloud.api.driver import made, no_action, no_function, only_action, only_function, tell
from saltlite.cloud.api.exceptions import (
    SaltCloudConfigError,
    SaltCloudExecutionFailure,
    SaltCloudNotFound,
    SaltCloudSystemExit,
)
from saltlite.cloud.api.port import Capabilities
from saltlite.cloud.drivers._namespaces import ENVIRONMENT, Machine, Machines, Plan
from saltlite.cloud.drivers._namespaces_inside import CONSOLE, SERVICES
from saltlite.errors import ConfigError, MachineError

if TYPE_CHECKING:
    from saltlite.loader.hints import __active_provider_name__, __opts__


# -- the minion of a machine: written and started from inside, without login or package
# A machine of the image `host` runs this saltlite; any other image needs the command `saltlite-minion`.


STEP_S = 900.0
"""The time limit of each command of a deployment, in seconds."""
CONFIG_DIR = "/etc/saltlite"
FOLDER = "/run/saltlite-deploy"
"""In the machine: the steps of a deployment. They are files, so that process lists do not show their text."""

Files = dict[str, tuple[bytes, int]]
"""Path in the machine -> content and mode."""


@dataclass(frozen=True, slots=True)
class Steps:
    """The steps of a deployment. Without `minion` there is only `after`."""

    minion: bool
    before: Files
    files: Files
    script: Files
    """The files of a custom script, which runs instead of starting the minion; the first one is run. May be empty."""
    after: Files


def _steps_of(vm_: Mapping[str, Any]) -> Steps:
    """The steps that the settings ask for. Raises SaltCloudConfigError before anything is created."""
    after = _commands("inline_script", vm_)
    if not _setting("deploy", vm_, True):
        return Steps(False, {}, {}, {}, after)
    _options_of(vm_, "localhost")
    text, script = _script_of(vm_), {}
    if text:
        variables = dict(_setting("script_env", vm_, {}))
        lines = [f"export {name}={shlex.quote(str(value))}" for name, value in variables.items()]
        lines.append(f"exec {FOLDER}/script -c {FOLDER} {_setting('script_args', vm_, '')}")
        script = {
            f"{FOLDER}/the script": ("\n".join(lines).encode(), 0o600),
            f"{FOLDER}/script": (text.encode(), 0o700),
        }
    return Steps(True, _commands("preflight_cmds", vm_), _mapped_files(vm_), script, after)


def _script_of(vm_: Mapping[str, Any]) -> str:
    """The text of the script that the settings name; "" for none. Raises SaltCloudConfigError."""
    named = str(_setting("script", vm_, ""))
    return cloud.os_script(named, vm_) if named else ""


def _deploy(steps: Steps, vm_: Mapping[str, Any], machines: Machines, machine: Machine) -> None:
    """Take the steps. Raises SaltCloudException, MachineError."""
    try:
        if steps.before or steps.after:
            machines.put(machine.name, {**steps.before, **steps.after})
        _run(steps.before, machines, machine.name)
        if steps.minion:
            _make_minion(steps, vm_, machines, machine)
        _run(steps.after, machines, machine.name)
    finally:
        # A machine that has stopped needs no cleanup.
        with contextlib.suppress(MachineError):
            machines.run(machine.name, ["rm", "-rf", FOLDER])


def _make_minion(steps: Steps, vm_: Mapping[str, Any], machines: Machines, machine: Machine) -> None:
    if steps.script:
        files = steps.script | _minion_files(FOLDER, vm_, machines, machine)
        machines.put(machine.name, steps.files | files)
        _run([next(iter(steps.script))], machines, machine.name)
        return
    service = {SERVICES: (f"{json.dumps(_service(machines, machine))}\n".encode(), 0o600)}
    files = service | _minion_files(CONFIG_DIR, vm_, machines, machine)
    machines.put(machine.name, steps.files | files)
    machines.read_services(machine.name)


def _options_of(vm_: Mapping[str, Any], gateway: str) -> dict[str, Any]:
    """The configuration of the minion; by default its master is on this host. Raises SaltCloudConfigError if a minion
    could not read it.
    """
    opts, own = port.cloud().opts, vm_.get("minion") or {}
    if not {**(opts.get("minion") or {}), **own}.get("master"):
        vm_ = {**vm_, "minion": {**own, "master": vm_.get("master") or gateway}}
    options = cloud.minion_config(opts, vm_)
    try:
        read_back(options)
    except ConfigError as error:
        raise SaltCloudConfigError(f"{vm_['name']}: the setting minion cannot be used: {error}") from error
    return options


def _minion_files(folder: str, vm_: Mapping[str, Any], machines: Machines, machine: Machine) -> Files:
    """The minion's configuration, grains and join token."""
    options = _options_of(vm_, machine.gateway)
    if "user" not in options and machines.run(machine.name, ["id", "-u", "saltlite"])[0] != 0:
        options["user"] = "root"
    files: Files = {f"{folder}/grains": (f"{json.dumps(options.get('grains'))}\n".encode(), 0o600)}
    token = str(vm_.get("join_token") or "")
    if token:
        options["join_token_file"] = f"{CONFIG_DIR}/join_token"
        files[f"{folder}/join_token"] = (f"{token}\n".encode(), 0o600)
    return {**files, f"{folder}/minion": (lines_of(options).encode(), 0o600)}


def _service(machines: Machines, machine: Machine) -> dict[str, Any]:
    """The command of the minion. Raises SaltCloudExecutionFailure if the machine does not have it."""
    env = dict(ENVIRONMENT)
    if machine.image == "/":
        if os.environ.get("PYTHONPATH"):
            env["PYTHONPATH"] = os.environ["PYTHONPATH"]
        return {"argv": [sys.executable, "-m", "saltlite_minion", "-c", CONFIG_DIR], "env": env}
    code, out, _ = machines.run(machine.name, ["sh", "-c", "command -v saltlite-minion"])
    if code != 0:
        raise SaltCloudExecutionFailure(
            f"the image {machine.notes.get('image')} has no command saltlite-minion: install saltlite in it, show the "
            "machine a virtualenv by show_folders and name its command in a `script`, or use --no-deploy"
        )
    return {"argv": [out.strip(), "-c", CONFIG_DIR], "env": env}


def _mapped_files(vm_: Mapping[str, Any]) -> Files:
    """The files of the setting file_map. Raises SaltCloudConfigError."""
    found: Files = {}
    for local, remote in dict(_setting("file_map", vm_, {})).items():
        if not str(remote).startswith("/"):
            raise SaltCloudConfigError(f"file_map has {remote!r} for {local}, which is not an absolute path")
        try:
            for path in [local] if os.path.isfile(local) else _files_below(local):
                place = str(remote) if path == local else os.path.join(remote, os.path.relpath(path, local))
                with open(path, "rb") as file:
                    found[place] = (file.read(), os.fstat(file.fileno()).st_mode & 0o777)
        except OSError as error:
            raise SaltCloudConfigError(
                f"file_map has {error.filename}, which cannot be read: {error.strerror}"
            ) from error
    return found


def _files_below(folder: str) -> list[str]:
    os.stat(folder)
    return [os.path.join(parent, name) for parent, _, names in os.walk(folder) for name in names]


def _commands(setting: str, vm_: Mapping[str, Any]) -> Files:
    """The commands of a setting, a file each; messages show the names of the files."""
    lines = _setting(setting, vm_, ())
    texts = [lines] if isinstance(lines, str) else list(lines)
    return {
        f"{FOLDER}/command {number} of {setting}": (str(text).encode(), 0o600) for number, text in enumerate(texts, 1)
    }


def _run(paths: Iterable[str], machines: Machines, name: str) -> None:
    """Run these files in order until one fails. Raises SaltCloudExecutionFailure."""
    for path in paths:
        port.cloud().progress(name, f"runs {os.path.basename(path)}")
        code, out, err = machines.run(name, ["sh", path], within_s=STEP_S)
        if code != 0:
            output = (err.strip() or out.strip()).rpartition("\n")[2]
            raise SaltCloudExecutionFailure(
                f"{name}: {os.path.basename(path)} failed with exit code {code}: {output or 'it wrote nothing'}"
            )


CAPABILITIES = Capabilities(
    needs_image=False, needs_size=False, lists_at_once=True, finds_master=True, deploys_itself=True
)
NETWORK = "10.231.0.0/16"
HOST_IMAGE = "host"
MIB = 1024 * 1024
SIZES = {"tiny": 128, "small": 256, "medium": 512, "large": 1024}
"""Name -> MiB of memory. Half of it may be files."""
DEFAULT_SIZE = "small"
CONSOLE_BYTES = 20_000
PRIVATE_FOLDERS = (
    "/home",
    "/root",
    "/tmp",  # noqa: S108 - nothing is written there
    "/etc/ssh",
    "/etc/saltlite",
    "/var/lib/saltlite",
    "/var/cache/saltlite",
    "/var/log/saltlite",
)
"""Folders of this host that machines with the image `host` see empty."""
PRIVATE_OPTIONS = ("config_dir", "cachedir", "sock_dir", "root_dir")


def __virtual__() -> bool:
    """Whether a provider of this driver is configured, and this is Linux."""
    return platform.system() == "Linux" and get_configured_provider() is not False


def get_configured_provider() -> Any:
    """The provider; no setting is required."""
    return config.is_provider_configured(__opts__, __active_provider_name__ or "local", ("driver",))


def avail_locations(call: str | None = None) -> dict[str, dict[str, Any]]:
    """The one location: this host.

    CLI Example: ``saltlite-cloud --list-locations lab``
    """
    no_action("avail_locations", "--list-locations", call)
    return {platform.node(): {"kernel": platform.release(), "arch": platform.machine()}}


def avail_images(call: str | None = None) -> dict[str, dict[str, Any]]:
    """`host`, and the folders of `image_dir`.

    CLI Example: ``saltlite-cloud --list-images lab``
    """
    no_action("avail_images", "--list-images", call)
    return {name: {"folder": folder} for name, folder in _images().items()}


def avail_sizes(call: str | None = None) -> dict[str, dict[str, Any]]:
    """The memory of each size in MiB; half of it may be files.

    CLI Example: ``saltlite-cloud --list-sizes lab``
    """
    no_action("avail_sizes", "--list-sizes", call)
    return {name: {"ram": memory, "disk": memory // 2} for name, memory in SIZES.items()}


def list_nodes(call: str | None = None) -> dict[str, dict[str, Any]]:
    """The machines, with the six fields.

    CLI Example: ``saltlite-cloud -Q``
    """
    no_action("list_nodes", "-Q or --query", call)
    return {machine.name: _six(machine) for machine in _machines().every()}


def list_nodes_full(call: str | None = None) -> dict[str, dict[str, Any]]:
    """All fields of all machines.

    CLI Example: ``saltlite-cloud -F``
    """
    no_action("list_nodes_full", "-F or --full-query", call)
    return {machine.name: _all(machine) for machine in _machines().every()}


def list_nodes_select(call: str | None = None) -> dict[str, dict[str, Any]]:
    """The machines with the fields of `query.selection`.

    CLI Example: ``saltlite-cloud -S``
    """
    return cloud.list_nodes_select(list_nodes_full("function"), __opts__["query.selection"], call)


def show_instance(name: str, call: str | None = None) -> dict[str, Any]:
    """All fields of one machine.

    CLI Example: ``saltlite-cloud -a show_instance web1``
    """
    only_action("show_instance", call)
    return _all(_find(name))


def start(name: str, call: str | None = None) -> dict[str, Any]:
    """Start a stopped machine with its minion.

    CLI Example: ``saltlite-cloud -a start web1``
    """
    only_action("start", call)
    _find(name)
    with _driver_errors():
        return _six(_machines().start(name))


def stop(name: str, call: str | None = None) -> dict[str, Any]:
    """End all processes of a machine; its files stay.

    CLI Example: ``saltlite-cloud -a stop web1``
    """
    only_action("stop", call)
    _find(name)
    with _driver_errors():
        return _six(_machines().stop(name))


def reboot(name: str, call: str | None = None) -> dict[str, Any]:
    """Stop and start a machine.

    CLI Example: ``saltlite-cloud -a reboot web1``
    """
    only_action("reboot", call)
    stop(name, "action")
    return start(name, "action")


def show_console(name: str, call: str | None = None) -> str:
    """The last output of the services of a machine, such as the reason why its minion does not start.

    CLI Example: ``saltlite-cloud -a show_console web1``
    """
    only_action("show_console", call)
    _find(name)
    with _driver_errors():
        return _machines().run(name, ["tail", "-c", str(CONSOLE_BYTES), CONSOLE])[1]


def show_image(kwargs: Mapping[str, Any] | None = None, call: str | None = None) -> dict[str, Any]:
    """The folder of one image.

    CLI Example: ``saltlite-cloud -f show_image lab image=host``
    """
    only_function("show_image", call)
    wanted = str((kwargs or {}).get("image") or HOST_IMAGE)
    return {"name": wanted, "folder": _image(wanted)}


def create(vm_: dict[str, Any]) -> dict[str, Any]:
    """Create a machine and make it a minion. Raises SaltCloudException.

    CLI Example: ``saltlite-cloud -p small web1``
    """
    name, machines = vm_["name"], _machines()
    if name in machines.names():
        raise SaltCloudSystemExit(f"there is already a machine {name!r}: destroy it first, or take another name")
    tell("creating", "starting create", vm_)
    plan, steps = _plan(vm_), _steps_of(vm_)
    shown = {key: str(getattr(plan, key)) for key in ("image", "memory", "disk")}
    tell("requesting", "requesting instance", vm_, shown)
    with _driver_errors():
        machine = machines.make(plan)
        made(vm_, machine.uid)
        if steps.minion:
            details = {"host": machine.address, "minion_dir": CONFIG_DIR, "script": str(_setting("script", vm_, ""))}
            tell("deploying", "deploying", vm_, details)
        _deploy(steps, vm_, machines, machine)
    tell("created", "created instance", vm_)
    return {**_all(machines.find(name)), "deployed": steps.minion}


def validate(vm_: dict[str, Any]) -> None:
    """Check the settings of a machine that is to be created. Raises SaltCloudConfigError."""
    _plan(vm_)
    _steps_of(vm_)


def destroy(name: str, call: str | None = None) -> dict[str, Any]:
    """Destroy a machine with all its files.

    CLI Example: ``saltlite-cloud -d web1``
    """
    no_function("destroy", "-d or --destroy", call)
    machine = _find(name)
    tell("destroying", "destroying instance", {"name": name})
    with _driver_errors():
        _machines().destroy(name)
    tell("destroyed", "destroyed instance", {"name": name})
    return {"id": machine.uid, "destroyed": True}


def script(vm_: Mapping[str, Any]) -> str:
    """The text of the custom script, "" without one."""
    return _script_of(vm_)


# -- machines and their settings


def _machines() -> Machines:
    """The machines of the current provider. Raises SaltCloudSystemExit for users other than root."""
    if os.geteuid() != 0:
        raise SaltCloudSystemExit("the driver local makes namespaces and mounts, for which it must run as root")
    alias = __active_provider_name__.partition(":")[0]
    folder = os.path.join(str(__opts__["cachedir"]), "local", alias)
    with _driver_errors():
        return Machines(folder, str((get_configured_provider() or {}).get("network") or NETWORK))


def _find(name: str) -> Machine:
    machines = _machines()
    if name not in machines.names():
        raise SaltCloudNotFound(f"there is no machine {name!r} here; -Q lists the machines")
    with _driver_errors():
        return machines.find(name)


@contextlib.contextmanager
def _driver_errors() -> Iterator[None]:
    """A block whose MachineErrors become SaltCloudSystemExit."""
    try:
        yield
    except MachineError as error:
        raise SaltCloudSystemExit(str(error)) from error


def _six(machine: Machine) -> dict[str, Any]:
    return {
        "id": machine.uid,
        "image": machine.notes.get("image", ""),
        "size": machine.notes.get("size", ""),
        "state": machine.state,
        "private_ips": [machine.address] if machine.address else [],
        "public_ips": [],
    }


def _all(machine: Machine) -> dict[str, Any]:
    return {
        **_six(machine),
        "name": machine.name,
        "gateway": machine.gateway,
        "pid": machine.pid,
        "created": int(machine.created),
        "folder": machine.image,
        "memory": machine.memory,
        "disk": machine.disk,
    }


def _setting(name: str, vm_: Mapping[str, Any], default: Any = None) -> Any:
    return config.get_cloud_config_value(name, vm_, __opts__, default=default)


def _plan(vm_: Mapping[str, Any]) -> Plan:
    """The plan of a machine. Raises SaltCloudConfigError for an invalid setting."""
    size, image = str(_setting("size", vm_, DEFAULT_SIZE)), str(_setting("image", vm_, HOST_IMAGE))
    if size not in SIZES:
        raise SaltCloudConfigError(f"there is no size {size!r}: take one of {', '.join(SIZES)}")
    folder, shown = _image(image), _folders("show_folders", vm_)
    hidden: list[str] = []
    if folder == "/":
        hidden = _private_folders(_folders("hide_folders", vm_))
        shown += _needed_folders(hidden)
    memory = SIZES[size] * MIB
    notes = (("image", image), ("size", size))
    return Plan(vm_["name"], folder, memory, memory // 2, tuple(hidden), tuple(_outermost(shown)), notes)


def _images() -> dict[str, str]:
    """Name -> folder."""
    found = {HOST_IMAGE: "/"}
    parent = (get_configured_provider() or {}).get("image_dir")
    if parent:
        try:
            with os.scandir(str(parent)) as entries:
                found |= {entry.name: entry.path for entry in entries if entry.is_dir() and entry.name[0] != "."}
        except OSError as error:
            raise SaltCloudConfigError(f"image_dir {parent} cannot be read: {error.strerror}") from error
    return dict(sorted(found.items()))


def _image(name: str) -> str:
    """The folder of an image. Raises SaltCloudConfigError for an unknown one."""
    folder = name if name.startswith("/") else _images().get(name, "")
    if not folder or not os.path.isdir(folder):
        raise SaltCloudConfigError(
            f"there is no image {name!r}: --list-images shows them, or name a folder by its path"
        )
    return os.path.realpath(folder)


def _folders(name: str, vm_: Mapping[str, Any]) -> list[str]:
    """The folders of this host in a setting. Raises SaltCloudConfigError."""
    value = _setting(name, vm_, ())
    found = [value] if isinstance(value, str) else list(value)
    for folder in found:
        if not isinstance(folder, str) or not folder.startswith("/") or not os.path.isdir(folder):
            raise SaltCloudConfigError(f"{name} has {folder!r}, which is not the path of a folder on this host")
    return [os.path.realpath(folder) for folder in found]


def _private_folders(more: list[str]) -> list[str]:
    """The folders that a machine with the image `host` sees empty, including those that may be created later."""
    options = [str(__opts__[name]) for name in PRIVATE_OPTIONS if __opts__.get(name)]
    options += __opts__.get("master_folders", ())
    found = [os.path.realpath(path) for path in (*PRIVATE_FOLDERS, *options, *more)]
    return _outermost(path for path in found if path != "/" and (os.path.isdir(path) or not os.path.exists(path)))


def _needed_folders(hidden: list[str]) -> list[str]:
    """The folders of the running saltlite that a machine would not see otherwise."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(saltlite.__file__)))
    places = [sys.prefix, sys.base_prefix, package, *filter(None, os.environ.get("PYTHONPATH", "").split(":"))]
    if os.path.islink(sys.base_prefix):
        # A virtualenv finds its interpreter through this link, so the machine needs the link as well as its target.
        places.append(os.path.dirname(sys.base_prefix))
    here = os.stat("/").st_dev
    return [
        place
        for place in map(os.path.realpath, places)
        if os.path.isdir(place) and (os.stat(place).st_dev != here or any(_below(place, each) for each in hidden))
    ]


def _below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")


def _outermost(paths: Iterable[str]) -> list[str]:
    """The paths without those below others."""
    found: list[str] = []
    for path in sorted(set(paths)):
        if not any(_below(path, each) for each in found):
            found.append(path)
    return found
