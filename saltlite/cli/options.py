"""Options of a command: one table makes the parser and the help text.

Not argparse: a job's own words come after the function and may start with a hyphen, options stand before or
after the target, the help must not change with the Python version, and this starts faster.
"""

from __future__ import annotations

from itertools import takewhile

from saltlite.errors import UsageError

TYPE_CHECKING = False  # typing costs as much start-up time as all of the command line
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

_HELP_COLUMN = 26


class Option:
    """One option. Without a metavar it is a switch; its value is stored under the long name's words.

    Given several times the last value counts; of an option with `many` all of them do, as a list.
    """

    __slots__ = ("convert", "help", "many", "metavar", "names")

    def __init__(
        self,
        *names: str,
        help: str,  # noqa: A002 - as in argparse
        metavar: str = "",
        convert: Callable[[str], Any] = str,
        many: bool = False,
    ) -> None:
        self.names = names
        self.many = many
        self.help = help
        self.metavar = metavar
        self.convert = convert

    @property
    def key(self) -> str:
        """The name under which the value is found: `--run-timeout` is `run_timeout`."""
        return self.names[-1].lstrip("-").replace("-", "_")

    def line(self) -> str:
        """The option's line in the help text."""
        start = "  " + ", ".join(self.names) + (f" {self.metavar}" if self.metavar else "")
        gap = "\n" + " " * _HELP_COLUMN if len(start) > _HELP_COLUMN - 2 else " " * (_HELP_COLUMN - len(start))
        return start + gap + self.help


HELP = Option("-h", "--help", help="show this text and end")


class HelpAsked(Exception):  # noqa: N818 - it is not an error: the text of it is the output
    """Somebody asked for a text instead of an action; the text goes to stdout and the exit code is 0.

    `table` are the options that a help text is about, None for other texts.
    """

    def __init__(self, text: str, table: Table | None = None) -> None:
        super().__init__(text)
        self.table = table


class Parsed:
    """What a command line says: `options` by key (switches True or absent), and the words in order."""

    __slots__ = ("options", "words")

    def __init__(self) -> None:
        self.options: dict[str, Any] = {}
        self.words: list[str] = []

    def on(self, key: str) -> bool:
        """Whether the switch was given."""
        return key in self.options


class Table:
    """The options of one command, and the text around them in its help."""

    def __init__(self, usage: str, summary: str, options: Sequence[Option], epilog: str = "") -> None:
        self.usage = usage
        self.summary = summary
        self.options = (*options, HELP)
        self.epilog = epilog
        self._by_name = {name: option for option in self.options for name in option.names}

    def help(self) -> str:
        """The help text, without a newline at its end."""
        lines = [f"usage: {self.usage}", "", self.summary, "", "options:"]
        lines += [option.line() for option in self.options]
        return "\n".join([*lines, "", self.epilog] if self.epilog else lines)

    def find(self, token: str) -> tuple[Option, str | None] | None:
        """The option that a token names exactly, and the value of `--name=value`; None for other tokens."""
        name, equals, value = token.partition("=") if token.startswith("--") else (token, "", "")
        option = self._by_name.get(name)
        return None if option is None else (option, value if equals else None)

    def parse(self, argv: Sequence[str], *, words_before_free: int | None = None) -> Parsed:
        """Read a command line. Raises UsageError, or HelpAsked for `--help`.

        After `--` everything is a word. After `words_before_free` words so is every token that does not name
        an option exactly.
        """
        parsed = Parsed()
        tokens = list(reversed(argv))
        while tokens:
            token = tokens.pop()
            if token == "--":  # noqa: S105 - no password
                parsed.words += reversed(tokens)
                break
            found = self.find(token)
            is_free = words_before_free is not None and len(parsed.words) >= words_before_free
            if found:
                self._store(parsed, found, tokens)
            elif is_free or not is_option(token):
                parsed.words.append(token)
            else:
                tokens += reversed(self._unbundle(token))
        return parsed

    def _store(self, parsed: Parsed, found: tuple[Option, str | None], tokens: list[str]) -> None:
        option, value = found
        name = option.names[-1]
        if option is HELP:
            raise HelpAsked(self.help(), self)
        if not option.metavar:
            if value is not None:
                raise UsageError(f"{name} takes no value")
            parsed.options[option.key] = True
            return
        if value is None:
            if not tokens:
                raise UsageError(f"{name} needs a value: {name} {option.metavar}")
            value = tokens.pop()
        try:
            converted = option.convert(value)
        except UsageError as error:
            raise UsageError(f"{name}: {error}") from error
        if option.many:
            parsed.options.setdefault(option.key, []).append(converted)
        else:
            parsed.options[option.key] = converted

    def _unbundle(self, token: str) -> list[str]:
        """`-t5` as `-t 5` and `-Lq` as `-L -q`, once; UsageError for a token that names nothing."""
        option = self._by_name.get(token[:2])
        if option is None or token.startswith("--") or len(token) < 3:
            raise UsageError(self._unknown(token))
        return [token[:2], token[2:] if option.metavar else f"-{token[2:]}"]

    def _unknown(self, token: str) -> str:
        near = _nearest(token.partition("=")[0], self._by_name)
        # Of the usage only the words that can be typed: a placeholder such as FILE|FOLDER... is a pipe to a shell.
        command = " ".join(takewhile(_can_be_typed, self.usage.split()))
        hint = f"did you mean {near}?" if near else f"`{command} --help` lists them"
        return f"there is no option {token}; {hint}"


def _can_be_typed(word: str) -> bool:
    return word.islower() and word.replace("-", "").isalpha()


def is_option(token: str) -> bool:
    """Whether a token has the form of an option; a lone hyphen is a word."""
    return len(token) > 1 and token.startswith("-")


class choice:  # noqa: N801 - it is called as the other converters are, which are functions
    """A converter that takes one of these names. It raises UsageError with the nearest one."""

    __slots__ = ("names",)

    def __init__(self, *names: str) -> None:
        self.names = names

    def __call__(self, text: str) -> str:
        if text in self.names:
            return text
        near = _nearest(text, self.names)
        hint = f"did you mean {near}?" if near else f"use one of {', '.join(self.names)}"
        raise UsageError(f"{text!r} is not known; {hint}")


def _nearest(name: str, known: Iterable[str]) -> str | None:
    from saltlite.config.nearest import nearest  # difflib is slow to import, and only errors need it

    return nearest(name, known)
