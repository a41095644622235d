"""The minion of a machine of the driver `local`: written and started from inside, without login and without package.

A machine that sees this host's files runs the saltlite that made it; any other one needs the command `saltlite-minion`.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Mapping
from typing import Any

from saltlite.adapters.machine_inside import SERVICES
from saltlite.adapters.machines import ENVIRONMENT, Machine, Machines
from saltlite.cloudapi import cloud, config, port
from saltlite.cloudapi.exceptions import SaltCloudConfigError, SaltCloudSystemExit

STEP_S = 900.0
"""What each command of a deployment may take."""
CONFIG_DIR = "/etc/saltlite"
TOKEN_FILE = f"{CONFIG_DIR}/join_token"
SCRIPT_FILE = "/run/saltlite-deploy"


def script_of(vm_: Mapping[str, Any]) -> str:
    """The text of the script that the settings name; "" for none. Raises SaltCloudConfigError."""
    named = str(_setting("script", vm_, ""))
    return cloud.os_script(named, vm_) if named else ""


def deploy(vm_: Mapping[str, Any], machines: Machines, machine: Machine) -> None:
    """Make the machine a minion. Raises SaltCloudException, MachineError."""
    script = script_of(vm_)
    run_all("preflight_cmds", vm_, machines)
    files = _minion_files(vm_, machines, machine)
    if script:
        files[SCRIPT_FILE] = (script.encode(), 0o700)
    else:
        files[SERVICES] = (f"{json.dumps(_service(machines, machine))}\n".encode(), 0o600)
    machines.put(machine.name, {**_mapped_files(vm_), **files})
    if script:
        words = shlex.split(str(_setting("script_args", vm_, "")))
        _run(machines, machine.name, [SCRIPT_FILE, "-c", CONFIG_DIR, *words], "script")
    else:
        machines.read_services(machine.name)


def run_all(setting: str, vm_: Mapping[str, Any], machines: Machines) -> None:
    """Run the commands of a setting, up to the first that fails. Raises SaltCloudSystemExit."""
    lines = _setting(setting, vm_, ())
    for line in [lines] if isinstance(lines, str) else lines:
        _run(machines, vm_["name"], ["sh", "-c", str(line)], setting)


def _setting(name: str, vm_: Mapping[str, Any], default: Any) -> Any:
    return config.get_cloud_config_value(name, vm_, port.cloud().opts, default=default)


def _minion_files(vm_: Mapping[str, Any], machines: Machines, machine: Machine) -> dict[str, tuple[bytes, int]]:
    """The minion's configuration, and the token by which it joins."""
    token = str(vm_.get("join_token") or "")
    options = cloud.minion_config(port.cloud().opts, vm_)
    options.setdefault("master", machine.gateway)
    if "user" not in options and machines.run(machine.name, ["id", "-u", "saltlite"])[0] != 0:
        options["user"] = "root"
    files: dict[str, tuple[bytes, int]] = {}
    if token:
        options["join_token_file"] = TOKEN_FILE
        files[TOKEN_FILE] = (f"{token}\n".encode(), 0o600)
    lines = "".join(f"{json.dumps(name)}: {json.dumps(value)}\n" for name, value in options.items())
    return {**files, f"{CONFIG_DIR}/minion": (lines.encode(), 0o600)}


def _service(machines: Machines, machine: Machine) -> dict[str, Any]:
    """The command that is the minion. Raises SaltCloudSystemExit when the machine has none."""
    env = dict(ENVIRONMENT)
    if machine.image == "/":
        if os.environ.get("PYTHONPATH"):
            env["PYTHONPATH"] = os.environ["PYTHONPATH"]
        return {"argv": [sys.executable, "-m", "saltlite_minion", "-c", CONFIG_DIR], "env": env}
    code, out, _ = machines.run(machine.name, ["sh", "-c", "command -v saltlite-minion"])
    if code != 0:
        raise SaltCloudSystemExit(
            f"the image {machine.notes.get('image')} has no command saltlite-minion: install saltlite in it, show the "
            "machine a virtualenv by show_folders and name its command in a `script`, or use --no-deploy"
        )
    return {"argv": [out.strip(), "-c", CONFIG_DIR], "env": env}


def _mapped_files(vm_: Mapping[str, Any]) -> dict[str, tuple[bytes, int]]:
    """The setting file_map: what is written where. Raises SaltCloudConfigError."""
    found: dict[str, tuple[bytes, int]] = {}
    for local, remote in dict(_setting("file_map", vm_, {})).items():
        if not str(remote).startswith("/"):
            raise SaltCloudConfigError(f"file_map has {remote!r} for {local}, which is no absolute path")
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


def _run(machines: Machines, name: str, argv: list[str], what: str) -> None:
    code, out, err = machines.run(name, argv, within_s=STEP_S)
    if code != 0:
        said = (err.strip() or out.strip()).rpartition("\n")[2]
        raise SaltCloudSystemExit(f"{what} failed on {name} with exit code {code}: {said or 'it said nothing'}")
