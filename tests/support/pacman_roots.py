"""Roots that pacman works on, and small packages and a repository for them, built without any of its tools."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath


@dataclass(frozen=True)
class Package:
    """What a package holds: path below the root -> text."""

    name: str
    version: str
    files: dict[str, str]
    depends: Sequence[str] = ()
    groups: Sequence[str] = ()

    @property
    def file_name(self) -> str:
        """How its archive is called."""
        return f"{self.name}-{self.version}-any.pkg.tar.gz"


def build(folder: Path, package: Package) -> Path:
    """Write the archive of a package."""
    lines = [f"pkgname = {package.name}", f"pkgbase = {package.name}", f"pkgver = {package.version}"]
    lines += ["pkgdesc = a package of the tests", "builddate = 1", "packager = nobody", "size = 10", "arch = any"]
    lines += [f"depend = {each}" for each in package.depends] + [f"group = {each}" for each in package.groups]
    members = {".PKGINFO": "\n".join(lines).encode() + b"\n"}
    members |= {path: text.encode() for path, text in package.files.items()}
    folders = {str(parent) for path in package.files for parent in PurePosixPath(path).parents} - {"."}
    # pacman takes the list of files from here, where a space is written as its octal code.
    rows = [f"./{path} type=dir uid=0 gid=0 mode=755" for path in sorted(folders)]
    rows += ["./" + path.replace(" ", "\\040") + " type=file uid=0 gid=0 mode=644" for path in members]
    members[".MTREE"] = gzip.compress(("#mtree\n" + "\n".join(rows) + "\n").encode(), mtime=0)
    made = folder / package.file_name
    with tarfile.open(made, "w:gz") as archive:
        for path in sorted(folders):
            entry = tarfile.TarInfo(path)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            archive.addfile(entry)
        for path, data in members.items():
            entry = tarfile.TarInfo(path)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return made


def publish(folder: Path, repository: str, packages: Sequence[Package]) -> None:
    """Write the packages and the database of a repository that has them."""
    folder.mkdir(parents=True, exist_ok=True)
    database = folder / f"{repository}.db"
    # pacman fetches a database only if that is a later one, and knows whole seconds.
    moment = database.stat().st_mtime + 60 if database.exists() else 1_700_000_000
    with tarfile.open(database, "w:gz") as archive:
        for package in packages:
            path = build(folder, package)
            data = path.read_bytes()
            fields: dict[str, Sequence[str]] = {
                "FILENAME": [path.name],
                "NAME": [package.name],
                "VERSION": [package.version],
                "GROUPS": package.groups,
                "CSIZE": [str(len(data))],
                "ISIZE": ["10"],
                "SHA256SUM": [hashlib.sha256(data).hexdigest()],
                "ARCH": ["any"],
                "DEPENDS": package.depends,
            }
            text = "".join(f"%{name}%\n" + "\n".join(rows) + "\n\n" for name, rows in fields.items() if rows)
            entry = tarfile.TarInfo(f"{package.name}-{package.version}/desc")
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
    os.utime(database, (moment, moment))


def make_root(folder: Path, repository: str, packages: Path) -> Path:
    """An empty root whose configuration knows one repository."""
    root = folder / "root"
    (root / "var/lib/pacman").mkdir(parents=True)
    (root / "var/cache/pacman/pkg").mkdir(parents=True)
    (root / "etc").mkdir()
    (root / "etc/pacman.conf").write_text(
        f"[options]\nArchitecture = auto\nSigLevel = Never\n\n[{repository}]\nServer = file://{packages}\n"
    )
    return root
