"""Where a master keeps what."""

from __future__ import annotations

import os
from dataclasses import dataclass

from saltlite.config.master import MasterConfig, returner_names

HOOKS = "hooks"
"""What the process of hooks is called."""


@dataclass(frozen=True, slots=True)
class Paths:
    """The files and folders of the master with this configuration."""

    config: MasterConfig

    @property
    def store(self) -> str:
        """The SQLite file."""
        return os.path.join(self.config.data_dir, "store.sqlite")

    @property
    def lock(self) -> str:
        """Held by the one master of this data_dir."""
        return os.path.join(self.config.data_dir, "lock")

    @property
    def copies(self) -> str:
        """The environments of single `saltlite cp` commands."""
        return os.path.join(self.config.cachedir, "copies")

    @property
    def minions(self) -> str:
        """What minions have sent, one folder each."""
        return os.path.join(self.config.cachedir, "minions")

    @property
    def hooks(self) -> str:
        """Where the process of hooks stands in the event log."""
        return os.path.join(self.config.data_dir, "hooks.json")

    def returner(self, name: str) -> str:
        """Where that returner stands in the event log."""
        return os.path.join(self.config.data_dir, "returners", f"{name}.json")

    @property
    def readers(self) -> dict[str, str]:
        """What the processes that read the event log are called, and where each notes how far it is."""
        of_returners = {f"returner {name}": self.returner(name) for name in returner_names(self.config)}
        return of_returners | ({HOOKS: self.hooks} if self.config.hooks else {})

    @property
    def client_socket(self) -> str:
        """Where the CLI and the API connect."""
        return os.path.join(self.config.sock_dir, "master.ipc")

    @property
    def auth_socket(self) -> str:
        """Where MWorkers have passwords checked."""
        return os.path.join(self.config.sock_dir, "auth.ipc")

    @property
    def evaluator_socket(self) -> str:
        """Where MWorkers have pillars made."""
        return os.path.join(self.config.sock_dir, "evaluators.ipc")

    @property
    def link_socket(self) -> str:
        """Where MWorkers connect to the link process."""
        return os.path.join(self.config.sock_dir, "link.ipc")
