"""Convert the words of a command line, and the arguments that a program passes, to the arguments of a function.

Where the targeted minions reported the function's signature and agree on it, the annotation of a parameter decides:

    str                   the word as it is: `1.10`, `true`, `0644` and `[a]` are text
    int, float            must be one; a float may be written `5`, `.5` or `1e3`
    bool                  true, false, yes, no, on, off, 1 or 0, in any case
    list                  `[a, b]` in YAML's flow style or JSON; or text items separated by commas: `a,b`
    dict                  `{a: 1}` in YAML's flow style or JSON
    ... | None            also `None` and `null`; without `str` and `list` also an empty word
    str | others          one of the others where the word plainly is one, else text

Anything else is refused before it is published. Without an annotation a word is text unless it plainly is a whole or
decimal number, `true`, `false`, `null`, `None`, or a list or map in YAML's flow style; `yes`, `no`, `on` and `off` are
truth values where the default of the parameter is one. As in Salt, `name=value` is a
keyword argument, and `1_000`, `a: b` and anything with a tab or a newline stay text. Unlike in Salt, so do other `yes`,
`no`, `0644` and numbers of more than 64 bits, because converting them loses something. A name with hyphens or dots
(`read-ahead=1`) is a keyword only where the function takes any keyword and has no parameter left for the word. Quotes
that arrive here (`'"1.10"'` in a shell) turn a value into text.
"""

from __future__ import annotations

from saltlite.errors import ConfigError, UsageError
from saltlite.model.signature import ParameterKind, function_of, parse_signature, show_signature

TYPE_CHECKING = False  # typing costs as much start-up time as all of the command line
if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from typing import Any

    from saltlite.model.signature import Parameter, Signature


_WORDS = {
    "true": True, "True": True, "TRUE": True,
    "false": False, "False": False, "FALSE": False,
    "null": None, "None": None,
}  # fmt: skip

_INT_MIN, _INT_MAX = -(2**63), 2**64 - 1
"""What msgpack can carry."""


_TRUTH = {
    "true": True, "yes": True, "on": True, "1": True,
    "false": False, "no": False, "off": False, "0": False,
}  # fmt: skip

_SWITCHES = {name: _TRUTH[name] for name in ("yes", "no", "on", "off")}
_SWITCHED = ("True", "False")
"""Defaults, as signatures write them, of parameters that take switches."""

_MISFIT = object()


def parse_arguments(
    words: Sequence[str], signatures: Sequence[str] = (), *, as_text: Collection[str] = ()
) -> tuple[list[Any], dict[str, Any]]:
    """Positional and keyword arguments in `words`; the values of the keywords `as_text` stay text.

    `signatures` are the texts of `saltlite.model.signature` that the targeted minions reported for the function. A
    parameter on which they disagree is read as if it had no annotation.
    Raises UsageError for a repeated keyword and for a word that does not have the parameter's type.
    """
    typed = _Typed(signatures)
    positional: list[Any] = []
    keywords: dict[str, Any] = {}
    for word in words:
        name, equals, text = word.partition("=")
        if not equals or text.startswith("=") or not typed.is_name(name, len(positional), keywords):
            positional.append(typed.positional(len(positional), word))
        elif name in keywords:
            raise UsageError(f"the keyword {name!r} is given twice")
        else:
            keywords[name] = text if name in as_text else typed.keyword(name, text)
    return positional, keywords


KEYWORDS = "__kwarg__"
"""In a map among the positional arguments: its other items are keyword arguments, as in Salt."""


def looks_like_keywords(argument: Any) -> bool:
    """Whether a positional argument of a program is `name=value`, or a map of keyword arguments."""
    if isinstance(argument, dict):
        return argument.get(KEYWORDS) is True
    name, equals, text = argument.partition("=") if isinstance(argument, str) else ("", "", "")
    return bool(equals) and name.isidentifier() and not text.startswith("=") and "\n" not in text


