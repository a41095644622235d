"""`salt.template`: texts that go through a pipe of renderers, such as `jinja|yaml`."""

from __future__ import annotations

import io
import logging
import os
from collections.abc import Callable, Collection, Mapping
from typing import Any

from saltlite.salt.exceptions import SaltRenderError
from saltlite.salt.utils import files

log = logging.getLogger(__name__)

SLS_ENCODING = "utf-8"

Renderers = Mapping[str, Callable[..., Any]]


def compile_template(
    template: Any,
    renderers: Renderers,
    default: str,
    blacklist: Collection[str] | None,
    whitelist: Collection[str] | None,
    saltenv: str = "base",
    sls: str = "",
    input_data: str = "",
    context: Any = None,
    **kwargs: Any,
) -> Any:
    """What a file, or `input_data` for the template `:string:`, becomes by its renderers; {} without any content."""
    kwargs.pop("env", None)
    kwargs.pop("mask_value", None)
    text = input_data
    if template != ":string:":
        if not isinstance(template, str) or not os.path.isfile(template):
            log.error("Template does not exist: %s", template)
            return {}
        with files.fopen(template, encoding=SLS_ENCODING) as file:
            text = file.read()
        if not text.strip():
            return {}
    found: Any = io.StringIO(text)
    for render, argline in template_shebang(template, renderers, default, blacklist, whitelist, text):
        if hasattr(found, "seek"):
            found.seek(0)
        more = {"context": context} if context else {}
        more |= {"argline": argline} if argline else {}
        found = render(found, saltenv, sls, renderers=renderers, tmplpath=template, **more, **kwargs)
    return found


def compile_template_str(
    template: str,
    renderers: Renderers,
    default: str,
    blacklist: Collection[str] | None,
    whitelist: Collection[str] | None,
) -> Any:
    """As `compile_template`, for a text."""
    with files.fopen(files.mkstemp(), "w+") as file:
        file.write(template)
    try:
        return compile_template(file.name, renderers, default, blacklist, whitelist)
    finally:
        files.safe_rm(file.name)


def template_shebang(
    template: Any,
    renderers: Renderers,
    default: str,
    blacklist: Collection[str] | None,
    whitelist: Collection[str] | None,
    input_data: str,
) -> list[tuple[Callable[..., Any], str]]:
    """(renderer, its arguments) of the first line `#!jinja|yaml`, or else of the default pipe.

    Raises SaltRenderError for a renderer that does not exist: another one would misread the text.
    """
    line = input_data.partition("\n")[0].rstrip("\r")
    has_own = line.startswith("#!") and not line.startswith("#!/")
    pipe = line.strip()[2:] if has_own else default
    names = [part.split()[0] for part in pipe.split("|") if part.strip()]
    missing = [name for name in names if name not in renderers and not _is_disallowed(name, blacklist, whitelist)]
    if missing:
        raise SaltRenderError(
            f"the text asks for the renderers {pipe!r}, and there is no {missing[0]!r}: there are "
            f"{', '.join(sorted(renderers))}; write it for one of these"
        )
    own = check_render_pipe_str(pipe, renderers, blacklist, whitelist)
    return own or check_render_pipe_str(default, renderers, blacklist, whitelist)


def check_render_pipe_str(
    pipestr: str,
    renderers: Renderers,
    blacklist: Collection[str] | None,
    whitelist: Collection[str] | None,
) -> list[tuple[Callable[..., Any], str]]:
    """(renderer, its arguments) of each part of a pipe. Those that are not allowed are omitted and logged; the list is
    empty if one does not exist."""
    found = []
    for part in map(str.strip, pipestr.split("|")):
        name, _, argline = part.partition(" ")
        if _is_disallowed(name, blacklist, whitelist):
            log.warning('The renderer "%s" is disallowed by configuration and will be skipped.', name)
            continue
        if name not in renderers:
            log.error('The renderer "%s" is not available', pipestr)
            return []
        found.append((renderers[name], argline.strip()))
    return found


def _is_disallowed(name: str, blacklist: Collection[str] | None, whitelist: Collection[str] | None) -> bool:
    return bool((whitelist and name not in whitelist) or (blacklist and name in blacklist))
