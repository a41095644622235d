"""Options of a command: one table makes the parser and the help text. Converters of option values are here, too.

One rule holds for every command and every word: a word that begins with a hyphen is an option, and an unknown option is
an error, so a mistyped option never reaches a function as an argument. After a bare `--` every word is an argument. A
lone hyphen is a word, and so are negative numbers where arguments stand.

It is not argparse, which accepts abbreviations, changes its help text between Python versions, and starts more slowly.
"""

from __future__ import annotations

import time

from saltlite.errors import UsageError, nearest

TYPE_CHECKING = False  # importing typing takes as long as the rest of the command line
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any


_HELP_COLUMN = 26

ARGUMENTS_TEXT = """\
Options may stand anywhere, also after the function. A word that begins with a
hyphen and is not an option is an error; after `--` every word is an argument,
as in cmd.run -- -x. Negative numbers (-5) and NAME=--VALUE need no `--`."""
"""The rules of words and options, for the help of commands that take the arguments of a function."""


class Option:
    """One option. Without a metavar it is a switch; its value is stored under the words of the long name.

    Of a repeated option the last value counts; with `many` the values become a list. An option with a `refusal` is an
    error that gives this reason.
    """

    __slots__ = ("convert", "help", "many", "metavar", "names", "no_effect", "refusal")

    def __init__(
        self,
        *names: str,
        help: str,  # noqa: A002 - as in argparse
        metavar: str = "",
        convert: Callable[[str], Any] = str,
        many: bool = False,
        refusal: str = "",
        no_effect: str | None = None,
    ) -> None:
        self.names = names
        self.many = many
        self.refusal = refusal
        self.no_effect = no_effect
        self.help = help
        self.metavar = metavar
        self.convert = convert

    @property
    def key(self) -> str:
        """The name of the value: `run_timeout` for `--run-timeout`."""
        return self.names[-1].lstrip("-").replace("-", "_")

    def line(self) -> str:
        """The option's line in the help text."""
        start = "  " + ", ".join(self.names) + (f" {self.metavar}" if self.metavar else "")
        gap = "\n" + " " * _HELP_COLUMN if len(start) > _HELP_COLUMN - 2 else " " * (_HELP_COLUMN - len(start))
        return start + gap + self.help


HELP = Option("-h", "--help", help="show this text and end")
NO_PAGER = Option("--no-pager", help="no pager for what is longer than the screen")
ARGS_STDIN = Option("--args-stdin", help="read further words from stdin, one per line")
"""Its lines stand at the end of the command line."""


class HelpAsked(Exception):  # noqa: N818 - not an error: its text is the output
    """The command line asks for a text instead of an action; the text goes to stdout and the exit code is 0.

    `table` has the options that a help text is about, None for other texts.
    """

    def __init__(self, text: str, table: Table | None = None) -> None:
        super().__init__(text)
        self.table = table


class Parsed:
    """A parsed command line: `options` by key (switches True or absent), and the words in order."""

    __slots__ = ("notes", "options", "words")

    def __init__(self) -> None:
        self.options: dict[str, Any] = {}
        self.words: list[str] = []
        self.notes: list[str] = []
        """What the user should know of options without effect."""

    def on(self, key: str) -> bool:
        """Whether the option was given."""
        return key in self.options


