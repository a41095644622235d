"""Installs another version of saltlite beside the minion's, from a bundle on the master.

A bundle is believed if the key of the fleet, which only the master's root can use, has signed its manifest. Nothing of
it runs before that was checked, and nothing is changed unless the new version starts.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from typing import Any, Protocol

from saltlite import __version__
from saltlite.errors import CommandExecutionError, ProtocolError, StartupError, UsageError
from saltlite.model.files import FileAddress
from saltlite.model.keys import fingerprint, parse_fingerprint
from saltlite.platform import versions
from saltlite.platform.privileges import read_secret
from saltlite.wire.signatures import BUNDLE_DOMAIN, is_signed

NAME = "bundle.tar"
ROOM = 8
"""How many times its size a bundle takes on the disk, while it is installed."""
STEP_S = 300.0
_RELEASE = re.compile(r"\d+(\.\d+)*", re.ASCII)
"""The versions of bundles. A pre-release would have to be older than its release; there are none."""
_TELLING = re.compile(r"ERROR: .*|.*No space left on device.*|.*Error: .*")


class BundleSource(Protocol):
    """Fetches files of the master: `saltlite.files.client.FileClient`."""

    def fetch(self, address: FileAddress, dest: str) -> bool:
        """Replace `dest` by a served file; False when there is no such file. Raises OSError."""
        ...


class VersionInstaller:
    """Installs versions for the minion with this data_dir and pki_dir. Every error is a CommandExecutionError."""

    def __init__(self, source: BundleSource, data_dir: str, pki_dir: str) -> None:
        self._source = source
        self._data_dir = data_dir
        self._pki_dir = pki_dir

    def install(self, area: str, manifest: str, key: str, signature: str, within_s: float) -> dict[str, str]:
        """Install the bundle in an area of the master, and restart the minion with it: `was`, `version`, `state`.

        `key` and `signature` are hexadecimal. If the new version has no session `within_s` seconds later, the minion
        goes back by itself.
        """
        wanted = self._verified(manifest, key, signature)
        version = str(wanted["version"])
        if not _RELEASE.fullmatch(version):
            raise CommandExecutionError(f"The bundle is of {version[:80]!r}, which is no release of saltlite.")
        if _numbers(version) < _numbers(__version__):
            raise CommandExecutionError(
                f"This minion has saltlite {__version__}, and the bundle is of the older {version}."
            )
        if version == __version__:
            return {"was": __version__, "version": version, "state": "current"}
        state = versions.read_state(self._data_dir)
        if state is not None and state["trial"] is not None:
            raise CommandExecutionError("Another upgrade of this minion is under way.")
        tree = f"{version}-{str(wanted['sha256'])[:8]}"
        place = os.path.join(versions.folder_of(self._data_dir), tree)
        _remove_others(self._data_dir, state)
        try:
            self._make(place, area, wanted)
            versions.try_out(self._data_dir, tree, version, within_s)
        except OSError as error:
            shutil.rmtree(place, ignore_errors=True)
            raise CommandExecutionError(f"The new version cannot be installed in {place}: {error.strerror}.") from error
        except CommandExecutionError:
            shutil.rmtree(place, ignore_errors=True)
            raise
        return {"was": __version__, "version": version, "state": "restarting"}

    def state(self) -> dict[str, Any]:
        """`version`, the one that runs; `trial`, whether another is tried out; `last`, how the last upgrade ended."""
        found = versions.read_state(self._data_dir) or {}
        return {"version": __version__, "trial": bool(found.get("trial")), "last": found.get("last")}

    def _verified(self, manifest: str, key: str, signature: str) -> dict[str, Any]:
        try:
            pin = read_secret(os.path.join(self._pki_dir, "fleet.pin"))
            pinned = parse_fingerprint((pin or b"").decode(errors="replace").partition("\n")[0])
            public = bytes.fromhex(key)
            if fingerprint(public) != pinned:
                raise CommandExecutionError("The bundle is signed by another fleet than that of this minion.")
            if not is_signed(public, BUNDLE_DOMAIN, manifest.encode(), bytes.fromhex(signature)):
                raise CommandExecutionError("The manifest was altered: the key of the fleet did not sign it.")
            wanted: dict[str, Any] = json.loads(manifest)
        except (StartupError, ProtocolError, UsageError, ValueError) as error:
            raise CommandExecutionError(f"The bundle cannot be verified: {error}.") from error
        return wanted

    def _make(self, place: str, area: str, wanted: dict[str, Any]) -> None:
        """Make the virtual environment. Raises CommandExecutionError, OSError."""
        folder = os.path.dirname(place)
        os.makedirs(folder, mode=0o755, exist_ok=True)
        found = os.lstat(folder)
        if found.st_uid != os.geteuid() or found.st_mode & 0o022:
            raise CommandExecutionError(f"{folder} belongs to another user, or others may write to it.")
        room = os.statvfs(folder)
        if room.f_bavail * room.f_frsize < ROOM * int(wanted["size"]):
            raise CommandExecutionError(
                f"{folder} needs {ROOM * int(wanted['size']) >> 20} MiB of free space, and has "
                f"{room.f_bavail * room.f_frsize >> 20}."
            )
        shutil.rmtree(place, ignore_errors=True)
        os.mkdir(place, 0o755)
        bundle = os.path.join(place, NAME)
        if not self._source.fetch(FileAddress(NAME, area), bundle):
            raise CommandExecutionError("The bundle is gone from the master: start the upgrade again.")
        with open(bundle, "rb") as file:
            if hashlib.file_digest(file, "sha256").hexdigest() != wanted["sha256"]:
                raise CommandExecutionError("The bundle was altered: it is not the one that the fleet's key signed.")
        wheels = _unpacked(bundle, os.path.join(place, "wheels"))
        _run("a virtual environment", sys.executable, "-m", "venv", "--without-pip", place)
        python = os.path.join(place, "bin", "python")
        installer = next((path for path in wheels if os.path.basename(path).startswith("pip-")), None)
        run_pip = (
            [python, os.path.join(installer, "pip")] if installer else [sys.executable, "-m", "pip", "--python", python]
        )
        options = ["install", "-q", "--disable-pip-version-check", "--no-cache-dir", "--no-index", "--no-compile"]
        source = ["--find-links", os.path.join(place, "wheels"), f"saltlite=={wanted['version']}"]
        _run("the new version", *run_pip, *options, *source)
        _see_the_packages_of_the_base(place)
        shutil.rmtree(os.path.join(place, "wheels"))
        os.unlink(bundle)
        said = _run("the new version", python, os.path.join(place, "bin", "saltlite-minion"), "--version")
        if str(wanted["version"]) not in said:
            raise CommandExecutionError(
                f"The bundle is not of saltlite {wanted['version']}: it says {said.strip()[:80]!r}."
            )


def _unpacked(bundle: str, folder: str) -> list[str]:
    """The wheels in a bundle, as files in a new folder."""
    os.mkdir(folder, 0o700)
    paths = []
    with tarfile.open(bundle) as archive:
        for entry in archive:
            above, _, name = entry.name.rpartition("/")
            if above == "wheels" and name.endswith(".whl") and entry.isfile():
                paths.append(os.path.join(folder, name))
                source = archive.extractfile(entry)
                with open(paths[-1], "wb") as file:
                    file.write(source.read() if source is not None else b"")
    return paths


def _see_the_packages_of_the_base(place: str) -> None:
    """Let modules import what was installed beside the base, behind what the bundle brought."""
    own = os.path.join(place, "lib", f"python{sys.version_info[0]}.{sys.version_info[1]}", "site-packages")
    others = [
        path for path in sys.path if path.endswith(("site-packages", "dist-packages")) and not path.startswith(place)
    ]
    with open(os.path.join(own, "base.pth"), "w", encoding="utf-8") as file:
        file.writelines(f"{path}\n" for path in others)


def _run(what: str, *command: str) -> str:
    """Run a program in an environment that cannot lead it elsewhere; its output."""
    environment = {"PATH": os.environ.get("PATH", os.defpath), "LANG": "C.UTF-8"}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, env=environment, cwd="/", timeout=STEP_S
        )
    except subprocess.TimeoutExpired:
        raise CommandExecutionError(f"Installing {what} took longer than {STEP_S:g}s.") from None
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines()
        telling = [line for line in lines if _TELLING.fullmatch(line)]
        raise CommandExecutionError(f"Installing {what} failed: {(telling or lines or ['no message'])[-1][:300]}")
    return done.stdout


def _remove_others(data_dir: str, state: dict[str, Any] | None) -> None:
    """Remove the trees that do not run."""
    kept = {(state or {}).get("current", ""), versions.own_tree(data_dir)}
    folder = versions.folder_of(data_dir)
    if os.path.isdir(folder):
        for name in set(os.listdir(folder)) - kept:
            shutil.rmtree(os.path.join(folder, name), ignore_errors=True)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version))
