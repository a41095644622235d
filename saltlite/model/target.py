"""What an operator points a job at: a kind of expression and its text."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class TargetKind(StrEnum):
    """How the expression is read. The names are Salt's `tgt_type` values."""

    GLOB = "glob"
    LIST = "list"
    PCRE = "pcre"
    GRAIN = "grain"
    GRAIN_PCRE = "grain_pcre"
    PILLAR = "pillar"
    PILLAR_PCRE = "pillar_pcre"
    IPCIDR = "ipcidr"
    NODEGROUP = "nodegroup"
    COMPOUND = "compound"


@dataclass(frozen=True, slots=True)
class Target:
    """A target as it was typed; it is resolved on the master, once, at publish time."""

    expression: str
    kind: TargetKind = TargetKind.GLOB
