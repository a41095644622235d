"""Run functions on other minions and runners on the master, as far as ``peer`` and ``peer_run`` of the master allow
this minion.

For a function the master publishes an ordinary job of the user ``minion:ID``, authorised by the rules of this minion on
exactly the targets. Without a rule it refuses. Functions of ``publish`` cannot be published, nor can a job that
another minion has published publish one. Targets by pillar take whole values, not patterns.

:maintainer:    The saltlite authors
:maturity:      new
:platform:      all
"""

from __future__ import annotations

import secrets
import time
from typing import TYPE_CHECKING, Any

from saltlite.decorators import note
from saltlite.errors import CommandExecutionError

if TYPE_CHECKING:
    from saltlite.loader.hints import __master__, __utils__

_LOOK_S = 0.3
"""Seconds between two requests for returns."""


def publish(  # noqa: PLR0913, PLR0917, RUF100 - Salt's signature
    tgt: str,
    fun: str,
    arg: Any = None,
    tgt_type: str = "glob",
    returner: str = "",
    timeout: float = 5,
    via_master: str | None = None,  # noqa: ARG001 - Salt's argument
) -> dict[str, Any]:
    """Run a function on other minions: a map from targets to returns of those that returned within ``timeout`` seconds.
    The job itself goes on.

    ``arg`` is an argument, or a list of arguments; ``name=value`` is a keyword argument. ``returner`` names returners
    of the master, which its rules must allow. ``via_master`` has no effect: the connected master is asked.

    CLI Example::

        saltlite web1 publish.publish 'db*' test.ping
        saltlite web1 publish.publish 'os:Debian' disk.usage / tgt_type=grain
        saltlite web1 publish.publish db1 test.kwarg arg="['cheese=spam', 'n=1']"
    """
    rows = _published(tgt, fun, arg, tgt_type, returner, timeout)
    return {target: row["ret"] for target, row in rows.items()}


def full_data(  # noqa: PLR0913, PLR0917, RUF100 - Salt's signature
    tgt: str, fun: str, arg: Any = None, tgt_type: str = "glob", returner: str = "", timeout: float = 5
) -> dict[str, dict[str, Any]]:
    """As ``publish.publish``, with ``ret``, ``retcode``, ``success`` and ``jid`` of each target.

    CLI Example::

        saltlite web1 publish.full_data 'db*' service.status mysql
    """
    return _published(tgt, fun, arg, tgt_type, returner, timeout)


def runner(fun: str, arg: Any = None, timeout: float = 5) -> Any:
    """Run a runner on the master, and return what it returns. ``arg`` is as in ``publish.publish``.

    After ``timeout`` seconds this is an error. A runner that has begun goes on; one that waits, because too many others
    run, is not run. A job that a minion or a runner has published runs no runner.

    CLI Example::

        saltlite web1 publish.runner manage.up
        saltlite web1 publish.runner jobs.lookup_jid 20260131020000000000 timeout=20
    """
    args, kwargs = _words(arg)
    fields: dict[str, Any] = {"request_id": secrets.token_hex(16), "fun": fun, "args": args, "kwargs": kwargs}
    give_up_at = time.monotonic() + float(timeout)
    while True:
        answer = _master().ask("run", fields)
        if answer["done"]:
            if answer["retcode"]:
                raise CommandExecutionError(f"The runner {fun} failed: {answer['value']}")
            return answer["value"]
        if not answer.get("waits"):
            # From here on the master starts it for no request, wherever this minion is connected then.
            fields["begun"] = True
        if time.monotonic() > give_up_at:
            if "begun" not in fields:
                raise CommandExecutionError(f"The runner {fun} was not run: too many others ran for {timeout} s.")
            raise CommandExecutionError(f"The runner {fun} has not returned within {timeout} s.")
        time.sleep(_LOOK_S)


def _published(  # noqa: PLR0913, PLR0917, RUF100 - as `publish`
    tgt: str, fun: str, arg: Any, tgt_type: str, returner: str, timeout: float
) -> dict[str, dict[str, Any]]:
    args, kwargs = _words(arg)
    job = _master().ask(
        "publish",
        {
            "request_id": secrets.token_hex(16),
            "tgt": str(tgt),
            "tgt_type": tgt_type,
            "fun": fun,
            "args": args,
            "kwargs": kwargs,
            "ret": returner,
        },
    )
    give_up_at, after = time.monotonic() + float(timeout), 0
    found: dict[str, dict[str, Any]] = {}
    while True:
        page = __master__.ask("publish_returns", {"jid": job["jid"], "after": after})
        for target, state, retcode, body, seq in page["returns"]:
            after = seq
            if state == "returned":
                value = __master__.decoded(body)
                found[target] = {"ret": value, "retcode": retcode, "success": retcode == 0, "jid": job["jid"]}
        if not page["returns"] and not page["open"]:
            return found
        if time.monotonic() > give_up_at:
            note(f"{len(found)} of {job['targets']} targets of job {job['jid']} have returned within {timeout} s")
            return found
        if not page["returns"]:
            time.sleep(_LOOK_S)


def _words(arg: Any) -> tuple[list[Any], dict[str, Any]]:
    words = __utils__["args.yamlify_arg"](arg)
    words = words if isinstance(words, list) else [] if words is None else [words]
    args, kwargs = __utils__["args.parse_input"](words, condition=False)
    return args, kwargs


def _master() -> Any:
    if not hasattr(__master__, "ask"):
        raise CommandExecutionError("This call has no master to publish through.")
    return __master__
