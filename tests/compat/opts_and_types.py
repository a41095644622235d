"""Salt's own resource types, unmodified in a folder of custom types, and Salt's defaults beside ours; prints JSON."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from typing import Any

import salt.config

from saltlite.loader.resource_types import find_type, load_type
from saltlite.loader.search_path import salt_folder
from saltlite.model.salt_defaults import MASTER, MINION, salt_defaults

PILLAR = {"dummy": {"resource_ids": ["d1", "d2"]}, "ssh": {"hosts": {"w1": {"host": "127.0.0.1", "port": 1}}}}
CALLS = {"dummy": [], "ssh": ["cmd.run", "state.apply", "pkg.install"]}


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(os.path.join(salt_folder(), "resources"), f"{folder}/_resources")
        opts = {
            "id": "m1", "cachedir": folder, "module_dirs": [folder], "conf_file": f"{folder}/minion",
            "master": ["salt"], "pki_dir": f"{folder}/pki",
        }  # fmt: skip
        print(json.dumps({"types": [_use(kind, opts) for kind in PILLAR], "differ": _differences()}))


def _use(kind: str, opts: dict[str, Any]) -> dict[str, Any]:
    loaded = load_type(find_type(kind, opts), opts, {"os": "Debian"}, {"resources": PILLAR}, minion={})
    loaded.init()
    ids = loaded.discover()
    with loaded.entered(ids[0], {}):
        pinged = loaded.slots["test.ping"]()
    loaded.shutdown()
    return {
        "type": kind, "instead_of": loaded.instead_of, "faults": loaded.slot_faults, "ids": ids, "ping": pinged,
        "missing": [fun for fun in CALLS[kind] if fun not in loaded.slots],
    }  # fmt: skip


def _differences() -> dict[str, list[Any]]:
    """Role and option -> our value and Salt's, where they are not the same."""
    theirs = {MINION: salt.config.DEFAULT_MINION_OPTS, MASTER: salt.config.DEFAULT_MASTER_OPTS}
    return {
        f"{role} {name}": [value, str(theirs[role].get(name, "(none)"))]
        for role in theirs
        for name, value in salt_defaults(role).items()
        # Salt's lists and maps are classes of its own.
        if json.dumps(value) != json.dumps(theirs[role].get(name, "(none)"), default=lambda one: one.copy())
    }


if __name__ == "__main__":
    main()