def read_keywords(arguments: Sequence[Any], signatures: Sequence[str]) -> tuple[list[Any], dict[str, Any]]:
    """The positional arguments that a program passes, without those that look like keywords, and these.

    `name=value` is text where the signatures allow no keyword of that name. Its value is read as that of a word is.
    Raises UsageError as `parse_arguments` does.
    """
    typed = _Typed(signatures)
    positional: list[Any] = []
    keywords: dict[str, Any] = {}
    for argument in arguments:
        if not looks_like_keywords(argument):
            positional.append(argument)
        elif isinstance(argument, dict):
            keywords.update((name, value) for name, value in argument.items() if name != KEYWORDS)
        elif typed.takes(name := argument.partition("=")[0]):
            keywords[name] = typed.keyword(name, argument.partition("=")[2])
        else:
            positional.append(argument)
    return positional, keywords


SEPARATOR = ","
"""Between the arguments of the functions of a compound job."""


def split_calls(function: str, words: Sequence[str], separator: str = SEPARATOR) -> list[tuple[str, list[str]]]:
    """The calls of a compound job such as `test.echo,test.ping hello ,`: functions with their words.

    With several functions, a word that is `separator` or starts with it begins the arguments of the next function; the
    rest of the word is the first of them. A single function keeps every word.
    Raises UsageError for an empty function and for more separators than functions.
    """
    functions = function.split(",")
    if len(functions) == 1:
        return [(function, list(words))]
    if not all(functions):
        raise UsageError(f"{function!r} has a comma without a function: write them as in test.ping,test.version")
    calls: list[tuple[str, list[str]]] = [(one, []) for one in functions]
    current = 0
    for word in words:
        if not word.startswith(separator):
            calls[current][1].append(word)
            continue
        current += 1
        if current == len(calls):
            raise UsageError(
                f"there are arguments for more than the {len(calls)} functions of {function!r}: with several functions "
                f"a word that starts with {separator!r} begins the arguments of the next one (--args-separator)"
            )
        if word != separator:
            calls[current][1].append(word[len(separator) :])
    return calls


