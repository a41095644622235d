"""What becomes of Salt's own execution modules on this machine, module by module.

    SALTLITE_COMPAT_PYTHON -m tests.compat.survey            prints JSON
    SALTLITE_COMPAT_PYTHON -m tests.compat.survey --write    writes saltlite/docs/salt-modules.md

for a Python that has both Salt and saltlite. Reasons are those of the machine that it runs on: another one has other
programs and libraries.
"""

from __future__ import annotations

import importlib.metadata
import json
import logging
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import saltlite
from saltlite.loader.index import SALT_RANK, Index, ModuleFile, build_index
from saltlite.loader.loader import Loader
from saltlite.loader.registry import LoadedModule, ModuleRegistry
from saltlite.loader.salt_compat import RESERVED
from saltlite.loader.search_path import MODULES, SALT, Layer, salt_folder, search_layers
from saltlite.plugins.grains.collect import collect

TABLE = Path(saltlite.__file__).parent / "docs" / "salt-modules.md"

_SALTS_LOADER = """
import json, logging, sys
logging.disable(logging.CRITICAL)
import salt.config, salt.loader
opts = salt.config.apply_minion_config(
    {"id": "m1", "cachedir": sys.argv[1], "extension_modules": sys.argv[1] + "/extmods", "file_client": "local"}
)
opts["grains"] = salt.loader.grains(opts)
print(json.dumps(sorted(salt.loader.minion_mods(opts, utils=salt.loader.utils(opts)))))
"""


def survey() -> dict[str, Any]:
    """Figures, and a row for each file: layer, names, number of functions, or why there are none."""
    with tempfile.TemporaryDirectory() as cachedir:
        opts = {"id": "m1", "cachedir": cachedir, "extension_modules": f"{cachedir}/extmods"}
        grains = collect(opts)
        read_s = _timed(lambda: _files(opts))
        found_s = _timed(lambda: _files(opts))
        loader = Loader(build_index(search_layers(opts)), opts, grains, {})
        registry = loader._registry
        _files(opts, "utils")
        # All of them, those too that no minion ever loads.
        whole = ModuleRegistry(_index_of_salt(), loader._names, lambda _stem: None)
        load_s = _timed(lambda: [whole.load(file) for file in whole.index.files])
        every = [_row(whole, file) for file in whole.index.files]
        files = _files(opts)
        rows = {f"{file.layer}/{file.stem}": _row(registry, file) for file in files}
        offered = {f"{name}.{fun}" for row in rows.values() for name in row["names"] for fun in row["functions"]}
        theirs = _by_salts_loader(cachedir)
        reserved = [one.stem for one in whole.index.files if all(name in RESERVED[MODULES] for name in one.claims)]
        everything = len(loader)
    return {
        "salt": importlib.metadata.version("salt"),
        "python": platform.python_version(),
        "files": len(every),
        "without_fault": sum(not row["broken"] for row in every),
        "functions_of_all": sum(len(row["functions"]) for row in every),
        "reserved": reserved,
        "functions": len(offered),
        "functions_with_ours": everything,
        "functions_by_salts_loader": len(theirs),
        "only_by_salts_loader": sorted(
            fun for fun in theirs - offered if fun.partition(".")[0] not in RESERVED[MODULES]
        ),
        "only_by_ours": sorted(offered - theirs),
        "read_s": read_s,
        "found_again_s": found_s,
        "load_s": load_s,
        "rows": rows,
    }


def _timed(action: Any) -> float:
    began = time.process_time()
    action()
    return round(time.process_time() - began, 3)


def _files(opts: Mapping[str, Any], kind: str = MODULES) -> list[ModuleFile]:
    lowest = build_index(search_layers(opts, kind)).salt_files
    assert lowest is not None, "there is no Salt for this Python"
    return lowest.files()


def _index_of_salt() -> Index:
    layer = Layer(SALT, f"{salt_folder()}/{MODULES}", installed=True)
    return build_index([layer], first_rank=SALT_RANK)


def _row(registry: ModuleRegistry, file: ModuleFile) -> dict[str, Any]:
    loaded = registry.load(file)
    if isinstance(loaded, LoadedModule):
        functions = sorted(loaded.functions)
        return {"layer": file.layer, "names": loaded.names, "functions": functions, "broken": False, "reason": ""}
    sentence = loaded.sentence(file.stem).replace(f"{salt_folder()}/", "salt/")  # the page is of no one machine
    refused = sentence.startswith(f"'{file.stem}' __virtual__ returned False")
    return {"layer": file.layer, "names": (), "functions": [], "broken": not refused, "reason": sentence}


def _by_salts_loader(folder: str) -> set[str]:
    """What Salt's own loader offers here."""
    done = subprocess.run([sys.executable, "-c", _SALTS_LOADER, folder], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


def table(found: Mapping[str, Any]) -> str:
    """The survey as a page."""
    made = f"Salt {found['salt']}, Python {found['python']}, on Debian in a container"
    own = len(found["reserved"])
    whole, theirs = found["functions_of_all"], found["functions_by_salts_loader"]
    lines = [
        "# Salt's own execution modules under saltlite",
        "",
        f"Made by `python -m tests.compat.survey --write` with {made}.",
        "Reasons are those of that machine: another one has other programs and libraries.",
        "",
        f"- Of {found['files']} files {found['without_fault']} load without a fault. Where no number of functions",
        "  stands, the file itself says why it has none here.",
        f"- {own} of these are never loaded on a minion: saltlite has modules of its own in their place.",
        f"- All files have {whole} functions here; Salt's own loader offers {theirs}.",
        f"- Without those {own} they have {found['functions']}, with saltlite's {found['functions_with_ours']}.",
        "",
        "| file | offered as | functions | why not |",
        "|---|---|---|---|",
    ]
    for name, row in sorted(found["rows"].items()):
        stem = name.removeprefix(f"{SALT}/")
        lines.append(f"| {stem} | {', '.join(row['names'])} | {len(row['functions']) or ''} | {_cell(row['reason'])} |")
    lines += [f"| {stem} | | | saltlite's own in its place |" for stem in sorted(found["reserved"])]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    _, _, reason = text.partition("__virtual__ returned False: ")
    return " ".join((reason or text).split()).replace("|", "\\|")


def main() -> None:
    """See the docstring of the file."""
    logging.disable(logging.CRITICAL)
    found = survey()
    if "--write" in sys.argv:
        TABLE.write_text(table(found))
    print(json.dumps({key: value for key, value in found.items() if key != "rows"}, indent=1))


if __name__ == "__main__":
    main()
