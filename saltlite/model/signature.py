"""The signature of a function as one line of text: minions report it, the master and the command line read it.

    text       = name [ "(" [ parameter { "," parameter } ] ")" ] [ "!" risk ] [ ">" outputter ]  |  name "?"
    parameter  = [ "*" | "**" ] name [ ":" type { "|" type } ] [ "=" default ]  |  "*"  |  "/"
    type       = "str" | "int" | "float" | "bool" | "list" | "dict" | "None"

as in `pkg.install(name:str|None=None,refresh:bool=False,*names:str,**kwargs)!remove`. Without brackets the parameters
are unknown. `?` marks a function that the minion knows but cannot run, and whose caller is told why; a minion also
reports its executors so (`saltlite.model.execution`). `>highstate` names the outputter for the result. A default is for
people: it is never evaluated and holds none of `,()`; `...` stands for one that would. The bare `*` and `/` mean what
they mean in Python.

The text comes from minions, so nothing here evaluates or recurses; reading it only cuts a text at commas. The command
line imports this file on the way to each job, so it must stay light.
"""

from __future__ import annotations

from enum import StrEnum

from saltlite.errors import RemoteProtocolError

TYPE_CHECKING = False  # typing costs as much start-up time as all of the command line
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any


FUNCTION_TEXT_MAX = 1024
"""Characters of one function's text. A minion reports a function with a longer one by its name only."""

FUNCTION_NAME_MAX = 128
"""Characters of `module.function`. A function with a longer name cannot be called, and is not reported."""

PARAMETERS_MAX = 64
"""Parameters of one function. A minion reports a function with more by its name only."""

DEFAULT_MAX = 40
"""Characters of a default; a longer one is reported as `...`."""

RISK_MAX = 32
"""Characters of the word that says what is dangerous about a function."""

OUTPUTTER_MAX = 32
"""Characters of the name of an outputter."""

ABSENT = "?"
"""Ends the text of a function that is known, and not to be had."""

OMITTED = "..."
"""Stands for a default that does not fit the grammar."""

TYPES = ("str", "int", "float", "bool", "list", "dict", "None")
"""What an annotation is reduced to: values that the command line can make."""

_WORD = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")
_RISK = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-")
_DIGITS = frozenset("0123456789")


class ParameterKind(StrEnum):
    """How an argument reaches a parameter; Python's five kinds."""

    POSITIONAL_ONLY = "positional only"
    EITHER = "either"
    KEYWORD_ONLY = "keyword only"
    REST = "rest"
    """`*args`."""
    KEYWORDS = "keywords"
    """`**kwargs`."""


class Parameter:
    """One parameter. `types` are of TYPES, empty for any; `default` is a text, None for a parameter without one."""

    __slots__ = ("default", "kind", "name", "types")

    def __init__(self, name: str, kind: ParameterKind, types: Sequence[str] = (), default: str | None = None) -> None:
        self.name = name
        self.kind = kind
        self.types = tuple(types)
        self.default = default

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Parameter) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return f"Parameter({self.name!r}, {self.kind!r}, {self.types!r}, {self.default!r})"

    def _key(self) -> tuple[object, ...]:
        return self.name, self.kind, self.types, self.default


class Signature:
    """The parameters of one function, in their order."""

    __slots__ = ("parameters",)

    def __init__(self, parameters: Iterable[Parameter] = ()) -> None:
        self.parameters = tuple(parameters)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Signature) and self.parameters == other.parameters

    def __hash__(self) -> int:
        return hash(self.parameters)

    def __repr__(self) -> str:
        return f"Signature({self.parameters!r})"

    def positional(self, index: int) -> Parameter | None:
        """What the positional argument with that index goes to, `*args` included; None when there is no such."""
        taking = [one for one in self.parameters if one.kind in (ParameterKind.POSITIONAL_ONLY, ParameterKind.EITHER)]
        return taking[index] if index < len(taking) else self.of_kind(ParameterKind.REST)

    def keyword(self, name: str) -> Parameter | None:
        """What the keyword argument goes to, `**kwargs` included; None when there is no such."""
        found = self.named(name)
        return self.of_kind(ParameterKind.KEYWORDS) if found is None else found

    def named(self, name: str) -> Parameter | None:
        """The parameter that takes this keyword by its own name."""
        for one in self.parameters:
            if one.name == name and one.kind in (ParameterKind.EITHER, ParameterKind.KEYWORD_ONLY):
                return one
        return None

    def of_kind(self, kind: ParameterKind) -> Parameter | None:
        """The first parameter of that kind."""
        return next((one for one in self.parameters if one.kind is kind), None)