class _Typed:
    """The arguments of one function, typed by its known signatures."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._function = function_of(texts[0]) if texts else ""
        self._signatures: list[Signature] = []
        for text in texts:
            signature = parse_signature(text)[1]
            if signature is not None:
                self._signatures.append(signature)

    def is_name(self, name: str, given: int, keywords: Collection[str]) -> bool:
        """Whether `name=value` after `given` positional words is a keyword.

        A name that is not a Python identifier (`read-ahead`) is one only where no parameter is left for the word and
        any keyword is accepted. So a version (`foo-bar=1.2`) or a setting (`net.core.x=1`) stays a word.
        """
        if name.isidentifier():
            return True
        if name.startswith(("-", ".")) or not name.replace("-", "_").replace(".", "_").isidentifier():
            return False
        return bool(self._signatures) and all(
            one.of_kind(ParameterKind.KEYWORDS) and ((place := one.positional(given)) is None or place.name in keywords)
            for one in self._signatures
        )

    def takes(self, name: str) -> bool:
        """Whether some signature allows a keyword of that name, or none is known."""
        return not self._signatures or any(one.keyword(name) is not None for one in self._signatures)

    def positional(self, index: int, text: str) -> Any:
        return self._value([one.positional(index) for one in self._signatures], text)

    def keyword(self, name: str, text: str) -> Any:
        return self._value([one.keyword(name) for one in self._signatures], text)

    def _value(self, parameters: Sequence[Parameter | None], text: str) -> Any:
        types = {one.types if one is not None else () for one in parameters}
        if len(types) != 1 or types == {()}:
            is_switch = bool(parameters) and all(one is not None and one.default in _SWITCHED for one in parameters)
            return _switch(text) if is_switch else parse_value(text)
        value = _typed_value(text, frozenset(wanted := next(iter(types))))
        if value is _MISFIT:
            name = next(one.name for one in parameters if one is not None)
            raise UsageError(
                f"{self._function}: argument {name!r} takes {' or '.join(wanted)}, not {text[:80]!r}; "
                f"{show_signature(self._function, self._signatures[0])}"
            )
        return value


def _typed_value(text: str, types: frozenset[str]) -> Any:
    """The value of a word for a parameter with these types, or _MISFIT."""
    if "None" in types and (text in ("None", "null") or (not text and types.isdisjoint(("list", "str")))):
        return None
    others = types - {"None", "str"}
    if "str" in types:
        value = parse_value(text) if others or _quoted(text) else text
        if type(value) is int and "int" not in others and "float" in others:
            return float(value)
        return value if type(value).__name__ in others | {"str"} else text
    for kind, convert in _CONVERT.items():
        if kind in others and (value := convert(text)) is not _MISFIT:
            return value
    return _MISFIT


def _switch(text: str) -> Any:
    word = text[1:-1] if _quoted(text) else text
    if word.lower() not in _SWITCHES:
        return parse_value(text)
    return word if _quoted(text) else _SWITCHES[word.lower()]


def _bool(text: str) -> Any:
    return _TRUTH.get(text.lower(), _MISFIT)


def _int(text: str) -> Any:
    value = _parse_number(text)
    return value if type(value) is int else _MISFIT


def _float(text: str) -> Any:
    # Python's float also accepts `1_000`, `nan` and digits of other scripts, which no one means here.
    if not text.isascii() or not set(text) <= set("+-.0123456789eE"):
        return _MISFIT
    try:
        value = float(text)
    except ValueError:
        return _MISFIT
    return value if abs(value) != float("inf") else _MISFIT


def _dict(text: str) -> Any:
    value = _parse_plain(text) if text.startswith("{") else None
    return value if isinstance(value, dict) else _MISFIT


def _list(text: str) -> Any:
    if not text.startswith(("[", "{")):
        return text.split(",") if text else []
    value = _parse_plain(text)
    return value if isinstance(value, list) else _MISFIT


_CONVERT = {"int": _int, "float": _float, "bool": _bool, "dict": _dict, "list": _list}
"""In the order in which a union is tried: a whole number is not a truth value where numbers are accepted."""


def parse_value(text: str) -> Any:
    """The value of one word: None, bool, int, float, str, or a list or dict of these."""
    if _quoted(text):
        inside = text[1:-1]
        return text if _parse_plain(inside) == inside else inside
    return _parse_plain(text)


def _quoted(text: str) -> bool:
    return len(text) > 1 and text[0] == text[-1] and text[0] in "'\""


def _parse_plain(text: str) -> Any:
    if "\t" in text or "\n" in text:
        return text
    if text[:1] in ("{", "["):
        return _parse_flow(text)
    if text in _WORDS:
        return _WORDS[text]
    return _parse_number(text)


def _parse_number(text: str) -> str | int | float:
    whole, dot, decimals = text.removeprefix("-").partition(".")
    if not whole.isascii() or not whole.isdigit() or (len(whole) > 1 and whole[0] == "0"):
        return text
    if dot:
        return float(text) if decimals.isascii() and decimals.isdigit() else text
    if len(whole) > 20:  # a number of a million digits is too large without converting it
        return text
    number = int(text)
    return number if _INT_MIN <= number <= _INT_MAX else text


def _parse_flow(text: str) -> Any:
    """A YAML list or map; text that only looks like one, such as `{{ name }}` or `[ -f x ] && y`, stays text."""
    from saltlite.config.written import value_of
    from saltlite.config.yamlfile import parse

    try:
        written, duplicates = parse(text.encode())
    except (ConfigError, UnicodeEncodeError):
        return text
    if duplicates:
        raise UsageError(f"in the argument {text!r} {duplicates[0]}")
    return text if written is None else value_of(written)
