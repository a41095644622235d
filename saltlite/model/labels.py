"""How people see the targets of a job: the key of each in what a client prints."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:  # the command, whose start this is part of, needs none of these
    from collections.abc import Iterable


def labels(minions: Iterable[str], srns: Iterable[str]) -> dict[str, str]:
    """For each target what it is called: a minion by its id, a resource by its bare id where nothing else of this job
    has that name, and by its SRN otherwise."""
    names = {minion: minion for minion in minions}
    bare = {srn: srn.partition(":")[2] for srn in srns}
    taken: dict[str, int] = dict.fromkeys(names, 1)
    for name in bare.values():
        taken[name] = taken.get(name, 0) + 1
    # A bare id may have a colon, and look like the SRN of another resource.
    return {**names, **{srn: name if taken[name] == 1 and name not in bare else srn for srn, name in bare.items()}}
