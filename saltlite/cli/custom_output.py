"""Outputters that do not ship with saltlite: files of operators, of packages and of Salt."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from saltlite.cli.output import SHIPPED
from saltlite.cli.start import complete_path
from saltlite.config.load import load_master
from saltlite.config.opts import opts_of
from saltlite.errors import SaltliteError, UsageError, nearest
from saltlite.loader.index import build_index
from saltlite.loader.loader import Loader
from saltlite.loader.search_path import OUTPUT, search_layers
from saltlite.platform.privileges import require_trusted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from saltlite.cli.output import OutputStyle


def master_opts(config_dir: str) -> dict[str, Any]:
    """The options of the master that is configured in a folder; empty without one. Raises ConfigError."""
    if not os.path.exists(os.path.join(config_dir, "master")):
        return {}
    return opts_of(load_master(config_dir).config, "")


def custom_outputter(name: str, opts: Mapping[str, Any], style: OutputStyle) -> Callable[..., Any]:
    """The `output` function of a plug-in. Raises UsageError when there is none or it did not load."""
    # Salt's own outputters read these from `__opts__`.
    given = {**opts, "color": style.color, "output_indent": style.indent, "strip_colors": True}
    require_trusted(
        [*opts.get("module_dirs", ()), *opts.get("outputter_dirs", ()), opts.get("extension_modules") or ""]
    )
    complete_path()
    index = build_index(search_layers(given, OUTPUT))
    loader = Loader(index, given, {}, {})
    try:
        function = loader[f"{name}.output"]
    except KeyError as error:
        known = [*SHIPPED, *(one for one in loader.modules() if one not in SHIPPED)]
        if name not in index.names():
            near = nearest(name, known)
            hint = f"did you mean {near}?" if near else f"there are {', '.join(known)}"
            raise UsageError(f"there is no outputter {name!r}; {hint}") from None
        raise UsageError(f"the outputter {name!r} cannot be used: {error.args[0]}") from None

    def output(data: Any, **kwargs: Any) -> Any:
        try:
            text = str(function(data, **kwargs) or "")
        except SaltliteError:
            raise
        except Exception as error:  # third-party code
            raise SaltliteError(f"the outputter {name!r} failed: {type(error).__name__}: {error}") from error
        # Salt prints their text as a line, so it ends without a newline.
        return text if not text or text.endswith("\n") else f"{text}\n"

    return output
