"""Who may do what: the one decision for every way into the master (R8).

Deny by default. Today there is one kind of principal that may do anything: an operator, who is root or whoever
started the master, as the kernel proves through the Unix socket. A master that was started as root and became another
user does not count that user: its link process, which reads what strangers send, must not be able to publish (S10).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from saltlite.errors import RefusedError
from saltlite.model.ids import MinionId, TargetId

OPERATOR_VERBS = frozenset(
    {
        "publish",
        "copy_begin",
        "copy_put",
        "copy_end",
        "describe",
        "follow",
        "heard",
        "job_kill",
        "job_list",
        "job_show",
        "events",
        "status",
        "key_list",
        "key_change",
        "key_preaccept",
        "key_finger",
        "token_create",
        "minions",
        "lacking",
        "match",
        "pillar_show",
        "resource_list",
        "resource_owner",
        "resource_grains",
        "resource_list_grains",
        "resource_transfer",
        "resource_stats",
        "resource_compact",
        "resource_verify",
        "runner_event",
        "complete",
    }
)


@dataclass(frozen=True, slots=True)
class Principal:
    """Somebody who asks, as the kernel named them."""

    user: str
    uid: int


@dataclass(frozen=True, slots=True)
class Action:
    """What they ask for. `minions` and `resources` (SRNs) are exactly what a job would go to; empty for other verbs."""

    verb: str
    fun: str = ""
    minions: Sequence[MinionId] = ()
    resources: Collection[TargetId] = ()


def authorize(principal: Principal, action: Action, operators: Collection[int]) -> None:
    """Return if the principal may do this; RefusedError otherwise. `operators` are the uids of operators."""
    if action.verb in OPERATOR_VERBS and principal.uid in operators:
        return
    raise RefusedError(
        f"{principal.user} (uid {principal.uid}) may not {action.verb.replace('_', ' ')}: "
        "run it as root, or as the user who started the master"
    )
