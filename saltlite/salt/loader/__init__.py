"""`salt.loader`: what libraries of plug-in files read during a call, and the renderers. The loader is
`saltlite.loader`."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from typing import Any

from saltlite.salt.exceptions import SaltRenderError
from saltlite.salt.utils import json, templates, yaml


def render(
    opts: Mapping[str, Any], functions: Any, states: Any = None, proxy: Any = None, context: Any = None
) -> dict[str, Callable[..., Any]]:
    """The renderers: `jinja`, `yaml` and `json`. Each takes a text or an open file."""

    def jinja(
        source: Any, saltenv: str = "base", sls: str = "", argline: str = "", tmplpath: Any = None, **kws: Any
    ) -> Any:
        names = {
            "opts": opts,
            "salt": functions,
            "grains": opts.get("grains", {}),
            "pillar": opts.get("pillar", {}),
            "saltenv": saltenv,
            "sls": sls,
            **(kws.get("context") or {}),
        }
        path = None if tmplpath == ":string:" else tmplpath
        found = templates.JINJA(_text(source), from_str=True, to_str=True, context=names, tmplpath=path)
        if not found["result"]:
            raise SaltRenderError(found["data"])
        return io.StringIO(found["data"])

    return {"jinja": jinja, "yaml": _yaml, "json": _json}


def _text(source: Any) -> str:
    text: str = source.read() if hasattr(source, "read") else source
    first, _, rest = text.partition("\n")
    return rest if first.startswith("#!") and not first.startswith("#!/") else text


def _yaml(source: Any, saltenv: str = "base", sls: str = "", argline: str = "", **kws: Any) -> Any:
    try:
        found = yaml.safe_load(_text(source))
    except yaml.YAMLError as error:
        raise SaltRenderError(error) from error
    return {} if found is None else found


def _json(source: Any, saltenv: str = "base", sls: str = "", **kws: Any) -> Any:
    try:
        return json.loads(_text(source) or "{}")
    except ValueError as error:
        raise SaltRenderError(error) from error
