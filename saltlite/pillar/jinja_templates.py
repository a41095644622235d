"""Jinja templates, in its sandbox. The only file that knows jinja2, which is the extra `jinja` and may be missing.

Names that are not there are errors, as in Salt. A message has the name of the file, the line, and what Jinja says of
names and syntax; of any other error only its kind, because its text may have values in it that are secrets.
"""

from __future__ import annotations

import contextlib
import importlib
import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from saltlite.errors import RenderError

if TYPE_CHECKING:
    from types import TracebackType

    from jinja2.sandbox import SandboxedEnvironment

_MARKUP = ("{{", "{%", "{#")

NO_SALT = "there is no 'salt' in pillar files here: execution modules run on minions, and pillar is made on the master"


class Source(NamedTuple):
    """The text of a template, and whether its file is still the same."""

    text: str
    is_current: Callable[[], bool]


def load_jinja() -> None:
    """Import it now, if it is there: a process that drops its rights may not be able to read it later."""
    with contextlib.suppress(ImportError):
        importlib.import_module("jinja2.sandbox")


def has_markup(text: str) -> bool:
    """Whether a text is a template at all."""
    return any(mark in text for mark in _MARKUP)


class Templates:
    """`source` has the text for a path, None when there is no such file. Raises RenderError."""

    def __init__(self, source: Callable[[str], Source | None]) -> None:
        self._source = source
        self._environment: SandboxedEnvironment | None = None

    def render(self, path: str, context: Mapping[str, Any]) -> str:
        """What the template at `path` makes of the names in `context`. Raises RenderError."""
        if self._environment is None:
            self._environment = _environment(self._source, path)
        try:
            text: str = self._environment.get_template(path).render({"salt": _NoSalt(), **context})
        except RenderError:
            raise
        except Exception as error:  # supervision point: a template may fail in any way, and costs itself
            raise _failed(error, path) from error
        return text


class _NoSaltError(Exception):
    """A template asked for what is not there; the text says so."""


class _NoSalt:
    """Stands for what templates on a minion have as `salt`."""

    def __getitem__(self, name: str) -> object:
        raise _NoSaltError(NO_SALT)

    def __getattr__(self, name: str) -> object:
        raise _NoSaltError(NO_SALT)


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
        extensions=["jinja2.ext.do", "jinja2.ext.loopcontrols"],
        cache_size=400,
        keep_trailing_newline=True,
        # The text becomes YAML, and no page: nothing is escaped.
        autoescape=False,
    )
    environment.filters.update(json=_json, yaml=_json, yaml_encode=_json, yaml_dquote=_dquote, yaml_squote=_squote)
    return environment


def _json(value: Any) -> str:
    """On one line; JSON is YAML."""
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
        said = f"there is no file {error.name!r}"
    elif isinstance(error, jinja2.TemplateError):
        said = str(error.message)
    elif isinstance(error, _NoSaltError):
        said = str(error)
    else:
        said = f"{type(error).__name__}; its text is not repeated, because it may have values in it"
    where = _line_of(error.__traceback__, path)
    return RenderError(f"{where}: Jinja: {said}")


def _line_of(trace: TracebackType | None, path: str) -> str:
    """`file:line` of the innermost template that was being rendered; the file alone when none was."""
    where = path
    while trace is not None:
        # Jinja rewrites its frames, so that they seem to be in the template.
        if "__jinja_exception__" in trace.tb_frame.f_globals:
            where = f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
        trace = trace.tb_next
    return where
