"""Machines on this host, made of namespaces: for labs and for tests. Each has processes, a host name, an address and a
disk of its own, and is there in a tenth of a second. Root only.

A provider:

    lab:
      driver: local
      network: 10.231.0.0/16        # the default; each machine has four addresses of it, and its own cable to this host
      image_dir: /srv/images        # folders that each have a root file system; beside the image `host`

A profile; none of it is required:

    small:
      provider: lab
      image: host                   # what this host's root file system has; or a folder of image_dir, or a path
      size: small                   # --list-sizes
      show_folders: [/srv/data]     # folders of this host that the machine sees at the same path, read-only
      hide_folders: [/srv/secret]   # with the image `host`: folders of this host that the machine sees empty

`deploy`, `minion`, `grains`, `preflight_cmds`, `file_map`, `script` with `script_args` and `script_env`, and
`inline_script` are what they are with every driver, but there is no login and nothing is installed: commands run in the
machine as root, and the minion is the saltlite that runs here. A `script` is run in the place of starting it.

What a machine writes is kept in memory, as part of what its size allows, until it is destroyed or this host restarts.
It reaches this host, whose firewall must let it, and nothing behind it unless this host forwards. A machine of the
image `host` sees this host's files, but for /home, /root, /tmp, /etc/ssh and those of saltlite and its master, pillar
included: its root is to be trusted as this host's. `show_folders` lends what of these it needs.

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
"""What each command of a deployment may take."""
CONFIG_DIR = "/etc/saltlite"
FOLDER = "/run/saltlite-deploy"
"""In the machine: the steps of a deployment, which are files so that no list of processes shows what is in them."""

Files = dict[str, tuple[bytes, int]]
"""Path in the machine -> content and mode."""


@dataclass(frozen=True, slots=True)
class Steps:
    """What a deployment is to do. Without `minion`, `after` is all of it."""

    minion: bool
    before: Files
    files: Files
    script: Files
    """Of the user's own, in the place of starting the minion; the first of them is run. None of it may be there."""
    after: Files


def _steps_of(vm_: Mapping[str, Any]) -> Steps:
    """What the settings want. Raises SaltCloudConfigError, before anything is made."""
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
        # Of a machine that does not run any more, nothing has to be tidied.
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
    """The configuration of the minion; its master is on this host where nobody says otherwise.

    Raises SaltCloudConfigError for what no minion could read.
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
    """The minion's configuration and grains, and the token by which it joins."""
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
    """The command that is the minion. Raises SaltCloudExecutionFailure when the machine has none."""
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
    """The setting file_map: what is written where. Raises SaltCloudConfigError."""
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
    """The commands of a setting, each a file that is named as sentences call it."""
    lines = _setting(setting, vm_, ())
    texts = [lines] if isinstance(lines, str) else list(lines)
    return {
        f"{FOLDER}/command {number} of {setting}": (str(text).encode(), 0o600) for number, text in enumerate(texts, 1)
    }


