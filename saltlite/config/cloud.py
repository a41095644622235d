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
        "Moves every path that is not written absolute in this file, the defaults included, so that a whole "
        "installation fits below one folder.",
        FilePath(absolute=True),
    )
    cachedir: str = option(
        "/var/cache/saltlite/cloud",
        "The folder of what is kept between two commands: machines that are half made, known machines, host keys, and "
        "what drivers keep. It belongs to whoever runs the command.",
        FilePath(),
    )
    cloud_dirs: list[str] = option(  # noqa: RUF009 - a fresh copy for each configuration
        [],
        "Folders with more drivers; asked after the master's module_dirs and extension_modules. Whoever can write "
        "there runs code as the operator.",
        FilePaths(),
    )
    deploy_scripts_search_path: list[str] = option(  # noqa: RUF009 - as above
        [],
        "Folders in which the setting `script` of a machine is looked for, after cloud.deploy.d beside this file.",
        FilePaths(),
    )
    deploy: bool = option(
        True,
        "Whether new machines become minions, where neither the machine nor its profile or provider says.",
        FlagKind(),
    )
    script: str = option(
        "",
        "The script that makes a machine a minion, where nobody says; '' means the one that comes with saltlite.",
        TextKind(check=require_path),
    )
    minion: dict[str, Any] = option(  # noqa: RUF009 - as above
        {},
        "Options of the minions on all machines, such as {master: 10.0.0.1}; those of machine, profile and provider "
        "win.",
        AnyMap(),
    )
    append_domain: str = option(
        "",
        "What is put behind the name of a machine, with a dot, to make the id of its minion.",
        TextKind(),
    )
    defaults: dict[str, Any] = option(  # noqa: RUF009 - as above
        {},
        "Any other settings that hold for all machines and providers which do not say otherwise.",
        AnyMap(),
    )
    destroy_on_failure: bool = option(
        True,
        "Whether a machine that did not become what it should be is destroyed; a machine and its profile may say so "
        "too.",
        FlagKind(),
    )
    join_token_expires: float = option(
        HOUR,
        "How long the join token of a new machine is good for: longer than any create takes.",
        Duration(MINUTE, 7 * DAY),
    )
    wait_for_minion: float = option(
        5 * MINUTE,
        "How long to wait for the minion of a machine that was deployed.",
        Duration(1.0, DAY),
    )
    parallel_max: int = option(
        10,
        "How many machines are made or destroyed at the same time with -P.",
        IntegerKind(1, 100),
        unit="machines",
    )
    update_cachedir: bool = option(
        True,
        "Whether what providers say of their machines is kept in cachedir.",
        FlagKind(),
    )
    filter_events: dict[str, Any] = option(  # noqa: RUF009 - as above
        {},
        "Which settings events have besides, as far as they are no secrets: {requesting: {keys: [image]}}; with "
        "use_defaults: false those only.",
        AnyMap(),
    )
    log_level: str = option(
        "warning",
        "The least severe messages that are written to standard error.",
        Choice(LOG_LEVELS),
    )
    module_config: dict[str, Any] = field(default_factory=dict)
    """Keys with a dot: `query.selection` is a list of fields."""
