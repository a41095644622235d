"""Returns for a person at a terminal: equal answers once, under the folded names of all who gave them."""

from __future__ import annotations

from saltlite.cli.nodeset import nodeset
from saltlite.cli.targets import targets_text
from saltlite.plugins.output._paint import BAD, TEXT, Paint
from saltlite.plugins.output.nested import body

TYPE_CHECKING = False  # typing costs as much start-up time as all of the command line
if TYPE_CHECKING:
    from collections.abc import Sequence

    from saltlite.cli.console import Console
    from saltlite.cli.outcome import Missing
    from saltlite.client.waiting import Reply, Update

    Answer = tuple[bool, str, str]
    """Whether it failed, how, and the text of the return."""


class EqualAnswers:
    """Holds every distinct answer as text until the job ends: large groups first, failures last."""

    names_failures = True

    def __init__(self, console: Console, *, color: bool) -> None:
        self._console = console
        self._color = color
        self._paint = Paint(color=color)
        self._groups: dict[Answer, list[str]] = {}
        self._resources: set[str] = set()

    def start(self) -> None:
        """Nothing to say yet."""

    def take(self, update: Update) -> None:
        """Put each return to those that look the same."""
        for reply in update.replies:
            if reply.has_value:
                text = body(reply.value, color=self._color, failed=reply.failed())
                self._groups.setdefault((reply.failed(), _how(reply), text), []).append(reply.name)
                if reply.minion:
                    self._resources.add(reply.name)

    def finish(self, _missing: Sequence[Missing], _code: int) -> None:
        """Print the groups."""
        order = sorted(self._groups.items(), key=lambda item: (item[0][0], -len(item[1]), min(item[1])))
        for (failed, how, text), names in order:
            self._console.data(self._heading(names, how, failed=failed) + text)

    def _heading(self, names: list[str], how: str, *, failed: bool) -> str:
        marks = ("\u2713", "\u2717") if self._console.has_symbols() else ("ok:", "failed:")
        resources = len(self._resources.intersection(names))
        amount = targets_text(len(names) - resources, resources)
        shown = nodeset(names) if len(names) == 1 else f"{amount}  {nodeset(names)}"
        first = f"{marks[failed]} {shown}"
        return self._paint(BAD if failed else TEXT, f"{first}  {how}" if how else first) + "\n"


def _how(reply: Reply) -> str:
    if reply.state != "returned":
        return reply.state
    return f"retcode {reply.retcode}" if reply.failed() else ""
