"""Jinja templates in Jinja's sandbox. Only this module imports jinja2, which is the optional extra `jinja`.

Undefined names are errors, as in Salt. A message has the file, the line, and Jinja's text about names and syntax. Of
other errors it has only the type, because their text may contain secret values.
"""

from __future__ import annotations

import contextlib
import importlib
import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from saltlite.errors import RenderError
from saltlite.pillar.functions import FunctionRefused, TemplateFunctions

if TYPE_CHECKING:
    from types import TracebackType

    from jinja2.sandbox import SandboxedEnvironment

_MARKUP = ("{{", "{%", "{#")


class Source(NamedTuple):
    """The text of a template, and a check whether its file is unchanged."""

    text: str
    is_current: Callable[[], bool]


_EXTENSIONS = ("jinja2.ext.do", "jinja2.ext.loopcontrols")
_MODULES = ("jinja2.sandbox", "jinja2.ext", "jinja2.debug", "encodings.unicode_escape")
"""What Jinja imports for a template with text in quotes that has these extensions and a mistake."""


def load_jinja() -> None:
    """Import jinja2 now, if installed: a process that drops its rights may be unable to read it later."""
    with contextlib.suppress(ImportError):
        for module in _MODULES:
            importlib.import_module(module)


def has_markup(text: str) -> bool:
    """Whether a text has any markup of a template."""
    return any(mark in text for mark in _MARKUP)


class Templates:
    """`source` returns the text of a path, None if the file does not exist. Raises RenderError. `functions` makes the
    name `salt`."""

    def __init__(self, source: Callable[[str], Source | None], functions: TemplateFunctions) -> None:
        self._source = source
        self._functions = functions
        self._environment: SandboxedEnvironment | None = None

    def render(self, path: str, context: Mapping[str, Any]) -> str:
        """The text of the template at `path`, rendered with the names in `context`. Raises RenderError."""
        if self._environment is None:
            self._environment = _environment(self._source, path)
        try:
            text: str = self._environment.get_template(path).render(
                {"salt": self._functions.within(context), **context}
            )
        except RenderError:
            raise
        except Exception as error:  # supervision point: a template may fail in any way, and costs itself
            raise _failed(error, path) from error
        return text


def _environment(source: Callable[[str], Source | None], path: str) -> SandboxedEnvironment:
    try:
        import jinja2  # noqa: PLC0415 - optional
        from jinja2.sandbox import SandboxedEnvironment  # noqa: PLC0415 - as above
    except ImportError as error:
        raise RenderError(
            f"{path} is a Jinja template, and jinja2 is not installed: pip install 'saltlite[jinja]', or begin the "
            "file with #!yaml if it is none"
        ) from error

    def load(name: str) -> tuple[str, str, Callable[[], bool]] | None:
        found = source(name)
        return None if found is None else (found.text, name, found.is_current)

    environment = SandboxedEnvironment(
        loader=jinja2.FunctionLoader(load),
        undefined=jinja2.StrictUndefined,
        extensions=_EXTENSIONS,
        cache_size=400,
        keep_trailing_newline=True,
        # The text becomes YAML, not HTML, so nothing is escaped.
        autoescape=False,
    )
    environment.filters.update(json=_json, yaml=_json, yaml_encode=_json, yaml_dquote=_dquote, yaml_squote=_squote)
    return environment


def _json(value: Any) -> str:
    """The value on one line: JSON is YAML."""
    return json.dumps(value, ensure_ascii=False, default=str)


def _dquote(value: Any) -> str:
    return json.dumps(str(value), ensure_ascii=False)


def _squote(value: Any) -> str:
    return "'" + str(value).replace("'", "''") + "'"


def _failed(error: Exception, path: str) -> RenderError:
    import jinja2  # noqa: PLC0415 - it is there: it has just failed

    if isinstance(error, jinja2.TemplateSyntaxError):
        return RenderError(f"{error.name or path}:{error.lineno}: Jinja: {error.message}")
    if isinstance(error, jinja2.TemplateNotFound):
        text = f"there is no file {error.name!r}"
    elif isinstance(error, jinja2.TemplateError):
        text = str(error.message)
    elif isinstance(error, FunctionRefused):
        text = str(error)
    else:
        text = f"{type(error).__name__}; its text is omitted, because it may contain values"
    where = _line_of(error.__traceback__, path)
    return RenderError(f"{where}: Jinja: {text}")


def _line_of(trace: TracebackType | None, path: str) -> str:
    """`file:line` of the innermost template that was being rendered; only the file if there was none."""
    where = path
    while trace is not None:
        # Jinja rewrites its frames, so that they seem to be in the template.
        if "__jinja_exception__" in trace.tb_frame.f_globals:
            where = f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
        trace = trace.tb_next
    return where
