"""A machine becomes a minion, or nothing is left of the attempt.

`bootstrap` is what drivers call as `salt.utils.cloud.bootstrap`; `retire` takes back what it made on a machine that
stays. Both reach the events and the person that waits through the port of drivers, `saltlite.cloud.api.port`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from saltlite.cloud.api.events import tell
from saltlite.cloud.api.exceptions import SaltCloudException, SaltCloudExecutionFailure
from saltlite.cloud.api.port import Cloud, cloud
from saltlite.cloud.deploy import script, windows
from saltlite.cloud.deploy.readings import Readings
from saltlite.cloud.deploy.session import Session
from saltlite.cloud.deploy.settings import Deployment, credentials_of, deployment_of, is_built_in, script_of
from saltlite.resources.types.ssh._client import Outcome

log = logging.getLogger(__name__)

CLEAN_UP_S = 60.0
"""How long taking back may take, the end of what still runs included."""

SAID_MAX = 400
"""Characters of what a program said that a sentence repeats."""

_FULL = "No space left on device"

# `$1` is the folder, `$2` the program. The number is kept, so that an interrupted deployment can be ended.
_STEP = 'umask 022; echo $$ >"$1/pid" && exec sh "$1/$2" "$1"'
_UNPACK = 'cd "$1" && tar -x -o -f -'
# A program that still runs is ended as a group, and has a moment to take back by itself what it made.
_END = """
end() {
    pid=$(cat "$1/pid" 2>/dev/null) && grep -q "$1" "/proc/$pid/cmdline" 2>/dev/null || return
    group=$(sed 's/.*) //' "/proc/$pid/stat" | cut -d ' ' -f 3)
    kill -TERM "-$group" 2>/dev/null
    tries=0
    while [ -d "/proc/$pid" ] && [ "$tries" -lt 100 ]; do tries=$((tries + 1)); sleep 0.1; done
}
"""
_CLEAN_UP = f"""{_END}
end "$1"
[ "$2" = leave ] || [ ! -f "$1/$2" ] || sh "$1/$2" "$1"
[ "$3" = keep ] || rm -rf "$1"
"""
# Folders of deployments of this machine whose command has died; `$1` is where they lie, `$2` the machine, `$3` ours.
_CLEAN_UP_OTHERS = f"""{_END}
for folder in "$1/saltlite-cloud.$2."????????; do
    [ -O "$folder" ] && [ ! -L "$folder" ] && [ "$folder" != "$3" ] || continue
    end "$folder"
    rm -rf "$folder"
