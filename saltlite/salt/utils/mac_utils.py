"""`salt.utils.mac_utils`: programs of macOS, and what they print."""

from __future__ import annotations

import logging
import os
import plistlib
import pwd
import subprocess
import time
from collections.abc import Callable, Iterator
from typing import Any
from xml.parsers.expat import ExpatError

from saltlite.errors import CommandExecutionError, SaltInvocationError
from saltlite.salt.modules import function_of
from saltlite.salt.utils.args import clean_kwargs, shlex_split
from saltlite.salt.utils.path import os_walk
from saltlite.salt.utils.platform import is_darwin

log = logging.getLogger(__name__)

DEFAULT_SHELL = os.environ.get("SHELL", "/bin/sh")
_ON, _OFF = ("on", "yes"), ("off", "no")
_NOT_BOOTED_OUT = 36
_SERVICES = (
    "/Library/LaunchAgents", "/Library/LaunchDaemons", "/System/Library/LaunchAgents", "/System/Library/LaunchDaemons",
)  # fmt: skip
_USERS = "/Users"


def __virtual__() -> Any:
    if not is_darwin():
        return False, "The mac_utils utility could not be loaded: utility only works on MacOS systems."
    return "mac_utils"


def _run_all(cmd: Any) -> dict[str, Any]:
    words = cmd if isinstance(cmd, list) else shlex_split(cmd, posix=False)
    line = " ".join(map(str, words))
    try:
        done = subprocess.run(
            [DEFAULT_SHELL, "-c", line], capture_output=True, text=True, errors="replace", check=False
        )
    except OSError as error:
        raise CommandExecutionError(f"Unable to run command '{line}', reason: {error}") from error
    return {"retcode": done.returncode, "stdout": done.stdout.rstrip(), "stderr": done.stderr.rstrip()}


def execute_return_success(cmd: Any) -> bool:
    """True if the command succeeds. Raises CommandExecutionError if not, or if it is not supported."""
    execute_return_result(cmd)
    return True


def execute_return_result(cmd: Any) -> str:
    """What the command prints. Raises CommandExecutionError if it fails or is not supported."""
    done = _run_all(cmd)
    if done["retcode"] != 0 or "not supported" in done["stdout"].lower():
        shown = f"Return Code: {done['retcode']}\nOutput: {done['stdout']}\nError: {done['stderr']}\n"
        raise CommandExecutionError(f"Command Failed: {cmd}\n{shown}")
    text: str = done["stdout"]
    return text


def parse_return(data: str) -> str:
    """The value of `name: value`, or the text."""
    for mark in (": ", ":\n"):
        if mark in data:
            return data.split(mark)[1]
    return data


def validate_enabled(enabled: Any) -> str:
    """`on` or `off`. Raises SaltInvocationError for another text."""
    if not isinstance(enabled, str):
        return "on" if enabled else "off"
    if enabled.lower() not in (*_ON, *_OFF):
        raise SaltInvocationError(
            "\nMac Power: Invalid String Value for Enabled.\n"
            f"String values must be 'on' or 'off'/'yes' or 'no'.\nPassed: {enabled}"
        )
    return "on" if enabled.lower() in _ON else "off"


def confirm_updated(value: Any, check_fun: Callable[[], Any], normalize_ret: bool = False, wait: int = 5) -> bool:
    """Whether the value is in what the function returns, within `wait` seconds."""
    for _ in range(wait):
        state = validate_enabled(check_fun()) if normalize_ret else check_fun()
        if value in state:
            return True
        time.sleep(1)
    return False


def launchctl(sub_cmd: str, *args: str, **kwargs: Any) -> Any:
    """Run launchctl; True, or what it prints with `return_stdout`. Raises CommandExecutionError."""
    wants_output = kwargs.pop("return_stdout", False)
    run_all = function_of("cmdmod", "run_all")
    assert run_all is not None  # noqa: S101 - it ships
    accepted = {"success_retcodes": [_NOT_BOOTED_OUT]} if sub_cmd == "bootout" else {}
    done = run_all(["launchctl", sub_cmd, *args], **clean_kwargs(**{**kwargs, **accepted, "python_shell": False}))
    if done["retcode"] or "service is disabled" in done["stderr"].lower():
        shown = "".join(f"\n{name}: {done[name]}" for name in ("stdout", "stderr", "retcode"))
        raise CommandExecutionError(f"Failed to {sub_cmd} service:{shown}")
    return done["stdout"] if wants_output else True


def available_services(refresh: bool = False) -> dict[str, Any]:
    """Label in lower case -> file and content of each service."""
    users = os.listdir(_USERS) if os.path.isdir(_USERS) else []
    folders = [*_SERVICES, *(f"{_USERS}/{user}/Library/LaunchAgents" for user in users)]
    return {found["plist"]["Label"].lower(): found for folder in folders for found in _plists(folder)}


def _plists(folder: str) -> Iterator[dict[str, Any]]:
    for root, _, names in os_walk(folder):
        for name in names:
            path = os.path.join(root, name)
            if not path.lower().endswith(".plist"):
                continue
            try:
                with open(path, "rb") as file:
                    content = plistlib.load(file)
            except (OSError, ValueError, ExpatError) as error:
                log.warning("%s is no service: %s", path, error)
                continue
            if "Label" in content:
                yield {"file_name": name, "file_path": path, "plist": content}


def console_user(username: bool = False) -> Any:
    """The number, or the name, of the user at the console. Raises CommandExecutionError."""
    try:
        uid = os.stat("/dev/console").st_uid
    except OSError as error:
        raise CommandExecutionError("Failed to get a UID for the console user.") from error
    return pwd.getpwuid(uid).pw_name if username else uid


def git_is_stub() -> bool:
    """Whether the tools of Xcode, with git, are missing."""
    try:
        done = subprocess.run(["/usr/bin/xcode-select", "-p"], capture_output=True, timeout=1, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return True
    return done.returncode != 0