class Table:
    """The options of one command, and the text around them in its help.

    `intro` stands before everything else in the help. `salt` names the program of Salt whose other options the command
    takes as well: those of `saltlite.cli.salt_options`, which are without effect here or are refused. They are read for
    a name that is not in `options`, and for the help.
    """

    def __init__(
        self, usage: str, summary: str, options: Sequence[Option], epilog: str = "", *, salt: str = "", intro: str = ""
    ) -> None:
        self.usage = usage
        self.summary = summary
        self.options = (*options, HELP)
        self.epilog = epilog
        self._salt = salt
        self._intro = intro
        self._by_name = {name: option for option in self.options for name in option.names}

    def help(self) -> str:
        """The help text, without a final newline."""
        lines = [f"usage: {self.usage}", "", self.summary, "", "options:"]
        if self._intro:
            lines[:0] = [self._intro, ""]
        lines += [option.line() for option in self.options]
        if self._salt:
            from saltlite.cli import salt_options

            lines += ["", salt_options.help_text(self._salt)]
        return "\n".join([*lines, "", self.epilog] if self.epilog else lines)

    def find(self, token: str) -> tuple[Option, str | None] | None:
        """The option that a token names exactly, and the value of `--name=value`; None for other tokens."""
        name, equals, value = token.partition("=") if token.startswith("--") else (token, "", "")
        option = self._option(name)
        return None if option is None else (option, value if equals else None)

    def _option(self, name: str) -> Option | None:
        option = self._by_name.get(name)
        if option is None and self._salt and is_option(name):
            from saltlite.cli import salt_options  # no other command line has to read this file

            option = salt_options.find(self._salt, name)
        return option

    def parse(self, argv: Sequence[str], *, words_before_arguments: int | None = None) -> Parsed:
        """Read a command line. Raises UsageError, or HelpAsked for `--help`.

        `words_before_arguments`: after that many words the arguments of a function begin, and negative numbers are
        words. The last of the words before is the function's name. None for a command that calls no function.
        """
        parsed = Parsed()
        tokens = list(reversed(argv))
        while tokens:
            token = tokens.pop()
            if token == "--":  # noqa: S105 - no password
                parsed.words += reversed(tokens)
                break
            in_arguments = words_before_arguments is not None and len(parsed.words) >= words_before_arguments
            if not is_option(token) or (in_arguments and is_number(token)):
                parsed.words.append(token)
                continue
            function = parsed.words[words_before_arguments - 1] if in_arguments and words_before_arguments else ""
            self._read(parsed, token, tokens, function)
        return parsed

    def _read(self, parsed: Parsed, token: str, tokens: list[str], function: str) -> None:
        """Store one token: an option, or several switches in one as in `-Lq`, with a value as in `-qt5`."""
        found = self.find(token)
        if found is not None:
            if function and not token.startswith("--") and found[0].no_effect is not None and not found[0].metavar:
                raise UsageError(f"{token} has no effect here. {_as_argument(function)}")
            self._store(parsed, found, tokens)
            return
        # `-async` is `--async` with a hyphen too few, and not `-a sync`.
        if token.startswith("--") or not token.startswith("-") or f"-{token}" in self._by_name:
            raise UsageError(self._unknown(token, function))
        letters = token[1:]
        while letters:
            letter, letters = f"-{letters[0]}", letters[1:]
            option = self._option(letter)
            if option is None:
                raise UsageError(self._unknown(letter, function, within=token))
            self._store(parsed, (option, letters if option.metavar and letters else None), tokens)
            if option.metavar:
                return

    def _store(self, parsed: Parsed, found: tuple[Option, str | None], tokens: list[str]) -> None:
        option, value = found
        name = option.names[-1]
        if option is HELP:
            raise HelpAsked(self.help(), self)
        if option.refusal:
            raise UsageError(f"{name} is refused: {option.refusal}")
        if option.no_effect:
            parsed.notes.append(f"saltlite: {name} has no effect: {option.no_effect}")
        if not option.metavar:
            if value is not None:
                raise UsageError(f"{name} takes no value")
            if option is ARGS_STDIN and not parsed.on(option.key):
                tokens[:0] = reversed(_stdin_lines())
            parsed.options[option.key] = True
            return
        if value is None:
            value = _next_value(option, tokens)
        try:
            converted = option.convert(value)
        except UsageError as error:
            raise UsageError(f"{name}: {error}") from error
        if option.many:
            parsed.options.setdefault(option.key, []).append(converted)
        else:
            parsed.options[option.key] = converted

    def _unknown(self, name: str, function: str, *, within: str = "") -> str:
        near = _nearest_option(name, self._by_name)
        # Only the words of the usage that can be typed: a shell reads a placeholder such as FILE|FOLDER... as a pipe.
        words = self.usage.split()
        placeholder = next((at for at, word in enumerate(words) if not _can_be_typed(word)), len(words))
        command = " ".join(words[:placeholder])
        hint = f"did you mean {near}?" if near else f"`{command} --help` lists them"
        shown = name if within in ("", name) else f"{name}, as in {within}"
        sentence = f"there is no option {shown}; {hint}"
        if not function:
            return sentence
        stop = "" if near else "."
        return f"{sentence}{stop} {_as_argument(function)}"


