"""`salt.utils.ansible`: inventories of Ansible."""

from __future__ import annotations

import os
import subprocess
from typing import Any

from saltlite.errors import CommandExecutionError
from saltlite.salt.utils import json
from saltlite.salt.utils.path import which

_DEFAULT = "/etc/ansible/hosts"


def __virtual__() -> Any:
    return "ansible" if which("ansible-inventory") else (False, "Install `ansible` to use inventory")


def targets(inventory: str | None = None, inventories: Any = None, yaml: bool = False, export: bool = False) -> Any:
    """What `ansible-inventory --list` says of an inventory, or of each of several. Raises CommandExecutionError."""
    if not isinstance(inventories, list):
        return _listed(inventory or _DEFAULT, yaml, export)
    paths = [*inventories, *([inventory] if inventory is not None and inventory not in inventories else [])]
    return {path: _listed(path, yaml, export) for path in paths}


def _listed(path: str, yaml: bool, export: bool) -> Any:
    if not os.path.isfile(path):
        raise CommandExecutionError(f"Inventory file not found: {path}")
    if not os.path.isabs(path):
        raise CommandExecutionError(f"Path to inventory file must be an absolute path: {path}")
    command = ["ansible-inventory", "-i", path, "--list", *(["--export"] * export), *(["--yaml"] * yaml)]
    environment = {**os.environ, "ANSIBLE_DEPRECATION_WARNINGS": "0"}
    try:
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        return done.stdout if yaml else json.loads(done.stdout)
    except (OSError, ValueError) as error:
        raise CommandExecutionError(f"Error processing the inventory {path}: {error}") from error
