"""`salt.utils.args`: arguments of functions, as command lines and callers give them."""

from __future__ import annotations

import fnmatch
import inspect
import re
import shlex
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, NamedTuple

from saltlite.errors import SaltInvocationError
from saltlite.salt.utils.data import is_true
from saltlite.salt.utils.jid import is_jid

KWARG_REGEX = re.compile(r"^([^\d\W][\w.-]*)=(?!=)(.*)$")

_CLOSING = {"[": "]", "{": "}", "(": ")"}


def clean_kwargs(**kwargs: Any) -> dict[str, Any]:
    """The keywords without those that begin with two underscores, such as `__pub_jid`."""
    return {name: value for name, value in kwargs.items() if not name.startswith("__")}


def invalid_kwargs(invalid_kwargs: Any, raise_exc: bool = True) -> str:
    """Raise SaltInvocationError that names the keywords, or return its text."""
    names = (
        [f"{name}={value}" for name, value in invalid_kwargs.items()]
        if isinstance(invalid_kwargs, dict)
        else invalid_kwargs
    )
    message = f"The following keyword arguments are not valid: {', '.join(names)}"
    if raise_exc:
        raise SaltInvocationError(message)
    return message


def condition_input(args: Iterable[Any], kwargs: Any) -> list[Any]:
    """Arguments and keywords as one list: numbers that are job ids as texts, and the keywords at the end, with
    `__kwarg__`."""
    found = [str(arg) if isinstance(arg, int) and is_jid(str(arg)) else arg for arg in args]
    return [*found, {"__kwarg__": True, **kwargs}] if isinstance(kwargs, dict) and kwargs else found


def parse_input(args: Iterable[Any], condition: bool = True, no_parse: Collection[str] | None = None) -> Any:
    """The words of a command line as (arguments, keywords), or as one list by `condition_input`.

    Words are read as YAML, but for the values of the keywords in `no_parse`.
    """
    positional: list[Any] = []
    keywords: dict[str, Any] = {}
    for arg in args:
        if isinstance(arg, str):
            name, value = parse_kwarg(arg)
            if name:
                keywords[name] = value if name in (no_parse or ()) else yamlify_arg(value)
            else:
                positional.append(yamlify_arg(arg))
        elif isinstance(arg, dict) and arg.pop("__kwarg__", False) is True:
            keywords.update(arg)
        else:
            positional.append(arg)
    return condition_input(positional, keywords) if condition else (positional, keywords)


def parse_kwarg(string_: Any) -> tuple[str | None, str | None]:
    """(name, value) of `name=value`, or (None, None)."""
    found = KWARG_REGEX.match(string_)
    return (found[1], found[2]) if found else (None, None)


def yamlify_arg(arg: Any) -> Any:
    """What a word means in YAML; the word itself if that is a comment, or a dict or list without brackets."""
    if not isinstance(arg, str) or arg.strip() in ("", "---", "...") or any(one in arg for one in "\t\r\n"):
        return arg
    if arg == "None":
        return None
    if "_" in arg and not arg.strip().strip("0123456789_"):
        return arg  # YAML ignores the underscores
    from saltlite.salt.utils import yaml

    try:
        meant = yaml.safe_load(arg)
    except Exception:  # noqa: BLE001 - by contract a word that is no YAML stands for itself
        return arg
    if "#" in arg:
        return arg if isinstance(meant, str) or meant is None else meant
    if isinstance(meant, dict):
        return meant if arg.startswith("{") else arg
    if isinstance(meant, list):
        return meant if arg.startswith("[") else arg
    if arg in ("|", "!"):
        return arg
    return meant if meant is None or isinstance(meant, int | float | str) else arg


class ArgSpec(NamedTuple):
    """The parameters of a function, in the form of Python 2."""

    args: list[str]
    varargs: str | None
    keywords: str | None
    defaults: tuple[Any, ...] | None


def get_function_argspec(func: Callable[..., Any], is_class_method: bool | None = None) -> ArgSpec:
    """The parameters of a function, or of the one that it wraps, without those of a class method's first.

    Raises TypeError for what cannot be called.
    """
    if not callable(func):
        raise TypeError(f"{func} is not a callable")
    try:
        parameters = list(inspect.signature(inspect.unwrap(func)).parameters.values())
    except TypeError as error:
        raise TypeError(f"Cannot inspect argument list for '{func}'") from error
    plain = [one for one in parameters if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)]
    names = [one.name for one in plain]
    return ArgSpec(
        names[1:] if is_class_method else names,
        next((one.name for one in parameters if one.kind is one.VAR_POSITIONAL), None),
        next((one.name for one in parameters if one.kind is one.VAR_KEYWORD), None),
        tuple(one.default for one in plain if one.default is not one.empty) or None,
    )


def shlex_split(s: Any, **kwargs: Any) -> Any:
    """The words of a text; anything else as it is."""
    return shlex.split(s, **kwargs) if isinstance(s, str) else s


