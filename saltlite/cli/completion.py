"""Completion of command lines in bash, zsh and fish: what `saltlite __complete` prints.

`read_line` and `place_of` decide, without IO, what may stand at the end of a command line. `answer` finds the words for
it, in tables or in the master's store. It runs at every press of the tab key, so it imports nothing that publishing a
job does not.

Its output ends up on a command line, so words from the network pass only when every shell takes them as they stand
(`is_plain`). Names of minions, functions and keys always do.
"""

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found]  # signal itself imports enum

from saltlite.cli import commands, exitcodes
from saltlite.cli.console import Console
from saltlite.cli.job_options import JOB
from saltlite.cli.main import RUN, makes_job
from saltlite.cli.options import HelpAsked, Parsed, is_option
from saltlite.cli.targets import TARGET_OPTIONS
from saltlite.errors import SaltliteError

TYPE_CHECKING = False  # importing typing takes as long as the rest of the command line
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from saltlite.cli.options import Option, Table


TARGET_LIST = ("-L", "--list")
NO_IDS = frozenset(name for option in TARGET_OPTIONS for name in option.names).difference(TARGET_LIST)
"""With these options the target is not an id."""

_BY_OPTION = {"--fun": "function", "--minion": "minion", "--id": "minion", "--explain": "target"}
_BY_METAVAR = {
    "JID": "jid",
    "IDS": "key",
    "DIR": "folders",
    "FILE": "files",
    "PATH": "files",
    "ID": "minion",
    "MINION": "minion",
}
_BY_METAVAR |= {"TOPIC": "topic", "MODULE.FUNCTION": "function", "MODULE|MODULE.FUNCTION|executors|clouds": "function"}
_BY_KEY_COMMAND = {
    "key accept": ("pending", "rejected", "conflict"),
    "key reject": ("pending", "conflict"),
    "key rename": ("accepted",),
    "key revoke": ("accepted",),
}
_BY_KEY_OPTION = {"--accept": ("pending",), "--reject": ("pending",)}


class Place:
    """What may stand at one place. `kind` is options, words, or what the master is asked for: target, minion, function,
    argument, jid, key.

    `words` are those known without the master. `head` is the part of the typed word that stays; `begun` is the rest,
    which is completed. `function` belongs to argument, `states` to key.
    """

    __slots__ = ("begun", "function", "head", "kind", "states", "words")

    def __init__(
        self,
        kind: str,
        begun: str,
        *,
        head: str = "",
        words: Sequence[tuple[str, str]] = (),
        function: str = "",
        states: Sequence[str] = (),
    ) -> None:
        self.kind = kind
        self.begun = begun
        self.head = head
        self.words = words
        self.function = function
        self.states = states


class Line:
    """A command line up to the typed word: its command, the command's words, its options."""

    __slots__ = ("_job", "_table_of", "begun", "free", "given", "name", "needs_value", "own")

    def __init__(self, begun: str, job: Table, table_of: Callable[[str], Table | None]) -> None:
        self._job = job
        self._table_of = table_of
        self.begun = begun
        self.name: str | None = ""
        """The command; "" while it may still become one, None for a job."""
        self.own: list[str] = []
        self.given: list[str] = []
        self.needs_value: Option | None = None
        self.free = False
        """Whether `--` came, so that nothing is an option any more."""

    def table(self) -> Table | None:
        """The options that may stand here. It imports a command, so call it only for an option."""
        own = self.name == commands.SALT_KEY or (self.name in commands.COMMANDS and self.name)
        return self._table_of(self.name) if own and self.name else self._job


def read_line(words: Sequence[str], job: Table, table_of: Callable[[str], Table | None]) -> Line:
    """Read the words, which are not empty; the last one is the typed one, and may be empty."""
    line = Line(words[-1], job, table_of)
    for word in words[:-1]:
        if line.needs_value is not None:
            line.needs_value = None
        elif word == "--" and line.name in ("demo", RUN):
            # What follows is a job, with its options, as if it stood alone.
            line.name, line.own = None, []
        elif word == "--" and not line.free:
            line.free = True
        elif is_option(word) and not line.free:
            _read_option(line, word)
        else:
            _read_word(line, word)
    return line


