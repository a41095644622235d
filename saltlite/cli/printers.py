"""How the replies of a job are printed: as they arrive, as one document, one line per event, or equal answers together.

`saltlite.cli.following` calls `start`, then `take` with each update, and `finish` once, however the waiting ended,
because what has arrived is worth printing.
"""

from __future__ import annotations

from saltlite.cli.targets import natural_key, nodeset, targets_text
from saltlite.client.follower import PLANNED

TYPE_CHECKING = False  # importing typing takes as long as the rest of the command line
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, Protocol

    from saltlite.cli.console import Console
    from saltlite.cli.outcome import Missing
    from saltlite.cli.output import OutputStyle, Outputters
    from saltlite.client.follower import Progress, Published, Reply, Update

    class Printer(Protocol):
        """Prints the returns of one job."""

        names_failures: bool
        """Whether the output itself names the targets that failed."""

        def start(self) -> None:
            """The job is published."""

        def take(self, update: Update, /) -> None:
            """`Progress` has applied this update."""

        def finish(self, missing: Sequence[Missing], code: int, /) -> None:
            """Nothing more comes; `code` is the exit code."""

    Answer = tuple[bool, str, str]
    """Whether it failed, how, and the text of the return."""


CANCELLED, EXPIRED = "cancelled", "expired"
"""States of a target that a batch never reached, and of others."""
SCHEMA = 1
"""Of `json-full` and `jsonl`. Under one number keys may be added; none is removed or changes its meaning."""


class EachReply:
    """Formats whose text for many targets is the concatenation of the texts for each."""

    names_failures = False

    def __init__(
        self, console: Console, out: str, outputters: Outputters, style: OutputStyle, *, unpaged: bool = True
    ) -> None:
        """`unpaged` is False where one target has one return."""
        self._console = console
        self._out = out
        self._outputters = outputters
        self._style = style
        self._unpaged = unpaged

    def start(self) -> None:
        """Nothing to print yet."""

    def take(self, update: Update) -> None:
        """Print each return."""
        for reply in update.replies:
            if reply.has_value:
                retcode = reply.retcode or int(reply.failed())
                text = self._outputters.render(self._out, {reply.name: reply.value}, self._style, retcode)
                if text:
                    self._console.paged(text, off=self._unpaged)

    def finish(self, _missing: Sequence[Missing], _code: int) -> None:
        """Everything is printed already."""


COLUMNS_MAX = 8
"""A table with a row for each target has at most this many columns; with more values the targets are the columns."""


class OneTable:
    """`--out table`: one table for all targets, in which those that returned the same share a row or a column.

    Maps of plain values are compared with each other. Returns of other kinds have a table each, below the names.
    """

    names_failures = False

    def __init__(self, console: Console, outputters: Outputters, style: OutputStyle, *, unpaged: bool) -> None:
        self._console = console
        self._outputters = outputters
        self._style = style
        self._unpaged = unpaged
        self._groups: dict[str, tuple[Any, list[str]]] = {}

    def start(self) -> None:
        """Nothing to print yet."""

    def take(self, update: Update) -> None:
        """Add each return to those that are equal to it."""
        for reply in update.replies:
            if reply.has_value:
                self._groups.setdefault(repr(reply.value), (reply.value, []))[1].append(reply.name)

    def finish(self, _missing: Sequence[Missing], _code: int) -> None:
        """Print the table."""
        groups = sorted(self._groups.values(), key=lambda group: min(map(natural_key, group[1])))
        values = {nodeset(names): value for value, names in groups}
        maps = {names: value for names, value in values.items() if isinstance(value, dict) and value}
        plain = {names: value for names, value in values.items() if not isinstance(value, dict | list)}
        if len(maps) == len(values) and all(map(_is_row, maps.values())):
            text = self._compared(maps)
        elif len(plain) == len(values):
            text = self._table([{TARGET: names, "value": value} for names, value in plain.items()])
        else:
            text = "".join(self._table({names: value}) for names, value in values.items())
        if text:
            self._console.paged(text, off=self._unpaged)

    def _compared(self, maps: dict[str, dict[str, Any]]) -> str:
        keys = dict.fromkeys(key for value in maps.values() for key in value)
        if len(keys) <= COLUMNS_MAX:
            return self._table([{TARGET: names, **value} for names, value in maps.items()])
        return self._table(
            [{"": key, **{names: value.get(key, "") for names, value in maps.items()}} for key in sorted(keys, key=str)]
        )

    def _table(self, rows: Any) -> str:
        return self._outputters.render("table", rows, self._style)


TARGET = "target"
"""The heading above the names of minions and resources."""


def _is_row(value: dict[Any, Any]) -> bool:
    return not any(isinstance(one, dict | list) for one in value.values())