def arg_lookup(fun: Callable[..., Any], aspec: ArgSpec | None = None) -> dict[str, Any]:
    """`{"args": names without a default, "kwargs": names with theirs}`."""
    spec = get_function_argspec(fun) if aspec is None else aspec
    defaults = dict(zip(spec.args[::-1], (spec.defaults or ())[::-1], strict=False))
    return {"args": [name for name in spec.args if name not in defaults], "kwargs": defaults}


def argspec_report(functions: Mapping[str, Callable[..., Any]], module: str = "") -> dict[str, Any]:
    """Function -> its parameters, for the functions of a module or those that match a glob."""
    if "*" in module or "." in module:
        names = fnmatch.filter(functions, module)
    else:
        names = [name for name in functions if name.startswith(f"{module}.")]
    report = {}
    for name in names:
        try:
            spec = get_function_argspec(functions[name])
        except TypeError:
            continue  # it cannot be called
        report[name] = {
            "args": spec.args or None,
            "defaults": spec.defaults or None,
            "varargs": True if spec.varargs else None,
            "kwargs": True if spec.keywords else None,
        }
    return report


def split_input(val: Any, mapper: Callable[[Any], Any] | None = None) -> list[Any]:
    """A list, or the parts of a text between commas, each through `mapper`."""
    items = val if isinstance(val, list) else [part.strip() for part in str(val).split(",")]
    return list(map(mapper, items)) if mapper else list(items)


def test_mode(**kwargs: Any) -> bool:
    """Whether a keyword `test`, in any case, is true."""
    return any(name.lower() == "test" and is_true(value) for name, value in kwargs.items())


def format_call(
    fun: Callable[..., Any],
    data: Mapping[str, Any],
    initial_ret: dict[str, Any] | None = None,
    expected_extra_kws: Collection[str] = (),
    is_class_method: bool | None = None,
) -> dict[str, Any]:
    """`{"args": …, "kwargs": …}` with which `data` calls the function.

    Raises SaltInvocationError for arguments that are missing, and for those that the function does not take and
    `expected_extra_kws` does not name.
    """
    made: dict[str, Any] = initial_ret or {}
    spec = get_function_argspec(fun, is_class_method=is_class_method)
    known = arg_lookup(fun, spec)
    rest = {name: value for name, value in data.items() if name not in known["kwargs"] and name not in known["args"]}
    made["args"] = [data[name] for name in known["args"] if name in data]
    made["kwargs"] = {name: data.get(name, default) for name, default in known["kwargs"].items()}
    count, given = len(known["args"]), len(made["args"])
    name = getattr(fun, "__name__", str(fun))
    if given < count:
        raise SaltInvocationError(f"{name} takes at least {count} argument{'s'[: count > 1]} ({given} given)")
    extra = {name: value for name, value in rest.items() if name not in expected_extra_kws}
    if spec.keywords:
        made["kwargs"].update(extra)
        return made
    if extra:
        raise SaltInvocationError(_extra_message(list(extra), made.get("full", f"{fun.__module__}.{name}")))
    return made


def _extra_message(names: list[str], function: str) -> str:
    *before, last = [f"'{name}'" for name in names]
    if not before:
        return f"{last} is an invalid keyword argument for '{function}'"
    return f"{', '.join(before)} and {last} are invalid keyword arguments for '{function}'"


def parse_function(s: str) -> tuple[str | None, list[str] | None, dict[str, str] | None]:
    """(name, arguments, keywords) of `module.function(a, b=c)`, all texts; three None for what is no call."""
    lexer = shlex.shlex(s, posix=True)
    lexer.escapedquotes = "\"'"
    name = ""
    for token in lexer:
        if token == "(":
            found = _parse_arguments(lexer) if name else None
            return (name, *found) if found else (None, None, None)
        name += token
    return None, None, None


def _parse_arguments(tokens: Iterable[str]) -> tuple[list[str], dict[str, str]] | None:
    """(arguments, keywords) up to the closing bracket; None without one."""
    args: list[str] = []
    kwargs: dict[str, str] = {}
    key, word, closing = "", "", [""]
    for token in tokens:
        if not closing[1:] and token in (",", ")"):
            if key:
                kwargs[key] = word
            elif word:
                args.append(word)
            if token == ")":
                return args, kwargs
            key, word = "", ""
        elif not closing[1:] and token == "=":
            key, word = word, ""
        elif token in "]})" and token != closing.pop():
            return None
        else:
            closing += _CLOSING.get(token, "")
            word += token
    return None


def prepare_kwargs(
    all_kwargs: Mapping[str, Any], class_init_kwargs: Collection[str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The keywords that are not None: those in `class_init_kwargs`, and the others."""
    given = {name: value for name, value in all_kwargs.items() if value is not None}
    init = {name: value for name, value in given.items() if name in class_init_kwargs}
    return init, {name: value for name, value in given.items() if name not in class_init_kwargs}