def _as_argument(function: str) -> str:
    return f"To pass it to {function} as an argument, write it after `--`"


def _stdin_lines() -> list[str]:
    import sys

    try:
        return sys.stdin.read().splitlines() if sys.stdin is not None else []
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--args-stdin: stdin cannot be read: {error}") from error


def _next_value(option: Option, tokens: list[str]) -> str:
    """The word after an option, taken from `tokens`. A word that looks like an option is not a value."""
    name = option.names[-1]
    if not tokens or tokens[-1] == "--":
        raise UsageError(f"{name} needs a value: {name} {option.metavar}")
    value = tokens.pop()
    if is_option(value) and not is_number(value):
        raise UsageError(f"{name} needs a value, and {value} looks like an option; if it is the value: {name}={value}")
    return value


def _can_be_typed(word: str) -> bool:
    return word.islower() and word.replace("-", "").isalpha()


_HYPHENS = "-\u2010\u2011\u2012\u2013\u2014\u2015\u2212"
"""The hyphen, and the dashes that word processors and chats turn it into."""


def is_option(token: str) -> bool:
    """Whether a token has the form of an option, even with a dash for its hyphens; a lone hyphen is a word."""
    return len(token) > 1 and token[0] in _HYPHENS


def is_number(token: str) -> bool:
    """Whether a token is a negative number: `-5`, `-1.5`, `-.5`, `-1e3`."""
    if token[1:2] not in _NUMBER_STARTS or not _NUMBER_CHARACTERS.issuperset(token):
        return False
    try:
        float(token)
    except ValueError:
        return False
    return True


_NUMBER_STARTS = frozenset("0123456789.")
_NUMBER_CHARACTERS = _NUMBER_STARTS.union("+-eE")


class choice:  # noqa: N801 - it is called as the other converters are, which are functions
    """A converter that accepts one of these names. It raises UsageError with the nearest one."""

    __slots__ = ("names",)

    def __init__(self, *names: str) -> None:
        self.names = names

    def __call__(self, text: str) -> str:
        if text in self.names:
            return text
        near = nearest(text, self.names)
        hint = f"did you mean {near}?" if near else f"use one of {', '.join(self.names)}"
        raise UsageError(f"{text!r} is not known; {hint}")


def _nearest_option(token: str, known: Iterable[str]) -> str | None:
    name = token.partition("=")[0].lstrip(_HYPHENS)
    return nearest(f"--{name}" if len(name) > 1 else f"-{name}", known)


_DAY_S = 86400.0

DURATION_MAX_S = 365 * _DAY_S
"""The longest accepted duration; a longer one is a typo."""


def parse_duration(text: str) -> float:
    """Seconds in `30`, `30s`, `1.5m`, `2h`, `1d` or `250ms`, at most DURATION_MAX_S. Raises UsageError."""
    from saltlite.config import values  # a help text does not need its regular expressions

    seconds = values.parse_duration(text)
    if seconds > DURATION_MAX_S:
        raise UsageError(f"{text!r} is too long: a duration is at most {DURATION_MAX_S / _DAY_S:g}d")
    return seconds


def format_duration(seconds: float) -> str:
    """The duration in its largest whole unit, as in `45s`, `4m`, `3h`, `12d`; below a second `0.3s`."""
    if seconds < 1:
        return f"{max(0.0, round(seconds, 1)):g}s"
    for unit, size in (("d", _DAY_S), ("h", 3600.0), ("m", 60.0)):
        if seconds >= size:
            return f"{int(seconds // size)}{unit}"
    return f"{int(seconds)}s"


def parse_timestamp(text: str, now: Callable[[], float]) -> float:
    """Seconds since 1970 of `2h` (that long before `now`), `2026-01-31`, `2026-01-31T23:59` or with an offset.

    A time without an offset is local. Raises UsageError.
    """
    try:
        ago = parse_duration(text)
    except UsageError:
        from datetime import datetime  # slow to import
    else:
        return now() - ago
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError, OSError):
        raise UsageError(f"{text[:40]!r} is not a time: write 30m, 2h, 1d, 2026-01-31 or 2026-01-31T23:59") from None


def format_timestamp(when: float, now: float) -> str:
    """Date, time of day and how long ago that was."""
    there = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(when))
    return f"{there} ({format_duration(max(0.0, now - when))} ago)"