class EachBatch:
    """Says which targets begin together, and prints their returns by another printer. `say` takes one sentence."""

    def __init__(self, printer: Printer, progress: Progress, say: Callable[[str], None]) -> None:
        self.names_failures = printer.names_failures
        self._printer = printer
        self._progress = progress
        self._say = say
        self._begun: set[str] = set()

    def start(self) -> None:
        """The job is published; which targets begin is in the first message."""
        self._printer.start()

    def take(self, update: Update) -> None:
        """Name the targets that have begun since the last update."""
        waiting = (PLANNED, CANCELLED, EXPIRED)
        begun = {target for target, state in self._progress.states.items() if state not in waiting} - self._begun
        if begun:
            self._begun |= begun
            self._say(f"Executing run on {sorted(map(self._progress.published.name, begun))}")
        self._printer.take(update)

    def finish(self, missing: Sequence[Missing], code: int) -> None:
        """Nothing more comes."""
        self._printer.finish(missing, code)


class OneDocument:
    """The documentation of functions as one map, whichever target has them. The first target that has one counts."""

    names_failures = False

    def __init__(self, console: Console, out: str, outputters: Outputters, style: OutputStyle) -> None:
        self._console = console
        self._out = out
        self._outputters = outputters
        self._style = style
        self._documents: dict[str, Any] = {}

    def start(self) -> None:
        """Nothing to print yet."""

    def take(self, update: Update) -> None:
        """Collect the documentation; a return that is not a map is an error of that target."""
        for reply in update.replies:
            if isinstance(reply.value, dict):
                self._documents = {**reply.value, **self._documents}
            elif reply.has_value:
                self._console.error(f"{reply.name}: {reply.value}")

    def finish(self, _missing: Sequence[Missing], _code: int) -> None:
        """Print the map, sorted by function."""
        self._console.data(self._outputters.render(self._out, dict(sorted(self._documents.items())), self._style))


class OneObject:
    """`--out json`: `{id: return}`."""

    names_failures = False

    def __init__(self, console: Console, indent: int | None) -> None:
        from saltlite.plugins.output import json

        self._json = json
        self._indent = json.INDENT if indent is None else indent
        self._console = console
        self._members: dict[str, str] = {}

    def start(self) -> None:
        """Nothing to print yet."""

    def take(self, update: Update) -> None:
        """Collect the text of each return."""
        for reply in update.replies:
            if reply.has_value:
                self._members[reply.name] = self._json.value_text(reply.value, 1, self._indent)

    def finish(self, _missing: Sequence[Missing], _code: int) -> None:
        """Print the object; targets that did not return are absent."""
        self._console.data(self._json.object_text(self._members, indent=self._indent) + "\n")


class FullObject:
    """`--out json-full`: returns with their retcodes, missing targets with reasons, counts."""

    names_failures = False

    def __init__(self, console: Console, progress: Progress) -> None:
        from saltlite.plugins.output import json

        self._json = json
        self._console = console
        self._progress = progress
        self._returns: dict[str, str] = {}
        self._cut_short: dict[str, Any] = {}

    def start(self) -> None:
        """Nothing to print yet."""

    def take(self, update: Update) -> None:
        """Collect the text of each return, and what killed jobs left."""
        for reply in update.replies:
            if self._progress.states[reply.id] == "returned":
                self._returns[reply.name] = self._json.value_text(return_fields(reply), 2)
            elif reply.has_value:
                self._cut_short[reply.name] = reply.value

    def finish(self, missing: Sequence[Missing], _code: int) -> None:
        """Print the document."""
        from saltlite.cli.outcome import summary

        published, text = self._progress.published, self._json.value_text
        absent = {one.name: missing_fields(one, published) for one in missing}
        for name, value in self._cut_short.items():
            absent.setdefault(name, {})["return"] = value
        members = {
            "schema": text(SCHEMA, 1),
            "jid": text(published.jid, 1),
            "function": text(published.fun, 1),
            "target": text(published.target, 1),
            "returns": self._json.object_text(self._returns, 1),
            "missing": text(absent, 1),
            "skipped": text(published.skipped, 1),
            "summary": text(summary(self._progress, len(missing)), 1),
        }
        self._console.data(self._json.object_text(members) + "\n")


