"""Renders the sample files from the option descriptors: `python -m saltlite.config.render [FOLDER]`.

Lines that start with `#` and a space are prose; a line that starts with `#` and a name is an option with its default,
ready to be uncommented.
"""

from __future__ import annotations

import os
import sys
import textwrap
from typing import Any

from saltlite.config.api import ApiConfig
from saltlite.config.cloud import CloudConfig
from saltlite.config.master import MasterConfig
from saltlite.config.minion import MinionConfig
from saltlite.config.options import Option, options_of

WIDTH = 80

_HEADER = """\
The configuration of the saltlite {name}, with every option and its default. The {name} also reads \
{name}.d/*.conf beside this file, in the order of their names; the last file that sets an option wins, and \
lists and maps are replaced, not merged. Unknown options and wrong values stop the {name} with their line. \
Environment variables are not read."""

_CLOUD_HEADER = """\
The configuration of `saltlite cloud`, with every option and its default. It also reads cloud.conf.d/*.conf beside \
this file, in the order of their names; the last file that sets an option wins. Providers are in cloud.providers and \
cloud.providers.d/*.conf, profiles in cloud.profiles and cloud.profiles.d/*.conf. Unknown options and wrong values \
stop the command with their line."""

_SELECTION = """\
One option has a dot: the fields of machines that -S shows. A field of a map is written map:field."""

_SELECTION_LINE = "query.selection: [id, state, public_ips, private_ips]"

_MODULES = """\
Keys with a dot configure execution modules: the name of the module, a dot, and a name that the module reads. \
Their values are passed on unchanged. The test module has these as an example:"""

_MODULE_LINES = ("test.foo: some text", "test.bar: [1, 2, 3]", "test.baz: {spam: eggs}")


def sample(config_class: type[Any], name: str) -> str:
    """The text of the sample file `name` (`master`, `minion`, `api` or `cloud`)."""
    text = _CLOUD_HEADER if config_class is CloudConfig else _HEADER.format(name=name)
    header = _prose(text) + _prose("This file is generated from the program (python -m saltlite.config.render).")
    parts = [header, *(_describe(one) for one in options_of(config_class).values())]
    if config_class is MinionConfig:
        parts.append(_prose(_MODULES) + [f"#   {line}" for line in _MODULE_LINES])
    if config_class is CloudConfig:
        parts.append([*_prose(_SELECTION), f"#   {_SELECTION_LINE}"])
    return "\n\n".join("\n".join(part) for part in parts) + "\n"


def samples() -> dict[str, str]:
    """Every sample file: name to text."""
    return {
        "master": sample(MasterConfig, "master"),
        "minion": sample(MinionConfig, "minion"),
        "api": sample(ApiConfig, "api"),
        "cloud": sample(CloudConfig, "cloud"),
    }


def _describe(one: Option) -> list[str]:
    unit = f" ({one.unit})" if one.unit else ""
    secret = " It is a secret." if one.secret else ""
    takes = f"Takes {one.takes.wants()}{unit}.{secret} Since {one.since}."
    return [*_prose(one.doc), *_prose(takes), f"#{one.name}: {one.takes.spell(one.default)}"]


def _prose(text: str) -> list[str]:
    # Prose starts with "# ", so that it cannot be mistaken for an option.
    return textwrap.wrap(text, WIDTH, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False)


def main(argv: list[str]) -> int:
    """Write the samples into the folder of the first argument, or into `conf`."""
    folder = argv[1] if len(argv) > 1 else "conf"
    for name, text in samples().items():
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            file.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
