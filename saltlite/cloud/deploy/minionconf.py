"""The configuration of the minion that a machine becomes: put together here, and read here before it travels.

It goes into `minion.d/90-cloud.conf`, so that it wins over what an image brought along, and replaces no file.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from saltlite.cloud.api.minionfile import lines_of, read_back
from saltlite.cloud.deploy.readings import Readings
from saltlite.cloud.rules.minionconfig import minion_settings
from saltlite.errors import ConfigError, UsageError
from saltlite.model.ids import parse_minion_id


@dataclass(frozen=True, slots=True)
class MinionPaths:
    """Where the minion keeps what it has, as far as its configuration is ours."""

    config_dir: str
    user: str
    data_dir: str
    owned: tuple[str, ...]
    """Folders and files that it makes itself, and that go when it goes."""

    @property
    def folder(self) -> str:
        """Where the deployment keeps its list of what it made, and the join token."""
        return os.path.join(self.config_dir, "cloud")

    @property
    def token_file(self) -> str:
        """The file of the join token."""
        return os.path.join(self.folder, "join_token")


def minion_options(read: Readings, vm_: Mapping[str, Any], opts: Mapping[str, Any]) -> dict[str, Any]:
    """The options of the minion, its grains among them. Raises SaltCloudConfigError for what no minion could read."""
    for name in ("minion", "grains"):
        read.mapping(name)
    options = minion_settings(vm_, opts)
    if "master" not in options and vm_.get("master"):
        options["master"] = vm_["master"]
    # It travels in a file of its own: the configuration can then be shown to people.
    options.pop("join_token", None)
    try:
        parse_minion_id(options["id"])
        read_back(options)
    except UsageError as error:
        raise read.wrong("minion", f"has no id that works: {error}") from error
    except ConfigError as error:
        raise read.wrong("minion", f"cannot be used: {error}") from error
    return options


def paths_of(options: Mapping[str, Any], config_dir: str) -> MinionPaths:
    """Where such a minion keeps what it has. `options` are those of `minion_options`."""
    config = read_back(options)
    owned = [config.pki_dir, config.data_dir, config.cachedir, config.log_file]
    return MinionPaths(config_dir, config.user, config.data_dir, tuple(path for path in owned if path))


def rendered(options: Mapping[str, Any], paths: MinionPaths, *, token: bool) -> str:
    """The file; with `token`, the minion also reads the file of the join token."""
    lines = dict(options)
    if token:
        lines["join_token_file"] = paths.token_file
    return _HEAD + lines_of(lines)


_HEAD = "# Written by `saltlite cloud` when this machine was deployed.\n"
