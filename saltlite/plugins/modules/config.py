"""Read the minion's configuration, grains and pillar by option name.

Modules cannot see secret options such as ``join_token``. Settings of modules, such as ``mysql.pass``, are returned by
name, because modules need them; ``items`` hides them. If the master sends its options to minions, they are under
``master`` in the pillar and are searched after it. An option that only Salt has gives Salt's default at last.

``master`` is the host of the first master, as in Salt, with ``master_list``, ``master_port`` and ``master_uri`` beside
it.

:maintainer:    The saltlite authors
:maturity:      new
:platform:      all
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from saltlite.errors import SaltInvocationError
from saltlite.model.masters import salts_masters
from saltlite.model.salt_defaults import MINION, salt_defaults
from saltlite.plugins.modules import _nested
from saltlite.plugins.modules._nested import MISSING

if TYPE_CHECKING:
    from saltlite.loader.hints import __grains__, __opts__, __pillar__

_FILE_PROTOCOLS = frozenset({"file", "http", "https", "ftp", "s3", "salt", "swift"})

_STRATEGIES = ("recurse", "overwrite")

_DEFAULTS: dict[str, Any] = {
    **salt_defaults(MINION),
    "test.foo": "unconfigured",
    "ca.cert_base_path": "/etc/pki",
    "hosts.file": "/etc/hosts",
    "aliases.file": "/etc/aliases",
}
"""Defaults of Salt's modules, and of options that only Salt has."""


def get(  # noqa: PLR0913, PLR0917 - Salt's signature
    key: str, default: Any = "", delimiter: str = ":", merge: str | None = None, omit_opts: bool = False,
    omit_pillar: bool = False, omit_master: bool = False, omit_grains: bool = False,
) -> Any:  # fmt: skip
    """Return the value of a key in the minion's configuration, else in grains, pillar, or the master's options.

    ``delimiter`` separates the parts of the key. A missing key gives ``default``. ``merge`` combines all sources, the
    configuration first: ``recurse`` merges maps, ``overwrite`` takes the first whole value.

    CLI Example::

        saltlite '*' config.get run_timeout
        saltlite '*' config.get apache:port default=80
        saltlite '*' config.get apache merge=recurse
    """
    sources = list(_sources(omit_opts, omit_grains, omit_pillar, omit_master))
    if merge is not None:
        if merge not in _STRATEGIES:
            raise SaltInvocationError(f"merge is one of {', '.join(_STRATEGIES)}, not {merge!r:.80}.")
        sources = [_merged(sources, key, delimiter, merge)]
    for source in (*sources, _DEFAULTS):
        value = _nested.find(source, key, delimiter)
        if value is not MISSING:
            return value
    return default


def option(  # noqa: PLR0913, PLR0917 - Salt's signature
    value: str, default: Any = None, omit_opts: bool = False, omit_grains: bool = False, omit_pillar: bool = False,
    omit_master: bool = False, omit_all: bool = False, wildcard: bool = False,
) -> Any:  # fmt: skip
    """Return the value of one option, searched like ``get`` without splitting the name.

    ``wildcard`` treats the name as a glob and returns a map of all matches. ``omit_all`` searches only defaults.
    ``default`` is an empty text, with ``wildcard`` an empty map.

    CLI Example::

        saltlite '*' config.option test.foo
        saltlite '*' config.option 'splay*' wildcard=True
    """
    omit = (omit_all or omit_opts, omit_all or omit_grains, omit_all or omit_pillar, omit_all or omit_master)
    sources = [*_sources(*omit), _DEFAULTS]
    if wildcard:
        found: dict[Any, Any] = {}
        for source in reversed(sources):
            found.update((name, source[name]) for name in source if fnmatch.fnmatchcase(str(name), value))
        return found or ({} if default is None else default)
    for source in sources:
        if value in source:
            return source[value]
    return "" if default is None else default


def merge(
    value: str, default: Any = "", omit_opts: bool = False, omit_master: bool = False, omit_pillar: bool = False
) -> Any:
    """Return the value of one option, merged with the pillar and the master's options.

    Maps are merged and lists joined, with the configuration first. Of other values the first is returned.

    CLI Example: ``saltlite '*' config.merge schedule``
    """
    sources = (
        {} if omit_opts else __opts__,
        {} if omit_master else __pillar__.get("master") or {},
        {} if omit_pillar else __pillar__,
    )
    values = [source[value] for source in sources if value in source]
    if not values:
        return _DEFAULTS.get(value, default)
    whole = values[0]
    for more in values[1:]:
        if isinstance(whole, Mapping) and isinstance(more, Mapping):
            whole = {**more, **whole}
        elif isinstance(whole, list | tuple) and isinstance(more, list | tuple):
            whole = [*whole, *more]
    return whole


def items() -> dict[str, Any]:
    """Return the minion's whole configuration with defaults; secrets are hidden.

    CLI Example: ``saltlite '*' config.items``
    """
    from saltlite.model.redaction import without_secrets

    shown: dict[str, Any] = without_secrets(dict(__opts__))
    return shown


def dot_vals(value: str) -> dict[str, Any]:
    """Return the configuration of a module: all options that begin with its name and a dot.

    CLI Example: ``saltlite '*' config.dot_vals test``
    """
    both = {**(__pillar__.get("master") or {}), **__opts__}
    return {name: found for name, found in both.items() if str(name).startswith(f"{value}.")}


def valid_fileproto(uri: str) -> bool:
    """Return whether a URI has a scheme that Salt can fetch files from.

    CLI Example: ``saltlite '*' config.valid_fileproto salt://path/to/file``
    """
    return uri.partition(":")[0].lower() in _FILE_PROTOCOLS if ":" in uri else False


def manage_mode(mode: Any) -> str | None:
    """Return a file mode as text of four digits.

    CLI Example: ``saltlite '*' config.manage_mode 644``
    """
    if mode is None:
        return None
    text = (mode if isinstance(mode, str) else str(mode)).strip("\"'").replace("0o", "0")
    # An extra or missing leading zero is accepted; YAML integers lose it.
    stripped = text.lstrip("0")
    return stripped.zfill(4) if stripped.isdecimal() or not stripped else text


def backup_mode(backup: str = "") -> Any:
    """Return the backup mode for files: ``backup``, else the option ``backup_mode``.

    CLI Example: ``saltlite '*' config.backup_mode``
    """
    return backup or option("backup_mode")


def _sources(omit_opts: bool, omit_grains: bool, omit_pillar: bool, omit_master: bool) -> Iterator[Mapping[Any, Any]]:
    master = __pillar__.get("master")
    for omitted, source in (
        (omit_opts, {**__opts__, **salts_masters(__opts__)}),
        (omit_grains, __grains__),
        (omit_pillar, __pillar__),
        (omit_master, master if isinstance(master, Mapping) else {}),
    ):
        if not omitted:
            yield source


def _merged(sources: list[Mapping[Any, Any]], key: str, delimiter: str, strategy: str) -> dict[Any, Any]:
    """Return the values of the sources for the first part of the key, the first source on top."""
    both: dict[Any, Any] = {}
    for source in (_DEFAULTS, *reversed(sources)):
        for name in {key, str(key).split(delimiter or ":", 1)[0]} & source.keys():
            if strategy == "recurse":
                both = _nested.laid_over(both, {name: source[name]})
            else:
                both[name] = source[name]
    return both
