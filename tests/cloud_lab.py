"""A configuration of clouds beside a master's, whose machines are processes here: tests/data/clouds/scripted.py.

What belongs here: writing files, typing command lines, and looking at events. What does not: what the tests expect.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

from tests.e2e.fleet import Fleet, Said

DRIVER = Path(__file__).parent / "data" / "clouds" / "scripted.py"
PROVIDER = "my-cloud-provider"
IMAGE = "Ubuntu 13.10 64-bit"

PLANTED: dict[str, dict[str, Any]] = {
    "provider": {"api_key": "planted-api-key-31337", "options": {"token": "planted-token-deep-31337"}},
    "profile": {
        "ssh_password": "planted-password-31337 'quoted'",
        "sudo_password": "planted-sudo-31337",
        "userdata": "planted-userdata-31337",
        "script_env": {"REGISTRY_TOKEN": "planted-env-31337"},
        "private_key_text_secret": "-----BEGIN PRIVATE KEY-----\nplantedkeyline31337AAAA\n-----END PRIVATE KEY-----",
        "minion_pub": "ssh-ed25519 AAAAplantedpublickey31337AAAAAAAA me@example",
        "nested": [{"credentials": {"client_secret": "planted-in-a-list-31337"}}],
    },
}
"""Secrets in every kind of place."""
MARK = "31337"


class Lab:
    """The files, and the command `saltlite-cloud` on them."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.folder = fleet.folder / "master"
        self.machines = fleet.folder / "machines"
        self.machines.mkdir(exist_ok=True)
        drivers = fleet.folder / "drivers"
        drivers.mkdir(mode=0o755, exist_ok=True)
        shutil.copy(DRIVER, drivers)
        self.folder.mkdir(exist_ok=True)
        self.write(
            "cloud", {"root_dir": str(self.folder / "root"), "cloud_dirs": [str(drivers)], "wait_for_minion": 20}
        )
        self.provider()
        self.profile("small")

    def write(self, name: str, options: dict[str, Any]) -> Path:
        """A file of the configuration; JSON values are YAML."""
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("".join(f"{key}: {json.dumps(value)}\n" for key, value in options.items()))
        return path

    def provider(self, **settings: Any) -> None:
        """The provider, with these settings besides."""
        given = {"driver": "scripted", "folder": str(self.machines), **settings}
        self.write("cloud.providers.d/lab.conf", {PROVIDER: {k: v for k, v in given.items() if v is not None}})

    def profile(self, name: str, **settings: Any) -> None:
        """A profile, with these settings besides."""
        given = {"provider": PROVIDER, "image": IMAGE, "size": "small", "minion": {"master": "127.0.0.1"}, **settings}
        self.write(f"cloud.profiles.d/{name}.conf", {name: given})

    def run(self, *words: str) -> Said:
        """`saltlite-cloud words`, to its end."""
        return self.fleet.cli("cloud", "--out", "json", *words)

    def start(self, *words: str) -> subprocess.Popen[str]:
        """The same, running."""
        return self.fleet.start_cli("cloud", "--out", "json", *words)

    def there(self) -> set[str]:
        """The machines that the provider has, as it says itself."""
        path = self.machines / "machines.json"
        return set(json.loads(path.read_text())) if path.exists() else set()

    def events(self, machine: str = "") -> list[tuple[str, dict[str, Any]]]:
        """(what, data) of the events of machines, in order."""
        with self.fleet.store() as store:
            found = [event for event in store.events(0, 10**6) if event.tag.startswith(f"salt/cloud/{machine}")]
        return [(event.tag.removeprefix(f"salt/cloud/{machine}").lstrip("/"), dict(event.data)) for event in found]

    def cached(self) -> list[Path]:
        """The files of machines in the cache."""
        return list((self.folder / "root/var/cache/saltlite/cloud/active").rglob("*.json"))