done
"""


class DeployError(SaltCloudExecutionFailure):
    """A deployment that failed. `left`: what of it could not be taken back, on a machine that stays."""

    def __init__(self, text: str, left: tuple[str, ...] = ()) -> None:
        super().__init__(text)
        self.left = left


def bootstrap(vm_: dict[str, Any], opts: Mapping[str, Any]) -> dict[str, Any]:
    """Make the machine of these settings a minion; fires `deploying` first.

    Answers `deployed` (whether), `deploy_host`, and `started`: `systemd`, `detached`, or `script` where a script of
    the user's own was to do it. Raises SaltCloudConfigError before anything is done, then DeployError and what
    `Session.enter` raises; nothing is then left on the machine but what DeployError names.
    """
    if windows.is_windows(vm_) and vm_.get("deploy") is not False:
        raise windows.refuse(vm_)
    deployment = deployment_of(vm_, opts)
    if not deployment.deploy and not deployment.steps.inline:
        return {"deployed": False}
    program = cloud()
    _conceal(deployment, program)
    tell("deploying", "deploying", vm_, deployment.told())
    program.progress(deployment.name, f"waits for {deployment.login.host.place}")
    with Session(deployment) as session:
        machine = session.enter()
        try:
            said = _carry_out(deployment, session, machine, program)
        except SaltCloudException as error:
            left = _take_back(deployment, session, machine)
            # A machine that was made for this is destroyed next, and what is left on it with it.
            raise DeployError(str(error), left if deployment.login.remembers else ()) from error
        except BaseException:  # somebody interrupts, who is told what is left by the log
            left = _take_back(deployment, session, machine)
            if left:
                log.warning("%s: what the deployment made is left at %s: %s", deployment.name, session.place, left)
            raise
        _clean_up(session, machine, "leave", keep=deployment.keep_tmp)
    return {"deployed": deployment.deploy, "deploy_host": deployment.login.host.host, **said}


def retire(vm_: dict[str, Any], opts: Mapping[str, Any]) -> tuple[str, ...]:
    """Take back what `bootstrap` made on a machine that stays; what could not be taken back.

    A machine without a list of what was made is clean where the settings have `deployed: false`, for then the command
    may have died before that; else something of them is not as it was. Raises SaltCloudException when nobody can log
    in there.
    """
    listed = vm_.get("deployed") is not False and vm_.get("deploy") is not False and is_built_in(vm_.get("script"))
    deployment = deployment_of({**vm_, "file_map": None, "script": None, "script_args": None}, opts)
    program = cloud()
    _conceal(deployment, program)
    program.progress(deployment.name, "takes the minion back")
    with Session(deployment) as session:
        machine = session.enter()
        try:
            session.run(_CLEAN_UP_OTHERS, deployment.tmp_dir, deployment.name, machine.folder, within_s=CLEAN_UP_S)
            _unpack(session, machine, script.taking_back(deployment, machine, listed=listed), deployment)
        finally:
            left = _take_back(deployment, session, machine)
    return left


def script_text(vm_: Mapping[str, Any], opts: Mapping[str, Any]) -> str:
    """The program that makes this machine a minion: that of its setting `script`, or the built-in one."""
    return script.text_of(script_of(Readings(vm_), opts))


def _conceal(deployment: Deployment, program: Cloud) -> None:
    login = deployment.login
    secrets = (login.host.passwd, login.host.priv_passwd, login.sudo_password, deployment.token)
    for secret in (*secrets, *credentials_of(deployment.install.index)):
        if secret:
            program.conceal(secret)


def _carry_out(deployment: Deployment, session: Session, machine: script.Machine, program: Cloud) -> dict[str, str]:
    """Upload, and run one step after the other. Raises SaltCloudException."""
    program.progress(deployment.name, "uploads")
    upload, steps = script.files_of(deployment, machine)
    _unpack(session, machine, upload, deployment)
    said: dict[str, str] = {"started": "script"} if deployment.steps.script else {}
    for step in steps:
        program.progress(deployment.name, f"runs {step.what}")
        done = session.run(_STEP, machine.folder, step.file, within_s=deployment.step_s)
        log.debug("%s: %s said: %r %r", deployment.name, step.what, done.stdout[-SAID_MAX:], done.stderr[-SAID_MAX:])
        if done.retcode != 0:
            raise SaltCloudExecutionFailure(f"{deployment.name}: {step.what} failed at {session.place}: {_why(done)}")
        if step == script.DEPLOY and not deployment.steps.script:
            said["started"] = next(iter(_values(done, "started")), "")
    return said


def _unpack(session: Session, machine: script.Machine, upload: bytes, deployment: Deployment) -> None:
    done = session.run(_UNPACK, machine.folder, stdin=upload, within_s=deployment.step_s)
    if done.retcode != 0:
        raise SaltCloudExecutionFailure(
            f"{deployment.name}: {session.place} did not take the upload of {len(upload)} bytes: {_why(done)}"
        )


def _take_back(deployment: Deployment, session: Session, machine: script.Machine) -> tuple[str, ...]:
    """End what still runs and undo what was made; what is left. It fails in no way: another failure is on its way."""
    foreign: tuple[str, ...] = ()
    if deployment.deploy and deployment.steps.script:
        foreign = (f"what {deployment.steps.script} did at {session.place}",)
    try:
        left = _clean_up(session, machine, script.UNDO, keep=deployment.keep_tmp)
    except SaltCloudException as error:
        log.warning("%s: what was deployed could not be taken back: %s", deployment.name, error)
        return (*foreign, f"what the deployment made at {session.place}, {machine.folder} included")
    return (*foreign, *left)


def _clean_up(session: Session, machine: script.Machine, how: str, *, keep: bool) -> tuple[str, ...]:
    done = session.run(_CLEAN_UP, machine.folder, how, "keep" if keep else "", within_s=CLEAN_UP_S)
    return tuple(f"{what} at {session.place}" for what in _values(done, "left"))


def _values(done: Outcome, wanted: str) -> list[str]:
    """What the lines `wanted=value` of a program's output say."""
    pairs = (line.partition("=") for line in done.stdout.decode(errors="replace").splitlines())
    return [value.strip() for name, found, value in pairs if found and name == wanted]


def _why(done: Outcome) -> str:
    """The reason in what a program said: a full disk wherever it is told, else its last line."""
    lines = [line.strip() for line in done.stderr.decode(errors="replace").splitlines() if line.strip()]
    full = next((line for line in lines if _FULL in line), "")
    if full:
        return f"its disk is full ({full[-SAID_MAX:]})"
    said = lines or [line.strip() for line in done.stdout.decode(errors="replace").splitlines() if line.strip()]
    return f"{said[-1][-SAID_MAX:]} (exit code {done.retcode})" if said else f"exit code {done.retcode}"
