"""Results of states: one block for each, and a summary.

The input is the return of Salt's state functions: `{"module_|-id_|-name_|-function": {result, comment, changes, …}}`.

    state_output          full: a block for each state; terse: a line for each; mixed: a block for those that failed;
                          changes: a block for those that failed or changed something; with `_id` the ID for the name
    state_verbose         false: nothing of states that succeeded and changed nothing
    state_output_diff     true: as above
    state_output_profile  false: no times
"""

from __future__ import annotations

from saltlite.model.plain import printable
from saltlite.plugins.output import nested
from saltlite.plugins.output.nested import BAD, CHANGED, KEY, TEXT, VALUE, Paint

TYPE_CHECKING = False  # importing typing takes as long as the rest of the command line
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

_SEPARATOR = "_|-"
_PARTS = 4
_INDENT = " " * 4
_LABEL = 12
"""The column in which labels end."""


def output(data: Any, color: bool = False, _retcode: int = 0, **kwargs: Any) -> str:
    """Return a block for each state in the order in which they ran; other data as `nested` prints it."""
    if not isinstance(data, dict) or not any(_is_run(value) or _is_refusal(value) for value in data.values()):
        return nested.output(data, color=color, _retcode=_retcode, **kwargs)
    paint, text = Paint(color=color), ""
    view = _View(kwargs)
    for name in sorted(data, key=str):
        value = data[name]
        if _is_run(value):
            text += "".join(f"{line}\n" for line in _run(printable(str(name)), value, paint, view))
        elif _is_refusal(value):
            text += f"{paint(BAD, printable(str(name)))}:\n{_INDENT}{paint(BAD, 'Data failed to compile:')}\n"
            text += "".join(f"----------\n{_INDENT}{paint(BAD, line)}\n" for line in map(_one_line, value))
        else:
            text += nested.output({name: value}, color=color, _retcode=_retcode, **kwargs)
    return text


def _is_run(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and bool(value)
        and all(
            isinstance(state, dict) and "result" in state and str(tag).count(_SEPARATOR) == _PARTS - 1
            for tag, state in value.items()
        )
    )


def _is_refusal(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(line, str) for line in value)


class _View:
    """How states are shown: the settings of the module's text."""

    __slots__ = ("by_id", "mode", "only_changes", "profile")

    def __init__(self, given: Mapping[str, Any]) -> None:
        mode = str(given.get("state_output") or "full").lower()
        self.mode = mode.removesuffix("_id")
        self.by_id = mode.endswith("_id")
        self.only_changes = not given.get("state_verbose", True) or bool(given.get("state_output_diff"))
        self.profile = bool(given.get("state_output_profile", True))

    def hides(self, state: Mapping[str, Any]) -> bool:
        """Whether nothing is shown of the state."""
        return self.only_changes and state["result"] is True and not state.get("changes")

    def is_terse(self, state: Mapping[str, Any]) -> bool:
        """Whether the state has one line."""
        if self.mode == "mixed":
            return state["result"] is not False
        if self.mode == "changes":
            return bool(state["result"]) and not state.get("changes")
        return self.mode == "terse"


def _run(name: str, states: dict[str, dict[str, Any]], paint: Paint, view: _View) -> Iterator[str]:
    whole = TEXT if all(state["result"] is not False for state in states.values()) else BAD
    yield f"{paint(whole, name)}:"
    for tag, state in sorted(states.items(), key=lambda one: (_number(one[1]), str(one[0]))):
        if not view.hides(state):
            yield from (_line if view.is_terse(state) else _block)(tag, state, paint, view)
    yield ""
    yield from _summary(name, list(states.values()), paint, view)


def _number(state: dict[str, Any]) -> int:
    given = state.get("__run_num__")
    return given if isinstance(given, int) else 0


def _color(state: Mapping[str, Any]) -> str:
    result = state["result"]
    return BAD if result is False else VALUE if result is None else CHANGED if state.get("changes") else TEXT


def _warnings(state: Mapping[str, Any]) -> list[str]:
    given = state.get("warnings")
    return [_one_line(str(one)) for one in given] if isinstance(given, list) else []


def _line(tag: str, state: dict[str, Any], paint: Paint, view: _View) -> Iterator[str]:
    module, identity, name, function = tag.split(_SEPARATOR)
    result = {False: "Failed", None: "Differs"}.get(state["result"], "Changed" if state.get("changes") else "Clean")
    shown = identity if view.by_id else name
    text = f"Name: {shown} - Function: {module}.{function} - Result: {result}"
    if view.profile and "start_time" in state:
        text += f" - Started: {state['start_time']} - Duration: {state.get('duration', '')} ms"
    yield from (paint(BAD, f"Warnings: {line}") for line in _warnings(state))
    yield paint(_color(state), f" {_one_line(text)}")


def _block(tag: str, state: dict[str, Any], paint: Paint, view: _View) -> Iterator[str]:
    module, identity, name, function = tag.split(_SEPARATOR)
    changes, code = state.get("changes"), _color(state)
    rows = [
        ("ID", state.get("__id__", identity)),
        ("Function", f"{module}.{function}"),
        ("Name", identity if view.by_id else state.get("name", name)),
        ("Result", state["result"]),
        ("Comment", state.get("comment", "")),
    ]
    if view.profile:
        rows.append(("Started", state.get("start_time", "")))
        rows.append(("Duration", f"{state['duration']} ms" if "duration" in state else ""))
    yield paint(code, "----------")
    for label, value in rows:
        if label == "Name" and value == rows[0][1]:
            continue
        first, *more = str(value).splitlines() or [""]
        yield paint(code, f"{label:>{_LABEL}}: {printable(first)}".rstrip())
        yield from (paint(code, " " * (_LABEL + 2) + printable(line)) for line in more)
    yield paint(code, f"{'Changes':>{_LABEL}}:")
    if changes:
        margin = " " * (_LABEL - 2)
        yield from (margin + line for line in nested.body(changes, color=False).splitlines())
    yield from (paint(BAD, f"{'Warnings':>{_LABEL}}: {line}") for line in _warnings(state))


def _summary(name: str, states: list[dict[str, Any]], paint: Paint, view: _View) -> Iterator[str]:
    failed = sum(state["result"] is False for state in states)
    pending = sum(state["result"] is None for state in states)
    changed = sum(bool(state.get("changes")) for state in states)
    notes = [f"{word}={count}" for word, count in (("unchanged", pending), ("changed", changed)) if count]
    yield paint(KEY, f"Summary for {name}")
    yield paint(KEY, "-" * _LABEL)
    yield paint(TEXT, f"Succeeded: {len(states) - failed}") + (f" ({', '.join(notes)})" if notes else "")
    yield paint(BAD if failed else KEY, f"Failed:    {failed}")
    warned = sum(map(len, map(_warnings, states)))
    if warned:
        yield paint(BAD, f"Warnings:  {warned}")
    yield paint(KEY, "-" * _LABEL)
    yield f"Total states run:     {len(states)}"
    if view.profile:
        yield f"Total run time: {_time_text(sum(map(_duration_ms, states)))}"


def _duration_ms(state: dict[str, Any]) -> float:
    try:
        return float(state.get("duration") or 0)
    except (TypeError, ValueError):
        return 0.0


def _time_text(duration_ms: float) -> str:
    return f"{duration_ms:9.3f} ms" if duration_ms < 1000 else f"{duration_ms / 1000:9.3f} s"


def _one_line(text: str) -> str:
    return printable(" ".join(text.splitlines()))
