"""What a process of the evaluators does for one question, and the port behind which MWorkers have it done.

Pillar files are somebody's text: a template can loop for ever or fill the memory. So no MWorker compiles a pillar.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from saltlite.errors import LocalProtocolError, SaltliteError
from saltlite.model.ids import MinionId
from saltlite.pillar.compiler import ERRORS
from saltlite.pillar.ports import Nodegroups, PillarFiles
from saltlite.pillar.subject import names_of, pillar_of
from saltlite.wire.codec import encode_document


@dataclass(frozen=True, slots=True)
class Wanted:
    """A question: the pillar of `minion`, made with these grains. `names`: also the files that it is made of.

    `asker` is whom the time is counted against: a minion, or an operator.
    """

    asker: str
    minion: MinionId
    grains: Mapping[str, Any]
    names: bool = False


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What came of it: the pillar as an encoded document, or a sentence in `problem`."""

    data: bytes = b""
    errors: tuple[str, ...] = ()
    """Mistakes in pillar files; they are in the document too."""
    top: Mapping[str, list[str]] = field(default_factory=dict)
    """Environment -> names of the files, if they were asked for."""
    mistakes: tuple[str, ...] = ()
    """Mistakes in top files, if the names were asked for."""
    problem: str = ""
    unsendable: bool = False
    """The pillar was made, and no document can hold it: asking again is of no use."""
    ended: bool = False
    """The evaluation took too much, and its process was killed."""
    file: str = ""
    """Where it was then: `environment/path`."""


class Evaluator(Protocol):
    """Makes pillars."""

    def evaluate(self, wanted: Wanted, done: Callable[[Evaluation], None]) -> None:
        """`done` gets what came of it, once, now or in a later turn."""
        ...


def evaluated(files: PillarFiles, nodegroups: Nodegroups, wanted: Wanted) -> Evaluation:
    """Compile it here and now, however long that takes."""
    top: Mapping[str, list[str]] = {}
    mistakes: list[str] = []
    try:
        if wanted.names:
            top, mistakes = names_of(files, wanted.minion, wanted.grains, nodegroups)
        pillar = pillar_of(files, wanted.minion, wanted.grains, nodegroups)
        data = encode_document(pillar)
    except LocalProtocolError as error:
        return Evaluation(problem=str(error), unsendable=True)
    except SaltliteError as error:
        return Evaluation(problem=str(error))
    return Evaluation(data, tuple(pillar.get(ERRORS, ())), top, tuple(mistakes))
