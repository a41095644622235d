"""The options of `saltlite cloud`: the file `cloud`. `saltlite.cloud.program.files` reads it, providers and
profiles.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from saltlite.config.options import (
    AnyMap,
    Choice,
    Duration,
    FilePath,
    FilePaths,
    FlagKind,
    IntegerKind,
    TextKind,
    option,
)
from saltlite.config.paths import DEFAULT_ROOT_DIR, require_path
from saltlite.config.values import DAY, LOG_LEVELS

MINUTE, HOUR = 60.0, 3600.0

SELECTION = ("id", "state", "public_ips", "private_ips")
"""The fields of `-S` where the option `query.selection` does not say."""


@dataclass(frozen=True, slots=True)
class CloudConfig:
    """The configuration of `saltlite cloud`. Durations are seconds; paths are final (see `options.assemble`)."""

    root_dir: str = option(
        DEFAULT_ROOT_DIR,
        "Moves every path that is not absolute in this file, the defaults included, so that a complete installation "
        "fits below one folder.",
        FilePath(absolute=True),
    )
    cachedir: str = option(
        "/var/cache/saltlite/cloud",
        "The folder of data between two commands: unfinished and known machines, host keys, and data of drivers. It "
        "belongs to the user who runs the command.",
        FilePath(),
    )
    cloud_dirs: list[str] = option(  # noqa: RUF009 - a fresh copy for each configuration
        [],
        "Folders with more drivers, searched after the master's module_dirs and extension_modules. Everybody who can "
        "write to these folders can run code as the operator.",
        FilePaths(),
    )
    deploy_scripts_search_path: list[str] = option(  # noqa: RUF009 - as above
        [],
        "Folders in which the setting `script` of a machine is searched, after cloud.deploy.d beside this file.",
        FilePaths(),
    )
    deploy: bool = option(
        True,
        "Whether new machines become minions, unless the machine, its profile or its provider sets it.",
        FlagKind(),
    )
    script: str = option(
        "",
        "The script that turns a machine into a minion, unless the machine, its profile or its provider sets it; '' "
        "means the one that ships with saltlite.",
        TextKind(check=require_path),
    )
    minion: dict[str, Any] = option(  # noqa: RUF009 - as above
        {},
        "Options of the minions on all machines, such as {master: 10.0.0.1}; those of machine, profile and provider "
        "override them.",
        AnyMap(),
    )
    append_domain: str = option(
        "",
        "Appended to the name of a machine, with a dot, to form the id of its minion.",
        TextKind(),
    )
    defaults: dict[str, Any] = option(  # noqa: RUF009 - as above
        {},
        "Other settings for all machines and providers that do not set them.",
        AnyMap(),
    )
    enable_hard_maps: bool = option(
        False,
        "Whether -H may destroy the machines that are at the providers of a map and not in the map.",
        FlagKind(),
    )
    destroy_on_failure: bool = option(
        True,
        "Whether a machine is destroyed if its creation failed; a machine and its profile may set it, too.",
        FlagKind(),
    )
    join_token_expires: float = option(
        HOUR,
        "How long the join token of a new machine is valid. Creating the machine must take less time.",
        Duration(MINUTE, 7 * DAY),
    )
    wait_for_minion: float = option(
        5 * MINUTE,
        "How long to wait for the minion of a deployed machine.",
        Duration(1.0, DAY),
    )
    parallel_max: int = option(
        10,
        "How many machines are created or destroyed at the same time with -P.",
        IntegerKind(1, 100),
        unit="machines",
    )
    update_cachedir: bool = option(
        True,
        "Whether the answers of providers about machines are stored in cachedir.",
        FlagKind(),
    )
    filter_events: dict[str, Any] = option(  # noqa: RUF009 - as above
        {},
        "Additional settings in events, unless they are secrets: {requesting: {keys: [image]}}; with use_defaults: "
        "false, only these.",
        AnyMap(),
    )
    log_level: str = option(
        "warning",
        "The least severe messages that are written to standard error.",
        Choice(LOG_LEVELS),
    )
    module_config: dict[str, Any] = field(default_factory=dict)
    """Keys with a dot: `query.selection` is a list of fields."""
