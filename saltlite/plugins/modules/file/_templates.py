"""Templates of files, in Jinja's sandbox; jinja2 is the extra `jinja` and may be missing.

A template knows `salt`, `grains`, `pillar`, `opts`, `saltenv` and what its caller adds. A name that is not there is an
error, as in Salt. `include` and `import` find files of the master.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from saltlite.errors import CommandExecutionError

if TYPE_CHECKING:
    from saltlite.loader.hints import __grains__, __opts__, __pillar__, __salt__

FORMATS = ("jinja",)
"""Template formats that can be rendered here."""


class _Functions:
    """`salt["test.ping"]()` and `salt.test.ping()`."""

    def __init__(self, module: str = "") -> None:
        self._module = module

    def __getitem__(self, name: str) -> Any:
        return __salt__[name]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return __salt__[f"{self._module}.{name}"] if self._module else _Functions(name)


def render(text: str, saltenv: str, context: Mapping[str, Any]) -> str:
    """What a template makes of the names in `context`. Raises CommandExecutionError."""
    try:
        import jinja2
        from jinja2.sandbox import SandboxedEnvironment
    except ImportError as error:
        raise CommandExecutionError("Templates need jinja2: pip install 'saltlite[jinja]' on this minion.") from error

    def load(name: str) -> str | None:
        found = __salt__["cp.get_file_str"](f"salt://{name}", saltenv)
        return found if isinstance(found, str) else None

    environment = SandboxedEnvironment(
        loader=jinja2.FunctionLoader(load),
        undefined=jinja2.StrictUndefined,
        extensions=["jinja2.ext.do", "jinja2.ext.loopcontrols"],
        keep_trailing_newline=True,
        autoescape=False,  # what comes out is a file of any kind, and no page
    )
    environment.filters.update(json=_json, yaml=_json)
    names = {
        "salt": _Functions(),
        "grains": dict(__grains__),
        "pillar": dict(__pillar__),
        "opts": dict(__opts__),
        "saltenv": saltenv,
    }
    try:
        return environment.from_string(text).render({**names, **context})
    except jinja2.TemplateSyntaxError as error:
        raise CommandExecutionError(f"Jinja syntax error: {error.message}; line {error.lineno}") from error
    except jinja2.TemplateError as error:
        raise CommandExecutionError(f"Jinja: {error.message or type(error).__name__}") from error
    except Exception as error:
        raise CommandExecutionError(f"The template failed: {type(error).__name__}: {error}") from error


def _json(value: Any) -> str:
    import json

    return json.dumps(value, ensure_ascii=False, default=str)
