"""The words for one place: from tables, and from the master where it is there.

What is printed ends up on somebody's command line, so words that came from the network are let through only
when every shell takes them as they stand (`is_plain`): names of minions, functions and keys always are.
"""

from __future__ import annotations

import importlib
import re
import signal

from saltlite.cli.completion.places import Place, place_of, read_line
from saltlite.cli.console import Console
from saltlite.cli.joboptions import JOB
from saltlite.cli.options import HelpAsked, Parsed
from saltlite.errors import SaltliteError

TYPE_CHECKING = False  # typing costs as much start-up time as all of the command line
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from saltlite.cli.options import Table

PATIENCE_S = 1.0
"""How long a person at the tab key waits for a master that hangs."""

FILES, FOLDERS, NO_SPACE = ":files", ":folders", ":nospace"
"""Last lines of an answer that tell the script what the shell is to do; no word begins with a colon."""

_FROM_MASTER = ("target", "minion", "function", "argument", "jid", "key")
_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+:-]*=?", re.ASCII)


def is_plain(word: str) -> bool:
    """Whether no shell does anything with the word but take it: no quotes, globs, expansions, options, blanks."""
    return _PLAIN.fullmatch(word) is not None


def answer(words: Sequence[str]) -> str:
    """The lines for a command line, without the name of the program: `word TAB help`, then a directive or none.

    The last of `words` is the one that was begun.
    """
    line = read_line([_unquoted(word) for word in words] or [""], JOB, _table_of)
    place = place_of(line)
    if place.kind in (FILES[1:], FOLDERS[1:]):
        return f":{place.kind}\n"
    known = _topics() if place.kind == "topic" else place.words
    found = [(word, text) for word, text in known if word.startswith(place.begun)]
    if place.kind in _FROM_MASTER:
        found += [(word, "") for word in _ask(place, _config_dir(words)) if is_plain(word)]
    lines = [f"{place.head}{word}\t{text}" if text else f"{place.head}{word}" for word, text in found]
    if found and all(word.endswith(("=", ".")) for word, _ in found):
        lines.append(NO_SPACE)
    return "".join(f"{line}\n" for line in lines)


def _topics() -> list[tuple[str, str]]:
    from saltlite.cli.pages import titles  # few command lines need it

    return list(titles().items())


def _table_of(name: str) -> Table | None:
    """The options of a command, as its own `--help` has them."""
    verb = importlib.import_module(f"saltlite.cli.verbs.{name.replace(' ', '_')}")
    try:
        verb.run(["--help"], Console(None, None, None))
    except HelpAsked as asked:
        return asked.table
    return None


def _ask(place: Place, config_dir: str | None) -> list[str]:
    """What the master knows; nothing when it cannot be asked, for a person who types is not to be disturbed."""
    from saltlite.cli.connect import open_client  # half of the start-up time, and most words need no master

    parsed = Parsed()
    if config_dir is not None:
        parsed.options["config_dir"] = config_dir
    fields: dict[str, Any] = {"kind": place.kind, "prefix": place.begun}
    if place.function:
        fields["function"] = place.function
    if place.states:
        fields["states"] = list(place.states)
    old = signal.signal(signal.SIGALRM, _give_up)
    signal.setitimer(signal.ITIMER_REAL, PATIENCE_S)
    try:
        with open_client(parsed) as client:
            found: list[str] = client.call("complete", **fields)["words"]
    except SaltliteError:
        return []
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, old)
    return found


def _give_up(_signum: int, _frame: object) -> None:
    raise SaltliteError(f"the master did not answer in {PATIENCE_S:g}s")


def _config_dir(words: Sequence[str]) -> str | None:
    """The folder that `-c` names in the words before the begun one."""
    for index, word in enumerate(words[:-1]):
        if word == "--":
            break
        if word in ("-c", "--config-dir") and index + 2 < len(words):
            return _unquoted(words[index + 1])
        if word.startswith("--config-dir="):
            return _unquoted(word.partition("=")[2])
    return None


def _unquoted(word: str) -> str:
    """A word as the shell would hand it over, as far as quotes and backslashes go; variables stay as they are."""
    if not any(mark in word for mark in "'\"\\"):
        return word
    quote, out, escaped = "", [], False
    for char in word:
        if escaped:
            out.append(char)
            escaped = False
        elif char == "\\" and quote != "'":
            escaped = True
        elif char == quote:
            quote = ""
        elif char in "'\"" and not quote:
            quote = char
        else:
            out.append(char)
    return "".join(out)