def function_of(text: str) -> str:
    """`module.function` of a text, valid or not: what stands before its brackets, its risk and its outputter."""
    return text.partition("(")[0].partition(">")[0].partition("!")[0].removesuffix(ABSENT)


def by_name(texts: Iterable[str]) -> dict[str, str]:
    """`module.function` -> its text."""
    return {function_of(text): text for text in texts}


def is_function_name(name: str) -> bool:
    """Whether this is `module.function` in characters and length that a job can carry."""
    module, dot, function = name.partition(".")
    return (
        len(name) <= FUNCTION_NAME_MAX
        and bool(dot)
        and all(part and part[0] not in _DIGITS and _WORD.issuperset(part) for part in (module, *function.split(".")))
    )


def parse_signature(text: str) -> tuple[str, Signature | None, str]:
    """(function, its signature or None when it is not known, its risk or "") of one text.

    Raises RemoteProtocolError("bad-signature") for whatever the grammar or a limit does not allow.
    """
    if len(text) > FUNCTION_TEXT_MAX or not text.isprintable():
        raise _bad("its length, or what cannot be printed")
    head, opened, rest = text.partition("(")
    if opened:
        inside, closed, tail = rest.partition(")")
        if not closed:
            raise _bad("a bracket is not closed")
        signature = _parameters(inside)
    else:
        head = function_of(text)
        tail, signature = text[len(head) :].removesuffix(ABSENT), None
        if tail and is_absent(text):
            raise _bad("a risk or an outputter of what is not there")
    if not is_function_name(head):
        raise _bad("the name of the function")
    risk, shown, out = tail.partition(">")
    if (risk and not (risk[0] == "!" and is_risk(risk[1:]))) or (shown and not is_outputter(out)):
        raise _bad("what follows the brackets")
    return head, signature, risk[1:]


def outputter_of(text: str) -> str:
    """The outputter that a text within the grammar names, or ""."""
    return text.rpartition(")")[2].partition(">")[2]


def is_absent(text: str) -> bool:
    """Whether the function of this text is known to the minion, and not to be had there."""
    return text.endswith(ABSENT)


def absent_text(function: str) -> str:
    """The text of a function that the minion knows and does not have."""
    return f"{function}{ABSENT}"


def is_risk(word: str) -> bool:
    """Whether a module may declare this as the risk of a function, as in `remove` or `upgrade-all`."""
    return 0 < len(word) <= RISK_MAX and _RISK.issuperset(word)


def is_outputter(word: str) -> bool:
    """Whether an outputter may be called so."""
    return 0 < len(word) <= OUTPUTTER_MAX and word[0] not in _DIGITS and _WORD.issuperset(word)


def format_signature(function: str, signature: Signature | None, risk: str = "", out: str = "") -> str:
    """The text that `parse_signature` reads back; what it holds must be within the grammar."""
    body = "" if signature is None else f"({','.join(_parts(signature, spaces=False))})"
    return f"{function}{body}{'!' if risk else ''}{risk}{'>' if out else ''}{out}"


def show_signature(function: str, signature: Signature) -> str:
    """For people: `pkg.install(name: str | None = None, refresh: bool = False, **kwargs)`."""
    return f"{function}({', '.join(_parts(signature, spaces=True))})"


def short_default(text: str) -> str:
    """`text`, Python's notation of a default, as it may stand in a signature."""
    return text if _is_default(text) else OMITTED


def _parameters(inside: str) -> Signature:
    parts = inside.split(",") if inside else []
    if len(parts) > PARAMETERS_MAX + 2:
        raise _bad("there are too many parameters")
    found: list[Parameter] = []
    keyword_only = False
    for part in parts:
        if part == "/":
            if not found or keyword_only or any(one.kind is not ParameterKind.EITHER for one in found):
                raise _bad("a / that separates nothing")
            found = [Parameter(one.name, ParameterKind.POSITIONAL_ONLY, one.types, one.default) for one in found]
        elif part == "*":
            if keyword_only:
                raise _bad("a second *")
            keyword_only = True
        else:
            one = _parameter(part, keyword_only=keyword_only)
            keyword_only = keyword_only or one.kind is ParameterKind.REST
            found.append(one)
    if "*" in parts and not any(one.kind is ParameterKind.KEYWORD_ONLY for one in found):
        raise _bad("a * that separates nothing")
    _check_order(found)
    return Signature(found)


