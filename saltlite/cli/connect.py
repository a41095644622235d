"""From the options of a command to a client of the right master."""

from __future__ import annotations

from saltlite.client.local import LocalClient
from saltlite.config import fast
from saltlite.config.paths import DEFAULT_CONFIG_DIR, master_socket

TYPE_CHECKING = False  # typing costs as much start-up time as all of the command line
if TYPE_CHECKING:
    from saltlite.cli.options import Parsed


def open_client(parsed: Parsed) -> LocalClient:
    """A client of the master whose configuration folder `-c` names. It is
    whoever runs this, or with -a and -T whoever logs in. Raises ConfigError, and LoginError.
    """
    config_dir: str = parsed.options.get("config_dir", DEFAULT_CONFIG_DIR)
    client = LocalClient(fast.socket_path(config_dir) or _configured_socket(config_dir))
    if "auth" in parsed.options or parsed.on("make_token"):
        from saltlite.cli.credentials import log_in

        log_in(client, parsed, config_dir)
    return client


def _configured_socket(config_dir: str) -> str:
    """For configurations that need real YAML to be understood, or that are wrong and need to be told so."""
    from saltlite.config.load import load_master

    return master_socket(load_master(config_dir).config.sock_dir)