def _read_option(line: Line, word: str) -> None:
    table = line.table()
    found = table.find(word) if table is not None else None
    if found is not None:
        line.given.append(found[0].names[-1])
        line.needs_value = found[0] if found[0].metavar and found[1] is None else None


def _read_word(line: Line, word: str) -> None:
    if line.name in (None, RUN):
        line.name = None
        line.own.append(word)
    elif line.name in commands.COMMANDS:
        _read_command_word(line, word)
    elif word == commands.SALT_KEY and not line.name:
        line.name = word
    elif line.name == commands.SALT_KEY:
        line.name = f"key {word}" if word in commands.members("key") else line.name
    elif word == RUN and not line.name:
        line.name = RUN
    elif word in commands.members(line.name or ""):
        line.name = f"{line.name} {word}".strip()
    else:
        line.own = [*(line.name or "").split(), word]
        line.name = None


def _read_command_word(line: Line, word: str) -> None:
    first = line.name or ""
    if not line.own and " " not in first and makes_job(first, word):
        # A function in the second place makes a job, whatever the first word is.
        line.name, line.own = None, [first, word]
    else:
        line.own.append(word)


def place_of(line: Line) -> Place:
    """What may stand at the end of the line."""
    if line.needs_value is not None:
        return _value(line.needs_value, line.begun, head="")
    if line.begun.startswith("-") and not line.free:
        return _option(line)
    if line.name == RUN:
        return _target(line)
    if line.name is None:
        return _job_word(line)
    if line.name in commands.COMMANDS:
        return _command_word(line)
    group = "key" if line.name == commands.SALT_KEY else line.name
    words = [(word, _summary(group, word)) for word in commands.members(group)]
    if line.name:
        return Place("words", line.begun, words=words)
    target = _target(line)
    if not target.head:
        target.words = [*words, (RUN, "Run a function: TARGET and FUNCTION follow.")]
    return target


def _summary(group: str, word: str) -> str:
    row = commands.COMMANDS.get(f"{group} {word}".strip())
    return row[1] if row is not None else ""


def _option(line: Line) -> Place:
    name, equals, value = line.begun.partition("=")
    table = line.table()
    if table is None:
        return Place("words", line.begun)
    if equals:
        found = table.find(name)
        if found is None or not found[0].metavar:
            return Place("words", line.begun)
        return _value(found[0], value, head=f"{name}=")
    given = set(line.given)
    options = [option for option in table.options if option.names[-1] not in given]
    names = [(option.names[-1], option.help) for option in options]
    if not line.begun.startswith("--"):
        names += [(option.names[0], option.help) for option in options if len(option.names) > 1]
    return Place("options", line.begun, words=names)


def _value(option: Option, begun: str, *, head: str) -> Place:
    names: Sequence[str] = getattr(option.convert, "names", ())
    kind = _BY_OPTION.get(option.names[-1]) or _BY_METAVAR.get(option.metavar, "words")
    if kind == "key":
        before, comma, begun = begun.rpartition(",")
        states = _BY_KEY_OPTION.get(option.names[-1], commands.KEY_STATES)
        return Place(kind, begun, head=head + before + comma, states=states)
    return Place(kind, begun, head=head, words=[(name, "") for name in names])


def _job_word(line: Line) -> Place:
    if not line.own:
        return _target(line)
    if len(line.own) == 1:
        head, comma, begun = line.begun.rpartition(",")
        return Place("function", begun, head=head + comma)
    if "=" in line.begun:
        return Place("words", line.begun)
    functions = line.own[1].split(",")
    number = sum(word.startswith(",") for word in line.own[2:])
    begun = line.begun.removeprefix(",")
    number += begun != line.begun
    function = functions[min(number, len(functions) - 1)]
    return Place("argument", begun, head=line.begun[: len(line.begun) - len(begun)], function=function)


