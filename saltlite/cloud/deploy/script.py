"""What the upload of a deployment holds: the script, what it is given, and each step as a small program of its own.

Whatever may be a secret is in these files, which only the user who deploys can read; the command lines on both sides
have nothing but their names.
"""

from __future__ import annotations

import importlib.resources
import json
import shlex
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from saltlite import __version__
from saltlite.cloud.api.exceptions import SaltCloudConfigError
from saltlite.cloud.deploy import minionconf, wheel
from saltlite.cloud.deploy.settings import BUILT_IN, Deployment
from saltlite.cloud.deploy.upload import PROGRAM, Upload, name_of_file


class Machine(NamedTuple):
    """What a machine said of itself when it was logged in to."""

    folder: str
    """Where the upload goes."""
    uid: int
    python: str
    """The interpreter that saltlite can run on, "" when there is none."""
    kind: wheel.Kind
    installed: str
    """The version of saltlite in the virtualenv, "" when there is none."""

    def lacks(self, deployment: Deployment) -> bool:
        """Whether saltlite has to be installed."""
        return deployment.install.how != "none" and self.installed != __version__


class Step(NamedTuple):
    """One program of the upload: the file that is run, and how sentences call it."""

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


def taking_back(deployment: Deployment, machine: Machine, *, listed: bool) -> bytes:
    """The upload of what takes back an earlier deployment; its program is UNDO.

    `listed`: there must be a list of what was made.
    """
    upload = Upload()
    _built_in(deployment, machine, upload, wheels_are_all=False)
    upload.add(UNDO, _UNDO.format(how="undo" if listed else "undo-any"))
    return upload.stream()


DEPLOY = Step("step-deploy", "the deploy script")
UNDO = "step-undo"
"""The program that takes back what was made: in the upload of a deployment, by that deployment."""

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
    upload.add("minion", minionconf.rendered(deployment.minion, deployment.paths, token=bool(deployment.token)))
    if deployment.token:
        upload.add("join_token", f"{deployment.token}\n")


def _built_in(deployment: Deployment, machine: Machine, upload: Upload, *, wheels_are_all: bool) -> None:
    install, paths = deployment.install, deployment.paths
    upload.add(BUILT_IN, text_of(""), PROGRAM)
    _minion(deployment, upload)
    upload.add("owned", "".join(f"{path}\n" for path in paths.owned))
    upload.add("unit", wheel.unit_text(f"{install.folder}/bin/saltlite-minion", paths.config_dir))
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
    }
    upload.add("settings", assignments(settings))


def text_of(path: str) -> str:
    """The text of a script; "" is the built-in one. Raises SaltCloudConfigError when it cannot be read."""
    if not path:
        return importlib.resources.files(__package__).joinpath(BUILT_IN).read_text(encoding="utf-8")
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "it is no text in UTF-8"
        raise SaltCloudConfigError(f"the script {path} cannot be read: {why}") from error


def assignments(settings: Mapping[str, str]) -> str:
    """Lines that a shell reads as these values, whatever is in them."""
    return "".join(f"{name}={shlex.quote(value)}\n" for name, value in settings.items())


def _wheels(deployment: Deployment, machine: Machine, upload: Upload) -> bool:
    """Add the wheels that have to travel; whether no index is needed with them."""
    if not machine.lacks(deployment):
        return True
    if deployment.install.how == "index":
        wheels, complete = list(wheel.installer()), False
    else:
        wheels, complete = wheel.travelling(machine.kind, deployment.install.wheel_dir)
    for each in wheels:
        upload.add(f"wheels/{each.name}", each.data)
    return complete