def _parameter(part: str, *, keyword_only: bool) -> Parameter:
    head, has_default, default = part.partition("=")
    starred, annotated, annotation = head.partition(":")
    name = starred.lstrip("*")
    stars = len(starred) - len(name)
    types = annotation.split("|") if annotated else []
    if not name or not name.isidentifier() or stars > 2:
        raise _bad("the name of a parameter")
    if any(one not in TYPES for one in types) or len(set(types)) != len(types):
        raise _bad("the type of a parameter")
    if has_default and (stars or not _is_default(default)):
        raise _bad("the default of a parameter")
    if stars == 1 and keyword_only:
        raise _bad("a second *")
    kind = (
        ParameterKind.KEYWORD_ONLY if keyword_only else ParameterKind.EITHER,
        ParameterKind.REST,
        ParameterKind.KEYWORDS,
    )[stars]
    return Parameter(name, kind, types, default if has_default else None)


def _check_order(parameters: Sequence[Parameter]) -> None:
    if len({one.name for one in parameters}) != len(parameters):
        raise _bad("two parameters have one name")
    if len(parameters) > PARAMETERS_MAX:
        raise _bad("there are too many parameters")
    if any(one.kind is ParameterKind.KEYWORDS for one in parameters[:-1]):
        raise _bad("a parameter behind **")
    optional = False
    for one in parameters:
        if one.kind in (ParameterKind.POSITIONAL_ONLY, ParameterKind.EITHER):
            if optional and one.default is None:
                raise _bad("a parameter without a default behind one that has it")
            optional = one.default is not None


def _is_default(text: str) -> bool:
    return 0 < len(text) <= DEFAULT_MAX and text.isprintable() and not any(sign in text for sign in ",()")


def _parts(signature: Signature, *, spaces: bool) -> list[str]:
    """Each parameter as text, with the bare `/` and `*` where they belong."""
    parts: list[str] = []
    before: ParameterKind | None = None
    for one in signature.parameters:
        if before is ParameterKind.POSITIONAL_ONLY and one.kind is not before:
            parts.append("/")
        if one.kind is ParameterKind.KEYWORD_ONLY and before not in (ParameterKind.KEYWORD_ONLY, ParameterKind.REST):
            parts.append("*")
        parts.append(_written(one, spaces=spaces))
        before = one.kind
    return [*parts, "/"] if before is ParameterKind.POSITIONAL_ONLY else parts


def _written(one: Parameter, *, spaces: bool) -> str:
    stars = {ParameterKind.REST: "*", ParameterKind.KEYWORDS: "**"}.get(one.kind, "")
    types = (" | " if spaces else "|").join(one.types)
    annotation = f"{': ' if spaces else ':'}{types}" if types else ""
    equals = " = " if spaces and types else "="
    return f"{stars}{one.name}{annotation}" + ("" if one.default is None else f"{equals}{one.default}")


def _bad(detail: str) -> RemoteProtocolError:
    return RemoteProtocolError("bad-signature", detail)


# -- Binding arguments to a signature


_BY_PLACE = (ParameterKind.POSITIONAL_ONLY, ParameterKind.EITHER)
_BY_NAME = (ParameterKind.EITHER, ParameterKind.KEYWORD_ONLY)


def bind(function: str, signature: Signature, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """What is wrong with a call of `function`, as a sentence with its signature; "" when the arguments fit.

    Types are not looked at: a function may take more than its annotations say.
    """
    problem = _too_many(signature, args) or _keyword(signature, args, kwargs) or _missing(signature, args, kwargs)
    return f"{function} {problem}: {show_signature(function, signature)}" if problem else ""


def _too_many(signature: Signature, args: Sequence[Any]) -> str:
    takes = sum(one.kind in _BY_PLACE for one in signature.parameters)
    if len(args) <= takes or signature.of_kind(ParameterKind.REST) is not None:
        return ""
    if takes == 0:
        return "takes no positional argument"
    return f"takes at most {takes} positional argument{'' if takes == 1 else 's'}, not {len(args)}"


def _keyword(signature: Signature, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    by_place = [one.name for one in signature.parameters if one.kind in _BY_PLACE][: len(args)]
    for name in kwargs:
        known = signature.named(name)
        if known is not None and name in by_place:
            return f"is given {name!r} twice, by its place and by its name"
        if known is None and signature.of_kind(ParameterKind.KEYWORDS) is None:
            names = [one.name for one in signature.parameters if one.kind in _BY_NAME]
            import difflib  # noqa: PLC0415 - needed for wrong calls only, and slow to import

            near = difflib.get_close_matches(name, names, n=1)
            return f"has no argument {name[:80]!r}" + (f" (did you mean {near[0]!r}?)" if near else "")
    return ""


def _missing(signature: Signature, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    by_place = [one for one in signature.parameters if one.kind in _BY_PLACE]
    rest = [*by_place[len(args) :], *(one for one in signature.parameters if one.kind is ParameterKind.KEYWORD_ONLY)]
    missing = [one.name for one in rest if one.default is None and not (one.kind in _BY_NAME and one.name in kwargs)]
    return f"needs {', '.join(map(repr, missing))}" if missing else ""
