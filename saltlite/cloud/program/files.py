"""The files of `saltlite cloud`: options, providers, profiles and maps, each setting with its origin.

    cloud, cloud.conf.d/*.conf                options (`saltlite.config.cloud`)
    cloud.providers, cloud.providers.d/*.conf alias: settings with `driver`, or a list of such
    cloud.profiles, cloud.profiles.d/*.conf   name: settings with `provider`

All of them are optional. One ConfigError reports every problem, a line each.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from saltlite.cloud.rules.catalogue import INCLUDE, Catalogue, MapMachine, Settings, catalogue, machines_of, one_map
from saltlite.config.cloud import CloudConfig
from saltlite.config.load import PROBLEMS_MAX, ConfigReader, unreadable
from saltlite.config.options import assemble, options_of
from saltlite.config.paths import read_config_file, require_path
from saltlite.config.written import Map, PlacedError, Scalar, Sequence, Where, Written, describe, is_empty, value_of
from saltlite.config.yamlfile import parse
from saltlite.errors import ConfigError, RenderError, UsageError
from saltlite.model.redaction import KEY_FILES
from saltlite.pillar.functions import TemplateFunctions
from saltlite.pillar.jinja_templates import Source, Templates, has_markup

INCLUDES_MAX = 100
"""Files of one map."""

PATH_SETTINGS = frozenset(
    {*KEY_FILES, "script", "ssh_known_hosts", "wheel_dir", "install_dir", "minion_dir", "tmp_dir"}
)
"""Settings that name a file or folder, on this host or on the machine."""


@dataclass(frozen=True, slots=True)
class LoadedCloud:
    """The loaded files."""

    config: CloudConfig
    given: Settings
    """The options that a file sets, with their origins."""
    catalogue: Catalogue


def load_cloud(config_dir: str) -> LoadedCloud:
    """The configuration in this folder. Raises ConfigError with every problem."""
    reading = ConfigReader(options_of(CloudConfig), module_config={})
    reading.read_files([*_one(config_dir, "cloud"), *_folder(config_dir, "cloud.conf.d")])
    for sentence in _urls(reading.values.get("defaults", {})):
        reading.complain_about(("defaults",), sentence)
    reading.raise_problems()
    dotted = reading.module_config or {}
    config = assemble(CloudConfig, {**reading.values, "module_config": dotted})
    files = _Files()
    providers: dict[str, list[Settings]] = {}
    for path in [*_one(config_dir, "cloud.providers"), *_folder(config_dir, "cloud.providers.d")]:
        files.read(path, partial(_add_provider, providers, path))
    profiles: dict[str, Settings] = {}
    for path in [*_one(config_dir, "cloud.profiles"), *_folder(config_dir, "cloud.profiles.d")]:
        files.read(path, partial(_add_profile, profiles, path))
    files.raise_problems()
    given = Settings({**reading.values, **dotted}, _places(reading))
    found = {alias: [_from_keyring(alias, one) for one in several] for alias, several in providers.items()}
    return LoadedCloud(config, given, catalogue(found, profiles))


KEYRING = "use_keyring"
"""The `password` of a provider that is in the keyring of the user, under the alias and the setting `user`."""


def keyring_module() -> Any:
    """The package keyring. Raises ConfigError if it is not installed."""
    try:
        return importlib.import_module("keyring")
    except ImportError:
        raise ConfigError("passwords in a keyring need the Python package keyring: pip install keyring") from None


def _from_keyring(alias: str, settings: Settings) -> Settings:
    """The settings with the password of the keyring, if they name that. Raises ConfigError."""
    if settings.values.get("password") != KEYRING:
        return settings
    where, user = settings.origin("password"), str(settings.values.get("user") or settings.values.get("username") or "")
    password = keyring_module().get_password(alias, user)
    if not password:
        raise ConfigError(
            f"{where}: the keyring has no password of {user or 'an empty user'} for {alias}: "
            f"`saltlite cloud --set-password {user or 'USERNAME'} {alias}` stores one"
        )
    return Settings({**settings.values, "password": password}, settings.origins, settings.where)


def cloud_files(config_dir: str) -> list[str]:
    """The files in this folder that `saltlite cloud` reads, in order."""
    found = []
    for name in ("cloud", "cloud.providers", "cloud.profiles"):
        more = "cloud.conf.d" if name == "cloud" else f"{name}.d"
        found += [*_one(config_dir, name), *_folder(config_dir, more)]
    return found


def _places(reading: ConfigReader) -> dict[str, str]:
    """`file:line` of each option that a file sets."""
    return {name: place.line() for name, place in reading.places.items()}


def load_map(path: str) -> list[MapMachine]:
    """The machines of a map file and of those that it includes. Raises ConfigError."""
    found: list[list[MapMachine]] = []
    _read_map(os.path.abspath(path), found, [])
    return one_map(found)


def _read_map(path: str, found: list[list[MapMachine]], seen: list[str]) -> None:
    if path in seen:
        raise ConfigError(f"{path}: the map includes itself")
    if len(found) >= INCLUDES_MAX:
        raise ConfigError(f"{path}: a map includes at most {INCLUDES_MAX} files")
    files = _Files()
    written: dict[str, Any] = {}
    where: dict[str, str] = {}

    def add(key: Scalar, value: Written) -> None:
        written[key.text] = value_of(value)
        _refuse_urls_below(value)
        where[key.text] = f"{path}:{key.where.line}"

    if not os.path.lexists(path):
        raise ConfigError(f"{path}: there is no such file, and so no map")
    files.read(path, add, read=_rendered)
    files.raise_problems()
    included = written.get(INCLUDE) or ()
    for name in (included,) if isinstance(included, str) else included:
        if not isinstance(name, str):
            raise ConfigError(f"{where[INCLUDE]}: include takes the names of files")
        _read_map(os.path.join(os.path.dirname(path), name), found, [*seen, path])
    found.append(machines_of(written, where, path))


def _rendered(path: str) -> bytes:
    """The content of a map; that of a Jinja template is rendered. Raises OSError, RenderError."""
    content = read_config_file(path)
    text = content.decode("utf-8", "replace")
    if text.startswith("#!yaml") or not has_markup(text):
        return content
    folder = os.path.dirname(path)

    def source(name: str) -> Source | None:
        # What a template includes is beside it or below.
        full = os.path.join(folder, os.path.normpath(name))
        if name.startswith("/") or not full.startswith(os.path.join(folder, "")) or not os.path.isfile(full):
            return None
        return Source(read_config_file(full).decode("utf-8", "replace"), lambda: True)

    try:
        return Templates(source, TemplateFunctions()).render(os.path.basename(path), {}).encode()
    except RenderError as error:
        raise RenderError(f"{folder}/{error}") from None


class _Files:
    """A reader of files with a map at the top; collects problems."""

    def __init__(self) -> None:
        self._problems: list[str] = []

    def read(
        self,
        path: str,
        add: Callable[[Scalar, Written], None],
        *,
        read: Callable[[str], bytes] = read_config_file,
    ) -> None:
        try:
            root, duplicates = parse(read(path))
        except OSError as error:
            self._problems.append(unreadable(error, path))
            return
        except RenderError as error:
            self._problems.append(str(error))
            return
        except PlacedError as error:
            self._complain(path, error.where, str(error))
            return
        for duplicate in duplicates:
            self._complain(path, duplicate.where, str(duplicate))
        if isinstance(root, Map):
            for key, value in root.pairs:
                try:
                    add(key, value)
                except PlacedError as error:
                    self._complain(path, error.where, str(error))
        elif root is not None and not is_empty(root):
            self._complain(path, root.where, f"lines of `name: settings` are needed here, not {describe(root)}")

    def raise_problems(self) -> None:
        if self._problems:
            raise ConfigError("\n".join(self._problems[:PROBLEMS_MAX]))

    def _complain(self, path: str, where: Where, sentence: str) -> None:
        self._problems.append(f"{path}:{where.line}:{where.column}: {sentence}")


def _add_provider(providers: dict[str, list[Settings]], path: str, key: Scalar, value: Written) -> None:
    if key.text in providers:
        raise PlacedError(key.where, f"provider {key.text} is written twice, first at {providers[key.text][0].where}")
    if not key.text or ":" in key.text or "#" in key.text:
        raise PlacedError(key.where, f"{key.text!r} is not a name for a provider: a name has no colon and no #")
    entries = value.items if isinstance(value, Sequence) else (value,)
    providers[key.text] = [_settings(f"provider {key.text}", entry, key.where, path) for entry in entries]


def _add_profile(profiles: dict[str, Settings], path: str, key: Scalar, value: Written) -> None:
    if key.text in profiles:
        raise PlacedError(key.where, f"profile {key.text} is written twice, first at {profiles[key.text].where}")
    profiles[key.text] = _settings(f"profile {key.text}", value, key.where, path)


def _settings(what: str, written: Written, where: Where, path: str) -> Settings:
    if not isinstance(written, Map):
        raise PlacedError(written.where, f"{what} takes a map of settings, not {describe(written)}")
    _refuse_urls(written)
    values: dict[str, Any] = {key.text: value_of(value) for key, value in written.pairs}
    origins = {key.text: f"{path}:{key.where.line}" for key, _value in written.pairs}
    return Settings(values, origins, f"{path}:{where.line}")


def _refuse_urls_below(written: Written) -> None:
    """As `_refuse_urls`, for the machines of a map: `{name: settings}` or a list, below each profile."""
    for item in written.items if isinstance(written, Sequence) else (written,):
        for _name, settings in item.pairs if isinstance(item, Map) else ():
            if isinstance(settings, Map):
                _refuse_urls(settings)


def _refuse_urls(written: Map) -> None:
    """Raises PlacedError for a path setting with a URL."""
    for key, value in written.pairs:
        for sentence in _urls({key.text: value_of(value)}):
            raise PlacedError(value.where, sentence)


def _urls(settings: Mapping[str, Any]) -> Iterator[str]:
    """A sentence for each path setting with a URL."""
    for name, value in settings.items():
        if name in PATH_SETTINGS and isinstance(value, str):
            try:
                require_path(value)
            except UsageError as error:
                yield f"{name}: {error}"


def _one(config_dir: str, name: str) -> Iterator[str]:
    path = os.path.join(config_dir, name)
    if os.path.lexists(path):
        yield path


def _folder(config_dir: str, name: str) -> list[str]:
    folder = os.path.join(config_dir, name)
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise ConfigError(unreadable(error, folder)) from error
    return [os.path.join(folder, one) for one in sorted(names) if one.endswith(".conf") and not one.startswith(".")]
