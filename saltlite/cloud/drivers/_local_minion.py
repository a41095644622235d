"""The minion of a machine of the driver `local`: written and started from inside, without login and without package.

A machine that sees this host's files runs the saltlite that made it; any other one needs the command `saltlite-minion`.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from saltlite.cloud.api import cloud, config, port
from saltlite.cloud.api.exceptions import SaltCloudConfigError, SaltCloudExecutionFailure
from saltlite.cloud.api.minionfile import lines_of, read_back
from saltlite.cloud.machines.inside import SERVICES
from saltlite.cloud.machines.machines import ENVIRONMENT, Machine, Machines
from saltlite.errors import ConfigError, MachineError

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


def steps_of(vm_: Mapping[str, Any]) -> Steps:
    """What the settings want. Raises SaltCloudConfigError, before anything is made."""
    after = _commands("inline_script", vm_)
    if not _setting("deploy", vm_, True):
        return Steps(False, {}, {}, {}, after)
    _options_of(vm_, "localhost")
    text, script = script_of(vm_), {}
    if text:
        variables = dict(_setting("script_env", vm_, {}))
        lines = [f"export {name}={shlex.quote(str(value))}" for name, value in variables.items()]
        lines.append(f"exec {FOLDER}/script -c {FOLDER} {_setting('script_args', vm_, '')}")
        script = {
            f"{FOLDER}/the script": ("\n".join(lines).encode(), 0o600),
            f"{FOLDER}/script": (text.encode(), 0o700),
        }
    return Steps(True, _commands("preflight_cmds", vm_), _mapped_files(vm_), script, after)


def script_of(vm_: Mapping[str, Any]) -> str:
    """The text of the script that the settings name; "" for none. Raises SaltCloudConfigError."""
    named = str(_setting("script", vm_, ""))
    return cloud.os_script(named, vm_) if named else ""


def deploy(steps: Steps, vm_: Mapping[str, Any], machines: Machines, machine: Machine) -> None:
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


def _setting(name: str, vm_: Mapping[str, Any], default: Any) -> Any:
    return config.get_cloud_config_value(name, vm_, port.cloud().opts, default=default)


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
