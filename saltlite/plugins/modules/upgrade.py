"""Bring this minion to another version of saltlite; ``saltlite upgrade`` calls these functions.

:maintainer:    The saltlite authors
:maturity:      new
:platform:      Linux
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from saltlite.errors import CommandExecutionError, SaltInvocationError
from saltlite.model.files import is_area

if TYPE_CHECKING:
    from saltlite.loader.hints import __file_client__, __opts__


def install(area: str, manifest: str, key: str, signature: str, within: float = 60) -> dict[str, str]:
    """Install the bundle in an area of the master beside this version, and restart the minion with it.

    The ``key`` of the fleet has to have made the ``signature`` of the ``manifest``. If the new version has no session
    with a master ``within`` these seconds, the minion goes back to this one by itself.

    CLI Example::

        saltlite upgrade '*'
        saltlite '*' upgrade.install copy-0123456789abcdef0123456789abcdef '{"version": "0.2.0"}' 00 00
    """
    if not is_area(area):
        raise SaltInvocationError("This function is called by `saltlite upgrade`.")
    done: dict[str, str] = _installer().install(area, manifest, key, signature, float(within))
    return done


def state() -> dict[str, Any]:
    """The version that runs, whether another one is tried out, and how the last upgrade ended.

    CLI Example::

        saltlite '*' upgrade.state
    """
    found: dict[str, Any] = _installer().state()
    return found


def _installer() -> Any:
    if not hasattr(__file_client__, "versions") or "data_dir" not in __opts__:
        raise CommandExecutionError("This call runs without a minion, so there is nothing to upgrade.")
    return __file_client__.versions(__opts__["data_dir"], __opts__["pki_dir"])
