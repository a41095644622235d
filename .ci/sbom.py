"""The bill of materials of a wheel: every build of a wheel makes it anew, and puts it into .dist-info/sboms (PEP 770).

It is CycloneDX 1.6: what .ci/run.lock names, with which versions CI runs, and who needs what; and the JavaScript of
others in the console, with its digests. The same files give the same bytes. By hand:
`python .ci/sbom.py > saltlite.cdx.json`.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import tomllib
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / ".ci/run.lock"
NAME = "saltlite.cdx.json"
VENDORED = ROOT / "saltlite/api/static/vendor"
"""Files of npm packages, as NAME-VERSION.mjs."""
_PIN = re.compile(r"([a-z0-9-]+)==([^ ;\\]+)")
_VIA = re.compile(r"    #(?: via|  ) +([a-z0-9-]+)")
_FLOOR = re.compile(r"[A-Za-z0-9._-]+")


def pins() -> Iterator[tuple[str, str, list[str]]]:
    """Each (name, version, who needs it) of the lock."""
    name, version, needed_by = "", "", []
    for line in LOCK.read_text().splitlines():
        if found := _PIN.match(line):
            if name:
                yield name, version, needed_by
            name, version, needed_by = found[1], found[2], []
        elif found := _VIA.match(line):
            needed_by.append(found[1])
    yield name, version, needed_by


def vendored() -> list[dict[str, Any]]:
    """The components of the console that others wrote."""
    rows = []
    for path in sorted(VENDORED.glob("*.mjs")):
        name, _, version = path.stem.rpartition("-")
        digest = {"alg": "SHA-256", "content": hashlib.sha256(path.read_bytes()).hexdigest()}
        purl = f"pkg:npm/{name}@{version}"
        rows.append(
            {
                "type": "library",
                "bom-ref": purl,
                "name": name,
                "version": version,
                "purl": purl,
                "scope": "required",
                "hashes": [digest],
            }
        )
    return rows


def bill(own_version: str) -> dict[str, Any]:
    """The bill of materials of this version of saltlite."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    required = {_FLOOR.match(text)[0].lower() for text in project["dependencies"]}
    rows = list(pins())
    for name, _version, needed_by in rows * len(rows):
        if required.intersection(needed_by):
            required.add(name)
    refs = {name: f"pkg:pypi/{name}@{version}" for name, version, _needed_by in rows}
    refs["saltlite"] = own = f"pkg:pypi/saltlite@{own_version}"
    graph: dict[str, list[str]] = {ref: [] for ref in refs.values()}
    for name, _version, needed_by in rows:
        for one in needed_by:
            graph[refs[one]].append(refs[name])
    components = [
        {
            "type": "library",
            "bom-ref": refs[name],
            "name": name,
            "version": version,
            "purl": refs[name],
            "scope": "required" if name in required else "optional",
        }
        for name, version, _needed_by in rows
    ]
    scripts = vendored()
    components += scripts
    graph |= {row["purl"]: [] for row in scripts}
    graph[own] += [row["purl"] for row in scripts]
    digest = hashlib.sha256(LOCK.read_bytes()).hexdigest()
    changing = own + digest + "".join(row["hashes"][0]["content"] for row in scripts)
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, changing)}",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": own,
                "name": "saltlite",
                "version": own_version,
                "description": project["description"],
                "licenses": [{"license": {"id": project["license"]}}],
                "purl": own,
            },
            "properties": [{"name": "saltlite:lock:sha256", "value": digest}],
        },
        "components": components,
        "dependencies": [{"ref": ref, "dependsOn": sorted(needs)} for ref, needs in sorted(graph.items())],
    }


def text(own_version: str) -> str:
    """The bill as a file has it."""
    return json.dumps(bill(own_version), indent=1) + "\n"


if __name__ == "__main__":
    found = re.search(r'__version__ = "([^"]+)"', (ROOT / "saltlite/__init__.py").read_text())
    sys.stdout.write(text(found[1]))
else:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface

    class SbomHook(BuildHookInterface):  # type: ignore[type-arg]
        """Adds the bill to a wheel; an editable installation has none."""

        PLUGIN_NAME = "custom"

        def initialize(self, version: str, build_data: dict[str, Any]) -> None:
            """Called by hatchling before a wheel is made."""
            if version == "standard":
                made = Path(self.directory) / NAME
                made.parent.mkdir(parents=True, exist_ok=True)
                made.write_text(text(self.metadata.version))
                build_data["sbom_files"].append(str(made))

        def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002 - hatchling's
            """Called when it is made."""
            (Path(self.directory) / NAME).unlink(missing_ok=True)