class EachEvent:
    """`--out jsonl`: a line for each event, as it happens."""

    names_failures = False

    def __init__(self, console: Console, progress: Progress) -> None:
        from saltlite.plugins.output.json import line

        self._line = line
        self._console = console
        self._progress = progress
        self._ended: set[str] = set()

    def start(self) -> None:
        """`start`: the job and its targets."""
        self._print("start", **start_fields(self._progress.published))

    def take(self, update: Update) -> None:
        """`ack` for intermediate states, `return`, and `missing` for targets that ended otherwise."""
        published = self._progress.published
        killed = {reply.id: reply for reply in update.replies if self._progress.states[reply.id] != "returned"}
        for target in update.moved:
            state = self._progress.states[target]
            if state in ("received", "running"):
                name, at = published.name(target), self._progress.moved_at.get(target)
                self._print("ack", id=name, state=state, at=at, **resource_fields(target, published))
            elif state not in ("planned", "queued", "returned"):
                self._print_end(target, killed.get(target))
        for reply in update.replies:
            if reply.id not in killed:
                self._print("return", id=reply.name, **return_fields(reply))

    def _print_end(self, target: str, reply: Reply | None) -> None:
        from saltlite.cli.outcome import Known, missing_one

        one = missing_one(self._progress, target, Known(now=self._console.now(), waited_s=0.0))
        partial = {"return": reply.value} if reply is not None and reply.has_value else {}
        self._ended.add(target)
        self._print("missing", id=one.name, **missing_fields(one, self._progress.published), **partial)

    def finish(self, missing: Sequence[Missing], code: int) -> None:
        """`missing` for each target not reported yet, and `end`."""
        from saltlite.cli.outcome import summary

        for one in missing:
            if one.id not in self._ended:
                self._print("missing", id=one.name, **missing_fields(one, self._progress.published))
        self._print("end", summary=summary(self._progress, len(missing)), exit=code)

    def _print(self, kind: str, **fields: Any) -> None:
        self._console.data(self._line({"type": kind, "jid": self._progress.published.jid} | fields))


def start_fields(published: Published) -> dict[str, Any]:
    """The fields of a job that was published."""
    return {
        "schema": SCHEMA,
        "jid": published.jid,
        "function": published.fun,
        "target": published.target,
        "minions": published.minions,
        "resources": published.resources,
        "away": published.away,
        "unknown": published.unknown,
        "skipped": published.skipped,
    }


def return_fields(reply: Reply) -> dict[str, Any]:
    """One entry of `returns`; `note` is present when the target sent one."""
    fields = {
        "ok": not reply.failed(),
        "retcode": reply.retcode,
        "return": reply.value,
        "duration_s": reply.duration_s,
        **_of_resource(reply.id, reply.minion),
    }
    return {**fields, "note": reply.reason} if reply.reason else fields


def missing_fields(one: Missing, published: Published) -> dict[str, Any]:
    """One entry of `missing`; unknown values are null."""
    fields = {"state": one.state, "reason": one.reason, "last_seen": one.last_seen, "hint": one.hint or None}
    return {**fields, **resource_fields(one.id, published)}


def resource_fields(target: str, published: Published) -> dict[str, str]:
    """The additional fields of an entry about a resource: `resource_type`, `minion` (its manager) and `srn`."""
    return _of_resource(target, published.manager(target))


def _of_resource(srn: str, minion: str) -> dict[str, str]:
    return {"resource_type": srn.partition(":")[0], "minion": minion, "srn": srn} if minion else {}


class EqualAnswers:
    """For a person at a terminal: equal answers once, with all names. Large groups come first, failures last."""

    names_failures = True

    def __init__(self, console: Console, *, color: bool, unpaged: bool = False) -> None:
        from saltlite.plugins.output.nested import BAD, TEXT, Paint, body

        self._console = console
        self._color = color
        self._unpaged = unpaged
        self._body = body
        self._paint = Paint(color=color)
        self._paints = (TEXT, BAD)
        self._groups: dict[Answer, list[str]] = {}
        self._resources: set[str] = set()

    def start(self) -> None:
        """Nothing to print yet."""

    def take(self, update: Update) -> None:
        """Add each return to the group of equal ones."""
        for reply in update.replies:
            if reply.has_value:
                text = self._body(reply.value, color=self._color, failed=reply.failed())
                self._groups.setdefault((reply.failed(), _how(reply), text), []).append(reply.name)
                if reply.minion:
                    self._resources.add(reply.name)

    def finish(self, _missing: Sequence[Missing], _code: int) -> None:
        """Print the groups."""
        order = sorted(
            self._groups.items(), key=lambda item: (item[0][0], -len(item[1]), min(map(natural_key, item[1])))
        )
        whole = (self._heading(names, how, failed=failed) + text for (failed, how, text), names in order)
        self._console.paged("".join(whole), off=self._unpaged)

    def _heading(self, names: list[str], how: str, *, failed: bool) -> str:
        marks = ("\u2713", "\u2717") if self._console.has_symbols() else ("ok:", "failed:")
        resources = len(self._resources.intersection(names))
        amount = targets_text(len(names) - resources, resources)
        shown = nodeset(names) if len(names) == 1 else f"{amount}  {nodeset(names)}"
        first = f"{marks[failed]} {shown}"
        return self._paint(self._paints[failed], f"{first}  {how}" if how else first) + "\n"


def _how(reply: Reply) -> str:
    if reply.state != "returned":
        return reply.state
    return f"retcode {reply.retcode}" if reply.failed() else ""