def _target(line: Line) -> Place:
    if not set(line.given).isdisjoint(NO_IDS):
        return Place("words", line.begun)
    if set(line.given).isdisjoint(TARGET_LIST):
        return Place("target", line.begun)
    head, comma, begun = line.begun.rpartition(",")
    return Place("target", begun, head=head + comma)


def _command_word(line: Line) -> Place:
    name = line.name or ""
    wanted = _wanted(name, len(line.own))
    if wanted == "TARGET":
        return _target(line)
    if name.startswith("key ") and wanted.startswith("ID"):
        return Place("key", line.begun, states=_BY_KEY_COMMAND.get(name, commands.KEY_STATES))
    if wanted == "STATE":
        return Place("words", line.begun, words=[(state, "") for state in commands.KEY_STATES])
    if wanted.islower():
        return Place("words", line.begun, words=[(word, "") for word in wanted.split("|")])
    return Place(_BY_METAVAR.get(wanted, "words"), line.begun)


def _wanted(name: str, index: int) -> str:
    """What the usage line of a command has in that place, without its brackets; "" for nothing."""
    usage = commands.COMMANDS[name][0].removeprefix("saltlite ").removeprefix(name).split()
    words = [word for word in usage if not word.startswith(("[-", "-", "[options"))]
    if index >= len(words):
        return words[-1].strip("[].") if words and words[-1].strip("]").endswith("...") else ""
    return words[index].strip("[].")


TIMEOUT_S = 1.0
"""How long a person at the tab key waits for a master that hangs."""

FILES, FOLDERS, NO_SPACE = ":files", ":folders", ":nospace"
"""Last lines of an answer that tell the script what the shell is to do; no word begins with a colon."""

_FROM_MASTER = ("target", "minion", "function", "argument", "jid", "key")
_PLAIN_FIRST = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_")
_PLAIN = _PLAIN_FIRST.union(".+:-")


def is_plain(word: str) -> bool:
    """Whether no shell interprets the word: it has no quotes, globs, expansions, options or blanks."""
    name = word.removesuffix("=")
    return name[:1] in _PLAIN_FIRST and _PLAIN.issuperset(name)


def answer(words: Sequence[str]) -> str:
    """The lines for a command line without the name of the program: `word TAB help`, then a directive or none.

    The last of `words` is the typed one.
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
    from saltlite.cli.verbs.help import titles  # few command lines need it

    return list(titles().items())


def _table_of(name: str) -> Table | None:
    """The options of a command, from its own `--help`."""
    try:
        commands.load(name)(["--help"], Console(None, None, None))
    except HelpAsked as asked:
        return asked.table
    return None


def _ask(place: Place, config_dir: str | None) -> list[str]:
    """What the master knows; nothing when it cannot be asked, so that a person who types is not disturbed."""
    from saltlite.cli.connect import open_client  # half of the start-up time; most words need no master

    parsed = Parsed()
    if config_dir is not None:
        parsed.options["config_dir"] = config_dir
    fields: dict[str, Any] = {"kind": place.kind, "prefix": place.begun}
    if place.function:
        fields["function"] = place.function
    if place.states:
        fields["states"] = list(place.states)
    old = signal.signal(signal.SIGALRM, _give_up)
    signal.setitimer(signal.ITIMER_REAL, TIMEOUT_S)
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
    raise SaltliteError(f"the master did not answer in {TIMEOUT_S:g}s")


def _config_dir(words: Sequence[str]) -> str | None:
    """The folder that `-c` names in the words before the typed one."""
    for index, word in enumerate(words[:-1]):
        if word == "--":
            break
        if word in ("-c", "--config-dir") and index + 2 < len(words):
            return _unquoted(words[index + 1])
        if word.startswith("--config-dir="):
            return _unquoted(word.partition("=")[2])
    return None


def _unquoted(word: str) -> str:
    """A word as the shell passes it on: without quotes and backslashes; variables stay as they are."""
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


def run_complete(argv: Sequence[str], console: Console) -> int:
    """`saltlite __complete -- WORD... TYPED`: print the words that may replace the last one, a line each."""
    console.use_utf8()
    console.data(answer(argv[1:] if argv[:1] == ["--"] else argv))
    return exitcodes.OK
