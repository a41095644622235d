"""What saltlite depends on: floors above known advisories, locks with hashes, and the bill of materials of a wheel."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
VENDORED = {
    "htm-3.1.1.mjs": "ab33dd3f38059b9be4d5f5350128eefb2356639c4e0bbe9d9e8b3ba75847e9e4",
    "marked-18.2.1.mjs": "5371fea86fd0656b4fc7bea7c94c663109d82789b69433eeee78d42895aa44de",
    "preact-11.2.0.mjs": "bdcbd9abdf2c77c5c45326eab42191e949222d479d0d5f69467387a77040cb55",
}
"""The console's files of npm packages, as these were published, and their SHA-256."""
FILES = ("pyproject.toml", ".ci/advisories", ".ci/advisories.toml", ".ci/run.lock", ".ci/dev.lock", ".ci/sbom.py")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of what the checks read."""
    for name in (*FILES, "saltlite/__init__.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    shutil.copytree(ROOT / "saltlite/api/static/vendor", tmp_path / "saltlite/api/static/vendor")
    return tmp_path


def run(tree: Path, *command: str) -> tuple[int, str]:
    done = subprocess.run([sys.executable, *command], cwd=tree, capture_output=True, text=True, check=False, timeout=60)
    return done.returncode, done.stdout + done.stderr


def change(path: Path, pattern: str, by: str) -> None:
    text = path.read_text()
    changed = re.sub(pattern, by, text, count=1)
    assert changed != text
    path.write_text(changed)


def test_no_floor_and_no_lock_is_below_a_known_fix(tree: Path) -> None:
    assert run(tree, ".ci/advisories") == (0, "")


CHANGES = [
    (
        "pyproject.toml",
        '"tornado>=[0-9.]+"',
        '"tornado>=6.5.8"',
        "dependencies: tornado>=6.5.8 allows versions below 6.5.9",
    ),
    ("pyproject.toml", '"cryptography>=[0-9.]+"', '"cryptography"', "cryptography allows versions below 50.0.0"),
    ("pyproject.toml", '"urllib3>=[0-9.]+"', '"urllib3>=2.6.3"', "cloud: urllib3>=2.6.3 allows versions below 2.7.0"),
    ("pyproject.toml", '"pyzmq>=26"', '"pyzmq>=26", "simplejson>=1"', "simplejson has no day under"),
    (".ci/run.lock", r"\ntornado==[0-9.]+", "\ntornado==6.5.7", "run.lock: tornado 6.5.7 is older than 6.5.8"),
    (".ci/dev.lock", r"\Z", "--index-url https://example.org/simple\n", "dev.lock names an address"),
    (".ci/dev.lock", r"(?s)--hash=sha256:.*", "", "dev.lock has no hashes"),
]


@pytest.mark.parametrize(("name", "pattern", "by", "says"), CHANGES, ids=[row[3] for row in CHANGES])
def test_the_check_fails_when_something_falls_behind(tree: Path, name: str, pattern: str, by: str, says: str) -> None:
    change(tree / name, pattern, by)
    code, out = run(tree, ".ci/advisories")
    assert (code, says in out) == (1, True), out


@pytest.mark.parametrize("lock", ["run", "dev"])
def test_a_lock_has_every_package_that_pyproject_names_with_a_version_that_it_allows(lock: str) -> None:
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    pinned = dict(re.findall(r"^([a-z0-9-]+)==([^ ;\\]+)", (ROOT / f".ci/{lock}.lock").read_text(), re.MULTILINE))
    extras = project["optional-dependencies"]
    names = ("jinja", "cloud") if lock == "run" else tuple(extras)
    for text in [*project["dependencies"], *(one for name in names for one in extras[name])]:
        requirement = Requirement(text)
        assert requirement.specifier.contains(pinned[canonicalize_name(requirement.name)]), text


def test_the_bill_of_materials_is_valid_and_has_all_that_the_lock_has(tree: Path) -> None:
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    code, out = run(tree, ".ci/sbom.py")
    assert code == 0, out
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(out) is None
    bill = json.loads(out)
    names = re.findall(r"^([a-z0-9-]+)==", (ROOT / ".ci/run.lock").read_text(), re.MULTILINE)
    assert [one["name"] for one in bill["components"] if one["purl"].startswith("pkg:pypi/")] == names
    scripts = {one["purl"]: one["hashes"][0]["content"] for one in bill["components"] if "hashes" in one}
    assert scripts == {
        "pkg:npm/" + file.removesuffix(".mjs").replace("-", "@"): digest for file, digest in VENDORED.items()
    }
    scopes = {one["name"]: one["scope"] for one in bill["components"]}
    assert {scopes[name] for name in ("tornado", "cryptography", "cffi", "pyzmq")} == {"required"}
    assert {scopes[name] for name in ("jinja2", "markupsafe", "botocore")} == {"optional"}
    (own,) = [row for row in bill["dependencies"] if row["ref"].startswith("pkg:pypi/saltlite@")]
    assert {ref.split("/")[1].split("@")[0] for ref in own["dependsOn"]} >= {"tornado", "msgpack", "pyyaml"}


def test_the_same_lock_gives_the_same_bill(tree: Path) -> None:
    assert run(tree, ".ci/sbom.py") == run(tree, ".ci/sbom.py")
    before = run(tree, ".ci/sbom.py")[1]
    change(tree / ".ci/run.lock", r"\ntornado==[0-9.]+", "\ntornado==6.9.9")
    after = run(tree, ".ci/sbom.py")[1]
    assert json.loads(before)["serialNumber"] != json.loads(after)["serialNumber"]
    assert "pkg:pypi/tornado@6.9.9" in after
