"""What the verbs `saltlite key fleet ...` share: the master's configuration, and waiting until the master uses a key.

They work on the files of this machine's master and run as their owner, root: the fleet key is in no process that
could be asked for it.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from saltlite.cli.configs import config_dir_of
from saltlite.cli.diagnosis.look import daemon_pid
from saltlite.cli.diagnosis.master_look import own_address
from saltlite.config.load import load_master
from saltlite.errors import LinkError, RemoteProtocolError, SaltliteError, UsageError
from saltlite.platform.master_probe import probe_master

if TYPE_CHECKING:
    from saltlite.cli.console import Console
    from saltlite.cli.options import Parsed
    from saltlite.config.master import MasterConfig
    from saltlite.model.keys import Fingerprint

USED_S = 30.0
"""How long a running master may take until it shows another fleet key."""
PROBE_S = 2.0
AGAIN_S = 0.2


def config_of(parsed: Parsed) -> MasterConfig:
    """The configuration of the master that the command is about. Raises ConfigError, and UsageError for words."""
    if parsed.words:
        raise UsageError(f"{parsed.words[0]!r} is too much: this command is about the master of this machine")
    return load_master(config_dir_of(parsed)).config


def runs(config: MasterConfig) -> bool:
    """Whether the master runs."""
    return daemon_pid(os.path.join(config.data_dir, "lock")) is not None


def shown_fleet(config: MasterConfig) -> Fingerprint | None:
    """The fleet that the master proves on its port; None when it proves nothing there."""
    try:
        return probe_master(own_address(config), PROBE_S).fleet
    except (LinkError, RemoteProtocolError):
        return None


def wait_until_used(config: MasterConfig, fleet: Fingerprint, console: Console) -> None:
    """Return when the master that runs here, if one does, proves that fleet. Raises SaltliteError after USED_S."""
    if not runs(config):
        console.note("The master does not run here: it uses the new key from its next start on.")
        return
    give_up_at = time.monotonic() + USED_S
    while shown_fleet(config) != fleet:
        if time.monotonic() > give_up_at:
            raise SaltliteError(
                f"the new fleet key is on the disk, but the running master does not show it after {USED_S:g} s: its "
                "log says why; it uses the key from its next start on"
            )
        time.sleep(AGAIN_S)
    console.note("The running master uses it.")