def _run(paths: Iterable[str], machines: Machines, name: str) -> None:
    """Run these files one after the other, up to the first that fails. Raises SaltCloudExecutionFailure."""
    for path in paths:
        port.cloud().progress(name, f"runs {os.path.basename(path)}")
        code, out, err = machines.run(name, ["sh", path], within_s=STEP_S)
        if code != 0:
            said = (err.strip() or out.strip()).rpartition("\n")[2]
            raise SaltCloudExecutionFailure(
                f"{name}: {os.path.basename(path)} failed with exit code {code}: {said or 'it said nothing'}"
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
"""Of the image `host`: what is not the machine's business."""
PRIVATE_OPTIONS = ("config_dir", "cachedir", "sock_dir", "root_dir")


def __virtual__() -> bool:
    """Whether a provider of this driver is configured, on a system that has namespaces."""
    return platform.system() == "Linux" and get_configured_provider() is not False


def get_configured_provider() -> Any:
    """The provider; nothing has to be set."""
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
    """Memory of each size, in MiB; files are part of it.

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
    """All about all machines.

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
    """All about one machine.

    CLI Example: ``saltlite-cloud -a show_instance web1``
    """
    only_action("show_instance", call)
    return _all(_find(name))


def start(name: str, call: str | None = None) -> dict[str, Any]:
    """Start a machine that was stopped, and its minion with it.

    CLI Example: ``saltlite-cloud -a start web1``
    """
    only_action("start", call)
    _find(name)
    with _driver_errors():
        return _six(_machines().start(name))


def stop(name: str, call: str | None = None) -> dict[str, Any]:
    """End all processes of a machine; what it has written stays.

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
    """The end of what the services of a machine have printed, which is where a minion says why it does not start.

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
    """Make a machine, and a minion on it. Raises SaltCloudException with what went wrong.

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
            told = {"host": machine.address, "minion_dir": CONFIG_DIR, "script": str(_setting("script", vm_, ""))}
            tell("deploying", "deploying", vm_, told)
        _deploy(steps, vm_, machines, machine)
    tell("created", "created instance", vm_)
    return {**_all(machines.find(name)), "deployed": steps.minion}


def destroy(name: str, call: str | None = None) -> dict[str, Any]:
    """End a machine and leave nothing of it.

    CLI Example: ``saltlite-cloud -d web1``
    """
    no_function("destroy", "-d or --destroy", call)
    machine = _find(name)
    cloud.fire_event("event", "destroying instance", f"salt/cloud/{name}/destroying", args={"name": name})
    with _driver_errors():
        _machines().destroy(name)
    cloud.fire_event("event", "destroyed instance", f"salt/cloud/{name}/destroyed", args={"name": name})
    return {"id": machine.uid, "destroyed": True}


def script(vm_: Mapping[str, Any]) -> str:
    """The text of the script that the settings name; "" for none."""
    return _script_of(vm_)


# -- what a machine is


def _machines() -> Machines:
    """The machines of the provider that is called. Raises SaltCloudSystemExit for anybody but root."""
    if os.geteuid() != 0:
        raise SaltCloudSystemExit("the driver local makes namespaces and mounts, for which it must run as root")
    alias = __active_provider_name__.partition(":")[0]
    folder = os.path.join(str(__opts__["cachedir"]), "local", alias)
    with _driver_errors():
        return Machines(folder, str((get_configured_provider() or {}).get("network") or NETWORK))


def _find(name: str) -> Machine:
    machines = _machines()
    if name not in machines.names():
        raise SaltCloudNotFound(f"there is no machine {name!r} here; -Q shows those that are")
    with _driver_errors():
        return machines.find(name)


@contextlib.contextmanager
def _driver_errors() -> Iterator[None]:
    """Errors of machines are this driver's errors."""
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
    """What the machine is to be. Raises SaltCloudConfigError for a setting that cannot be used."""
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
    """The folder of an image. Raises SaltCloudConfigError for none."""
    folder = name if name.startswith("/") else _images().get(name, "")
    if not folder or not os.path.isdir(folder):
        raise SaltCloudConfigError(
            f"there is no image {name!r}: --list-images shows them, or name a folder by its path"
        )
    return os.path.realpath(folder)


def _folders(name: str, vm_: Mapping[str, Any]) -> list[str]:
    """A setting that is folders of this host. Raises SaltCloudConfigError."""
    value = _setting(name, vm_, ())
    found = [value] if isinstance(value, str) else list(value)
    for folder in found:
        if not isinstance(folder, str) or not folder.startswith("/") or not os.path.isdir(folder):
            raise SaltCloudConfigError(f"{name} has {folder!r}, which is the path of no folder here")
    return [os.path.realpath(folder) for folder in found]


def _private_folders(more: list[str]) -> list[str]:
    """What a machine of this host's files sees empty; what is not there yet may come, and is the same then."""
    options = [str(__opts__[name]) for name in PRIVATE_OPTIONS if __opts__.get(name)]
    options += __opts__.get("master_folders", ())
    found = [os.path.realpath(path) for path in (*PRIVATE_FOLDERS, *options, *more)]
    return _outermost(path for path in found if path != "/" and (os.path.isdir(path) or not os.path.exists(path)))


def _needed_folders(hidden: list[str]) -> list[str]:
    """Where the saltlite that runs here is, as far as a machine would not see it."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(saltlite.__file__)))
    places = [sys.prefix, sys.base_prefix, package, *filter(None, os.environ.get("PYTHONPATH", "").split(":"))]
    if os.path.islink(sys.base_prefix):
        # By that name a virtualenv finds its interpreter: the link must be there, not only what it leads to.
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
    """Without those that lie below others."""
    found: list[str] = []
    for path in sorted(set(paths)):
        if not any(_below(path, each) for each in found):
            found.append(path)
    return found
