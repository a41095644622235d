"""`salt.utils.templates`: templates of files. The only engine is Jinja, in its sandbox."""

from __future__ import annotations

import os
import tempfile
import traceback
from collections.abc import Callable
from importlib import import_module
from typing import Any

from saltlite.salt.exceptions import SaltRenderError
from saltlite.salt.utils import data as _data
from saltlite.salt.utils import files
from saltlite.salt.utils.decorators.jinja import JinjaFilter, JinjaGlobal, JinjaTest
from saltlite.salt.utils.stringutils import to_bytes, to_str

TEMPLATE_DIRNAME = os.path.join(os.path.dirname(os.path.dirname(__file__)), "templates")
"""Where Salt has the templates of its own modules. saltlite has none there: a module of Salt brings its own."""
SLS_ENCODING = "utf-8"
_FILTERS = ("dateutils", "dictupdate", "files", "hashutils", "http", "network", "path", "stringutils")
"""Modules that register filters when they are imported."""

Render = Callable[[str, Any, Any], str]


def generate_sls_context(tmplpath: str | None, sls: str) -> dict[str, str]:
    """The names that describe the place of a template: `tplfile`, `tpldir`, `slspath` and their like."""
    path = sls.replace(".", "/").rstrip("/")
    names = {}
    if tmplpath:
        template = tmplpath.replace("\\", "/")
        if not sls:
            template = template.rsplit("/", 1)[-1]
        elif template.endswith((f"{path}.sls", f"{path}/init.sls")):
            end = len("/init.sls") if template.endswith(f"{path}/init.sls") else len(".sls")
            template = template[-(end + len(path)) :]
        else:
            return {"tplpath": tmplpath, "tplfile": sls, "tpldir": os.path.dirname(sls) or "."}
        path = os.path.dirname(template)
        names = {
            "tplpath": tmplpath,
            "tplfile": template,
            "tpldir": path or ".",
            "tpldot": path.replace("/", "."),
        }
    return {
        **names,
        "slspath": path,
        "slsdotpath": path.replace("/", "."),
        "slscolonpath": path.replace("/", ":"),
        "sls_path": path.replace("/", "_"),
    }


def wrap_tmpl_func(render_str: Render) -> Callable[..., dict[str, Any]]:
    """A function that renders a path, an open file or, with `from_str`, a text.

    It returns `{"result": …, "data": …}`: the path of a temporary file or, with `to_str`, the text; the traceback if it
    fails. Raises SaltRenderError for a mistake in the template.
    """

    def render_tmpl(
        tmplsrc: Any,
        from_str: bool = False,
        to_str: bool = False,
        context: Any = None,
        tmplpath: str | None = None,
        **kws: Any,
    ) -> dict[str, Any]:
        names = {**kws, **(context or {})}
        if "sls" in names:
            names = {**generate_sls_context(tmplpath, names["sls"]), **names}
        if not isinstance(tmplsrc, str):
            with tmplsrc:
                text = tmplsrc.read()
        elif from_str:
            text = tmplsrc
        else:
            path = tmplsrc if tmplpath is None else os.path.join(tmplpath, tmplsrc)
            try:
                with files.fopen(path, encoding=SLS_ENCODING) as file:
                    text = file.read()
            except (ValueError, OSError):
                if files.is_binary(path):
                    return {"result": True, "data": path}
                raise
        try:
            rendered = render_str(text, names, tmplpath)
        except SaltRenderError:
            raise
        except Exception:  # noqa: BLE001 - by contract the caller gets the traceback as data
            return {"result": False, "data": traceback.format_exc()}
        if to_str:
            return {"result": True, "data": rendered}
        with tempfile.NamedTemporaryFile("wb", delete=False, prefix=files.TEMPFILE_PREFIX) as out:
            out.write(to_bytes(rendered))
        return {"result": True, "data": out.name}

    render_tmpl.render_str = render_str  # type: ignore[attr-defined] # Salt's callers read it
    return render_tmpl


def render_jinja_tmpl(tmplstr: Any, context: Any, tmplpath: str | None = None) -> str:
    """The text of a template. Undefined names are errors, unless option `allow_undefined` is set.

    Files to include or import are found beside `tmplpath`, or on the master through `context["salt"]`. Raises
    SaltRenderError.
    """
    try:
        jinja2: Any = import_module("jinja2")
        sandbox: Any = import_module("jinja2.sandbox")
    except ImportError as error:
        raise SaltRenderError("Templates need jinja2: pip install 'saltlite[jinja]' on this minion.") from error
    text = to_str(tmplstr)
    opts = context.get("opts") or {}
    environment = sandbox.SandboxedEnvironment(
        loader=_loader(jinja2, context, tmplpath),
        undefined=jinja2.Undefined if opts.get("allow_undefined", False) else jinja2.StrictUndefined,
        extensions=["jinja2.ext.do", "jinja2.ext.loopcontrols"],
        keep_trailing_newline=True,
        autoescape=False,  # the text is a file of any kind, not HTML
    )
    for name in _FILTERS:
        import_module(f"saltlite.salt.utils.{name}")
    environment.filters.update(JinjaFilter.salt_jinja_filters)
    environment.tests.update({**JinjaTest.salt_jinja_tests, "list": _data.is_list})
    environment.globals.update(JinjaGlobal.salt_jinja_globals)
    names = {name: value.value() if hasattr(value, "named_context") else value for name, value in context.items()}
    try:
        rendered: str = environment.from_string(text).render(**names)
    except jinja2.UndefinedError as error:
        raise SaltRenderError(f"Jinja variable {error}") from error
    except jinja2.TemplateSyntaxError as error:
        raise SaltRenderError(f"Jinja syntax error: {error}", error.lineno, text) from error
    except Exception as error:
        raise SaltRenderError(f"Jinja error: {error}") from error
    return rendered


def _loader(jinja2: Any, context: Any, tmplpath: str | None) -> Any:
    fetch = context["salt"]["cp.get_file_str"] if context.get("saltenv") and context.get("salt") else None
    if fetch is None:
        return jinja2.FileSystemLoader(os.path.dirname(tmplpath)) if tmplpath else None

    def load(name: str) -> Any:
        found = fetch(f"salt://{name}", context["saltenv"])
        return found if isinstance(found, str) else None

    return jinja2.FunctionLoader(load)


JINJA = wrap_tmpl_func(render_jinja_tmpl)

TEMPLATE_REGISTRY: dict[str, Callable[..., dict[str, Any]]] = {"jinja": JINJA}
