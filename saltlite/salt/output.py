"""`salt.output`: data as the text that the command line prints."""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any

from saltlite.errors import CommandExecutionError

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def out_format(data: Any, out: str, opts: Any = None, **kwargs: Any) -> str:
    """The data by the outputter of that name, which ships. Raises CommandExecutionError for another one."""
    if not out.isidentifier():
        raise CommandExecutionError(f"{out!r} is not the name of an outputter.")
    try:
        outputter = import_module(f"saltlite.plugins.output.{out}")
    except ImportError as error:
        raise CommandExecutionError(f"There is no outputter {out!r}.") from error
    text: str = outputter.output(data, **{name: value for name, value in kwargs.items() if not name.startswith("_")})
    return text


def string_format(data: Any, out: str, opts: Any = None, **kwargs: Any) -> str:
    """As `out_format`, without colours."""
    return _COLOURS.sub("", out_format(data, out, opts, **kwargs))


def html_format(data: Any, out: str, opts: Any = None, **kwargs: Any) -> str:
    """As `string_format`, with line ends and spaces as HTML shows them."""
    return string_format(data, out, opts, **kwargs).replace(" ", "&nbsp;").replace("\n", "<br />")


def display_output(data: Any, out: str = "nested", opts: Any = None, **kwargs: Any) -> None:
    """Print the data."""
    print(out_format(data, out, opts, **kwargs))  # noqa: T201 - what the function is for
