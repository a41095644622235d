"""Roots that apt and dpkg work on, and small packages and a repository for them; nothing of the machine is changed."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Package:
    """What a package holds: path below the root -> text; `fields` are further ones of its control file."""

    name: str
    version: str
    files: dict[str, str] = field(default_factory=dict)
    fields: dict[str, str] = field(default_factory=dict)

    @property
    def control(self) -> str:
        """Its control file."""
        rows = {"Package": self.name, "Version": self.version, "Architecture": "all"}
        rows |= {"Maintainer": "nobody <nobody@example.org>", **self.fields}
        rows["Description"] = "a package of the tests\n It has: a colon in its second line."
        return "".join(f"{key}: {value}\n" for key, value in rows.items())


def build(folder: Path, package: Package) -> Path:
    """Write the archive of a package."""
    tree = folder / f".{package.name}-{package.version}"
    for path, text in {**package.files, "DEBIAN/control": package.control}.items():
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        (tree / path).write_text(text)
    made = folder / f"{package.name}_{package.version.replace(':', '%3a')}_all.deb"
    argv = ["dpkg-deb", "-Znone", "--root-owner-group", "--build", str(tree), str(made)]
    subprocess.run(argv, check=True, capture_output=True)
    return made


def publish(folder: Path, packages: Sequence[Package]) -> str:
    """Write packages and the index of a repository that has them; the line that makes it a source."""
    folder.mkdir(parents=True, exist_ok=True)
    stanzas = []
    for package in packages:
        path = build(folder, package)
        data = path.read_bytes()
        digest = hashlib.sha256(data).hexdigest()
        stanzas.append(f"{package.control}Filename: ./{path.name}\nSize: {len(data)}\nSHA256: {digest}\n")
    (folder / "Packages").write_text("\n".join(stanzas))
    return f"deb [trusted=yes] file:{folder} ./"


def make_root(folder: Path, *sources: str) -> dict[str, str]:
    """An empty root with these lines as its sources; the environment in which apt and dpkg work on it."""
    root = folder / "root"
    for part in ("var/lib/dpkg/updates", "var/lib/dpkg/info", "var/log/apt", "var/lib/apt/lists/partial"):
        (root / part).mkdir(parents=True)
    for part in ("var/cache/apt/archives/partial", "etc/apt/sources.list.d", "etc/apt/trusted.gpg.d", "tmp"):
        (root / part).mkdir(parents=True)
    (root / "var/lib/dpkg/status").touch()
    (root / "etc/apt/sources.list").write_text("".join(f"{line}\n" for line in sources))
    configuration = folder / "apt.conf"
    configuration.write_text(
        f'Dir "{root}";\nDir::State::status "{root}/var/lib/dpkg/status";\nDir::Bin::dpkg "/usr/bin/dpkg";\n'
        'APT::Sandbox::User "root";\nAcquire::Languages "none";\nDPkg::Use-Pty "false";\n'
    )
    return {"APT_CONFIG": str(configuration), "DPKG_ROOT": str(root), "DPKG_ADMINDIR": f"{root}/var/lib/dpkg"}
