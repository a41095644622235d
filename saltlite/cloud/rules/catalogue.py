"""Settings, providers, profiles and maps as values: what a machine is made of, and which setting wins.

It also brings the listings of drivers into one form.

Contract: Salt's files `cloud.providers`, `cloud.profiles` and map files. The order of precedence is machine (map or
command line), profile, provider, global. `extends` is resolved here over any number of steps. An entry whose driver or
provider is `-only-extendable-` can only be extended. The module also composes the configuration of the new minion and
names the settings that callers without a shell on this host may not use.
"""

from __future__ import annotations

import copy
import difflib
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from saltlite.errors import ConfigError, UsageError
from saltlite.model.redaction import KEY_FILES

Path = tuple[str, ...]
"""Keys of maps in one another."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of one section of a file. `origins` has `file:line` of each key, `where` that of the section."""

    values: Mapping[str, Any]
    origins: Mapping[str, str] = field(default_factory=dict)
    where: str = ""

    def origin(self, key: str) -> str:
        """`file:line` of a key, of the section if the key has none."""
        return self.origins.get(key, self.where)

    def over(self, other: Settings) -> Settings:
        """These settings over `other`: maps are merged, other values replaced."""
        return Settings(
            merged(self.values, other.values), {**other.origins, **self.origins}, where=self.where or other.where
        )

    def without(self, *keys: str) -> Settings:
        """All but these keys."""
        return Settings({key: one for key, one in self.values.items() if key not in keys}, self.origins, self.where)


@dataclass(frozen=True, slots=True)
class Level:
    """Settings of one level of precedence; `label` is for people, such as `profile small`."""

    label: str
    settings: Settings


@dataclass(frozen=True, slots=True)
class Explained:
    """One effective value, its path, and the levels that set it, the winning one first."""

    path: Path
    value: Any
    origins: tuple[str, ...]


def merged(near: Mapping[str, Any], far: Mapping[str, Any]) -> dict[str, Any]:
    """`near` over `far`, as copies: maps are merged, other values of `near` replace."""
    found = copy.deepcopy(dict(far))
    for key, value in near.items():
        below = found.get(key)
        found[key] = (
            merged(value, below) if isinstance(value, Mapping) and isinstance(below, Mapping) else copy.deepcopy(value)
        )
    return found


def flattened(levels: Sequence[Level]) -> dict[str, Any]:
    """The effective settings; earlier levels win."""
    found: dict[str, Any] = {}
    for level in reversed(levels):
        found = merged(level.settings.values, found)
    return found


def explained(levels: Sequence[Level]) -> list[Explained]:
    """Every effective value with the levels that set it, sorted by path."""
    holds = flattened(levels)
    rows = []
    for path, value in _leaves(holds):
        origins = [_origin(level, path) for level in levels if _has(level.settings.values, path)]
        rows.append(Explained(path, value, tuple(origins)))
    return sorted(rows, key=lambda row: row.path)


def _origin(level: Level, path: Path) -> str:
    origin = level.settings.origin(path[0])
    return f"{level.label} ({origin})" if origin else level.label


def _has(values: Mapping[str, Any], path: Path) -> bool:
    found: Any = values
    for part in path:
        if not isinstance(found, Mapping) or part not in found:
            return False
        found = found[part]
    return True


def _leaves(values: Mapping[str, Any], before: Path = ()) -> Iterator[tuple[Path, Any]]:
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from _leaves(value, (*before, key))
        else:
            yield (*before, key), value


NAME_MAX = 63
"""Characters: the longest label of a host's name (RFC 1035)."""
IN_TAG_MAX = 200

_MACHINE = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.-]*[A-Za-z0-9_])?", re.ASCII)


def check_machine_name(name: str) -> None:
    """Raises UsageError for a name that no new machine may have. Existing machines may have other names."""
    if len(name) > NAME_MAX or not _MACHINE.fullmatch(name):
        raise UsageError(
            f"{name[:80]!r} is not a name for a machine: up to {NAME_MAX} letters, digits, dots, hyphens and "
            "underscores, with a letter or digit first and no dot or hyphen last"
        )


def name_in_tag(machine: str) -> str:
    """The name as one part of an event tag, whatever names its provider allows."""
    shown = "".join(one if one.isprintable() and one not in "/ " else "_" for one in machine)
    return shown[:IN_TAG_MAX] or "_"


# -- the configuration of the minion

CLOUD_GRAIN = "salt-cloud"
"""The grain with the driver, provider and profile of a machine."""


def minion_id(vm_: Mapping[str, Any]) -> str:
    """The id of the minion on a machine: from its setting `minion`, or its name with `append_domain`."""
    given = (vm_.get("minion") or {}).get("id")
    if given:
        return str(given)
    name, domain = str(vm_.get("name") or ""), str(vm_.get("append_domain") or "").lstrip(".")
    return f"{name}.{domain}" if domain else name


def minion_settings(vm_: Mapping[str, Any], opts: Mapping[str, Any]) -> dict[str, Any]:
    """The options of the minion: `minion` of the machine over the global one, its id and its grains.

    A master without a port gets `master_port` of `opts`. The join token is no option: it travels in a separate file.
    """
    settings = {**(opts.get("minion") or {}), **(vm_.get("minion") or {})}
    if settings.get("master") and opts.get("master_port"):
        settings["master"] = _with_port(settings["master"], int(opts["master_port"]))
    grains = {**(settings.get("grains") or {}), **(vm_.get("grains") or {}), CLOUD_GRAIN: cloud_grain(vm_)}
    return {**settings, "id": minion_id(vm_), "grains": grains}


def cloud_grain(vm_: Mapping[str, Any]) -> dict[str, str]:
    """The driver, provider and profile of a machine."""
    alias, _, driver = str(vm_.get("provider") or vm_.get("driver") or "").partition(":")
    return {
        "driver": driver or str(vm_.get("driver") or ""),
        "provider": alias,
        "profile": str(vm_.get("profile") or ""),
    }


def _with_port(master: Any, port: int) -> Any:
    if isinstance(master, list | tuple):
        return [_with_port(one, port) for one in master]
    text = str(master)
    if text.startswith("["):
        return text if text.rpartition("]")[2] else f"{text}:{port}"
    if text.count(":") > 1:
        return f"[{text}]:{port}"
    return text if ":" in text else f"{text}:{port}"


# -- providers and profiles

ONLY_EXTENDABLE = "-only-extendable-"


@dataclass(frozen=True, slots=True)
class Provider:
    """One alias with one driver."""

    alias: str
    driver: str
    settings: Settings

    @property
    def name(self) -> str:
        """`alias:driver`, as drivers know it from `__active_provider_name__`."""
        return f"{self.alias}:{self.driver}"


@dataclass(frozen=True, slots=True)
class Profile:
    """One kind of machine."""

    name: str
    provider: Provider
    settings: Settings

    def levels(self) -> list[Level]:
        """The profile over its provider."""
        return [
            Level(f"profile {self.name}", self.settings),
            Level(f"provider {self.provider.alias}", self.provider.settings),
        ]


@dataclass(frozen=True, slots=True)
class Catalogue:
    """Every provider and profile; `dropped` has the unusable profiles with the reason."""

    providers: Mapping[str, Mapping[str, Provider]] = field(default_factory=dict)
    profiles: Mapping[str, Profile] = field(default_factory=dict)
    dropped: Mapping[str, str] = field(default_factory=dict)

    def every_provider(self) -> list[Provider]:
        """All of them, by alias and driver."""
        return [drivers[name] for _alias, drivers in sorted(self.providers.items()) for name in sorted(drivers)]

    def provider(self, name: str) -> Provider:
        """The provider `alias`, or `alias:driver`. Raises ConfigError."""
        alias, _, driver = name.partition(":")
        drivers = self.providers.get(alias)
        if not drivers:
            raise ConfigError(f"there is no provider {alias!r}: {_known(self.providers)}")
        if driver:
            if driver not in drivers:
                raise ConfigError(f"provider {alias} has no driver {driver!r}, but {', '.join(sorted(drivers))}")
            return drivers[driver]
        if len(drivers) > 1:
            names = ", ".join(f"{alias}:{one}" for one in sorted(drivers))
            raise ConfigError(f"provider {alias} has several drivers: say which one, {names}")
        return next(iter(drivers.values()))

    def matching(self, name: str) -> list[Provider]:
        """The providers that `all`, an alias, `alias:driver` or a driver selects. Raises ConfigError for none."""
        found = [one for one in self.every_provider() if name in ("all", one.alias, one.name, one.driver)]
        if not found:
            raise ConfigError(f"there is no provider {name!r}: {_known(self.providers)}")
        return found

    def profile(self, name: str) -> Profile:
        """The profile of that name. Raises ConfigError."""
        if name in self.dropped:
            raise ConfigError(self.dropped[name])
        if name not in self.profiles:
            raise ConfigError(f"there is no profile {name!r}: {_known(self.profiles)}")
        return self.profiles[name]


def catalogue(providers: Mapping[str, Sequence[Settings]], profiles: Mapping[str, Settings]) -> Catalogue:
    """The catalogue of the files; `providers` has the entries of each alias. Raises ConfigError with the place."""
    resolved = _providers(providers)
    found: dict[str, Profile] = {}
    dropped: dict[str, str] = {}
    known = Catalogue(resolved)
    for name in profiles:
        settings = _extended(name, profiles.get, "profile")
        provider = settings.values.get("provider")
        if provider == ONLY_EXTENDABLE:
            continue
        if not isinstance(provider, str) or not provider:
            dropped[name] = f"{settings.where}: profile {name} lacks the setting 'provider'"
            continue
        try:
            found[name] = Profile(name, known.provider(provider), settings.without("provider", "extends"))
        except ConfigError as error:
            dropped[name] = f"{settings.origin('provider')}: profile {name}: {error}"
    return Catalogue(resolved, found, dropped)


def _providers(written: Mapping[str, Sequence[Settings]]) -> dict[str, dict[str, Provider]]:
    entries = {
        f"{alias}:{one.values['driver']}" if one.values.get("driver") else f"{alias}#{number}": one
        for alias, several in written.items()
        for number, one in enumerate(several)
    }

    def entry(name: str) -> Settings | None:
        if name in entries:
            return entries[name]
        of_alias = [one for key, one in entries.items() if key.partition(":")[0].partition("#")[0] == name]
        return of_alias[0] if len(of_alias) == 1 else None

    found: dict[str, dict[str, Provider]] = {}
    for alias, several in written.items():
        for number, one in enumerate(several):
            name = f"{alias}:{one.values['driver']}" if one.values.get("driver") else f"{alias}#{number}"
            settings = _extended(name, entry, "provider", shown=alias)
            driver = settings.values.get("driver")
            if one.values.get("driver") == ONLY_EXTENDABLE:
                continue
            if not isinstance(driver, str) or not driver or driver == ONLY_EXTENDABLE:
                raise ConfigError(f"{one.where}: provider {alias} lacks the setting 'driver'")
            drivers = found.setdefault(alias, {})
            if driver in drivers:
                raise ConfigError(f"{one.where}: provider {alias} has the driver {driver} twice; remove one of them")
            drivers[driver] = Provider(alias, driver, settings.without("extends"))
    return found


def _extended(name: str, entry: Callable[[str], Settings | None], kind: str, shown: str = "") -> Settings:
    """An entry merged over everything that it extends. Raises ConfigError."""
    own = entry(name)
    if own is None:
        raise ConfigError(f"there is no {kind} {name!r}")
    seen, settings, now = [name], own, own
    while (above := now.values.get("extends")) is not None:
        where = now.origin("extends")
        if above in seen:
            raise ConfigError(
                f"{where}: {kind} {shown or name} extends itself: {' extends '.join([*seen, str(above)])}"
            )
        found = entry(above) if isinstance(above, str) else None
        if found is None:
            raise ConfigError(f"{where}: {kind} {shown or name} extends {above!r}, which does not exist")
        seen.append(str(above))
        settings = settings.over(found)
        if settings.values.get("driver") == ONLY_EXTENDABLE and found.values.get("driver"):
            settings = Settings({**settings.values, "driver": found.values["driver"]}, settings.origins, settings.where)
        now = found
    return settings


def _known(names: Mapping[str, object]) -> str:
    return f"there are {', '.join(sorted(names))}" if names else "none is configured"


COMMAND_LINE = "command line"
GLOBAL = "global"

_OF_THE_CORE = frozenset({"name", "profile", "provider", "driver", "extends", "requires", "join_token"})
"""Keys that the program sets, and no setting can."""


SETTINGS = _OF_THE_CORE | {
    # Of machines in general.
    "append_domain", "deploy", "destroy_on_failure", "filter_events", "grains", "image", "location", "minion", "size",
    "update_cachedir", "wait_for_minion",
    # Of the login.
    "key_filename", "key_passphrase", "password", "private_key", "salt_host", "ssh_agent", "ssh_host", "ssh_host_key",
    "ssh_interface", "ssh_key_file", "ssh_keyfile", "ssh_known_hosts", "ssh_options", "ssh_password", "ssh_port",
    "ssh_timeout", "ssh_username", "sudo", "sudo_password", "wait_for_passwd_maxtries",
    # Of the deployment.
    "deploy_timeout", "file_map", "inline_script", "install", "install_dir", "install_index", "keep_tmp", "minion_dir",
    "preflight_cmds", "python", "replace_minion", "script", "script_args", "script_env", "start_timeout", "tmp_dir",
    "wheel_dir",
    # Of Windows.
    "smb_port", "use_winrm", "win_deploy_auth_retries", "win_deploy_auth_retry_delay", "win_installer", "win_password",
    "win_username", "winrm_port", "winrm_use_ssl", "winrm_verify_ssl",
    # Salt's, which have no meaning here and stand in profiles that were written for it.
    "deploy_command", "display_ssh_output", "force_minion_config", "hard_timeout", "known_hosts_file", "make_master",
    "make_minion", "make_syndic", "master", "minion_conf", "os", "preseed_minion_keys", "rename_on_destroy",
    "ssh_connect_timeout", "ssh_gateway", "ssh_gateway_key", "ssh_gateway_password", "ssh_gateway_port",
    "ssh_gateway_private_key", "ssh_gateway_user", "start_action", "sync_after_install", "tty", "userdata_file",
    "userdata_template", "wait_for_fun_timeout", "wait_for_ip_interval", "wait_for_ip_timeout",
}  # fmt: skip
"""The settings that mean the same for every driver."""

_LIKE = 0.8
"""How alike two names are, from 0 to 1, if one is taken for a mistyped form of the other."""


def mistyped(level: Level, known: Collection[str]) -> Iterator[str]:
    """A sentence for each setting that is not known and looks like one that is. Others may be for the driver alone."""
    for name in level.settings.values:
        if name in known:
            continue
        swapped = [one for one in known if sorted(one) == sorted(name)]  # in short names two letters count for much
        for one in swapped[:1] or difflib.get_close_matches(name, known, n=1, cutoff=_LIKE):
            where = level.settings.origin(name)
            yield f"{where or level.label}: there is no setting {name!r}: did you mean {one}?"


def levels_of(
    profile: Profile, machine: Settings | None, everywhere: Settings, given: Mapping[str, Any]
) -> list[Level]:
    """All levels, the winning first. `machine` are the settings of a map, `given` those of the command line."""
    levels = [Level(COMMAND_LINE, Settings(dict(given)))] if given else []
    if machine is not None:
        levels.append(Level("map", machine))
    levels += [*profile.levels(), Level(GLOBAL, everywhere)]
    return [Level(one.label, one.settings.without(*_OF_THE_CORE)) for one in levels]


def composed(name: str, profile: Profile, levels: list[Level]) -> dict[str, Any]:
    """The machine as drivers get it (`vm_`): its effective settings and identity. Raises UsageError for its name."""
    check_machine_name(name)
    vm_ = {
        **flattened(levels),
        "name": name,
        "profile": profile.name,
        "provider": profile.provider.name,
        "driver": profile.provider.driver,
        # Salt's drivers read both. They are empty here, because the minion makes its own key.
        "priv_key": "",
        "pub_key": "",
    }
    vm_.setdefault("deploy", True)
    minion = dict(vm_.get("minion") or {})
    vm_["minion"] = {**minion, "id": minion_id(vm_)}
    return vm_


def explanation(profile: Profile, levels: list[Level]) -> list[Explained]:
    """Every value of a machine of this profile, with its origins."""
    return [
        Explained(("provider",), profile.provider.name, (f"profile {profile.name}",)),
        *explained(levels),
    ]


# -- maps

INCLUDE = "include"
MACHINES_MAX = 10_000
"""Machines of one map, includes counted."""


@dataclass(frozen=True, slots=True)
class MapMachine:
    """One machine of a map, with its own settings in the map."""

    name: str
    profile: str
    settings: Settings
    requires: tuple[str, ...] = ()


def machines_of(written: Mapping[str, Any], where: Mapping[str, str], path: str) -> list[MapMachine]:
    """The machines of one file: `{profile: [name | {name: settings}] | {name: settings}}`.

    `where` has `file:line` of each profile, `path` is the file. Raises ConfigError.
    """
    found: list[MapMachine] = []
    for profile, entries in written.items():
        if profile == INCLUDE:
            continue
        place = where.get(profile, path)
        for name, entry in _entries(profile, entries, place):
            found.append(_machine(name, profile, entry, place))
    return found


def one_map(files: Sequence[Sequence[MapMachine]]) -> list[MapMachine]:
    """The machines of several files as one map; for equal names, the later file wins.

    Raises ConfigError for a name that stands twice in one file, and for more than MACHINES_MAX.
    """
    found: dict[str, MapMachine] = {}
    for machines in files:
        here: set[str] = set()
        for machine in machines:
            if machine.name in here:
                raise ConfigError(f"{machine.settings.where}: the map has {machine.name} twice; remove one of them")
            here.add(machine.name)
            found[machine.name] = machine
    if len(found) > MACHINES_MAX:
        raise ConfigError(f"a map has at most {MACHINES_MAX} machines, this one has {len(found)}")
    return list(found.values())


def waves(machines: Sequence[MapMachine], there: Collection[str] = ()) -> list[list[MapMachine]]:
    """The machines to make, in waves by `requires`; within a wave in the order of the map.

    `there` has the names of existing machines. Raises ConfigError for a cycle, and for a requirement that neither
    exists nor is in the map.
    """
    by_name = {machine.name: machine for machine in machines}
    for machine in machines:
        for name in machine.requires:
            if name not in by_name and name not in there:
                raise ConfigError(
                    f"{machine.settings.where}: {machine.name} requires {name}, which neither exists nor is in the map"
                )
    left = [machine for machine in machines if machine.name not in there]
    done = set(there)
    found: list[list[MapMachine]] = []
    while left:
        wave = [machine for machine in left if all(name in done for name in machine.requires)]
        if not wave:
            raise ConfigError(f"{left[0].settings.where}: {_circle(left)}")
        found.append(wave)
        done.update(machine.name for machine in wave)
        left = [machine for machine in left if machine not in wave]
    return found


def _circle(left: Sequence[MapMachine]) -> str:
    by_name = {machine.name: machine for machine in left}
    path = [left[0].name]
    while True:
        name = next(one for one in by_name[path[-1]].requires if one in by_name)
        if name in path:
            return f"the machines wait for each other: {' requires '.join([*path[path.index(name) :], name])}"
        path.append(name)


def _entries(profile: str, entries: object, place: str) -> Iterator[tuple[str, object]]:
    if isinstance(entries, Mapping):
        yield from entries.items()
        return
    if not isinstance(entries, Sequence) or isinstance(entries, str):
        raise ConfigError(f"{place}: under the profile {profile} there must be a list of machines")
    for entry in entries:
        if isinstance(entry, Mapping) and len(entry) == 1:
            yield from entry.items()
        elif isinstance(entry, str | int) and not isinstance(entry, bool):
            yield str(entry), {}
        else:
            raise ConfigError(f"{place}: a machine of a map is a name, or one name with its settings as a map")


def _machine(name: str, profile: str, entry: object, place: str) -> MapMachine:
    check_machine_name(name)
    if entry is None:
        entry = {}
    if not isinstance(entry, Mapping):
        raise ConfigError(f"{place}: the settings of {name} must be a map")
    requires = entry.get("requires") or ()
    if isinstance(requires, str):
        requires = (requires,)
    if not isinstance(requires, Sequence) or not all(isinstance(one, str) for one in requires):
        raise ConfigError(f"{place}: requires of {name} must be a list of names")
    settings = Settings({key: one for key, one in entry.items() if key != "requires"}, where=place)
    return MapMachine(name, profile, settings, tuple(requires))


# -- settings that callers may not use

_ENDS = ("file", "files", "filename", "filenames", "path", "paths", "dir", "dirs", "folder", "folders", "file_map")
"""Endings of settings whose value is a path on this host."""
_OTHERS = frozenset({*KEY_FILES, "ssh_known_hosts", "ssh_options", "ssh_agent"})
_THERE = frozenset({"install_dir", "minion_dir", "tmp_dir", "python"})
"""Paths on the machine."""
_FOR_THE_MACHINE = frozenset({"grains", "inline_script", "minion", "preflight_cmds", "script_args", "script_env"})
"""Settings that are passed to the machine unread."""


def of_this_host(settings: Mapping[str, object]) -> list[str]:
    """The settings that refer to files or ssh options of this host, at any depth, by name or by a path as the value.

    Callers without a shell on this host (runners, the API) may not use them: files would be read, uploaded or written,
    and options of ssh can be commands.
    """
    return sorted(set(_found(settings)))


def _found(settings: Mapping[str, object]) -> Iterator[str]:
    for key, value in settings.items():
        name = str(key)
        if name in _THERE or name in _FOR_THE_MACHINE:
            continue
        if name in _OTHERS or name.lower().endswith(_ENDS) or (name == "script" and "/" in str(value)):
            yield name
        else:
            yield from _in_value(name, value)


def _in_value(name: str, value: object) -> Iterator[str]:
    if isinstance(value, Mapping):
        yield from _found({str(key): each for key, each in value.items()})
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _in_value(name, each)
    elif isinstance(value, str) and value.startswith(("/", "~", "./", "../")):
        yield name


# -- listings of machines in one form: six fields, always present, each of one type

# Contract: "Writing Cloud Driver Modules", `list_nodes`. Drivers answer with None, tuples, numbers and extra fields.

TEXT_FIELDS = ("id", "image", "size", "state")
LIST_FIELDS = ("private_ips", "public_ips")
LISTING_FIELDS = (*TEXT_FIELDS, *LIST_FIELDS)
"""The fields of every machine in a listing."""

GONE_STATES = frozenset({"terminated", "terminating", "shutting-down", "deleted", "deleting", "destroyed", "absent"})
"""States, in lower case, of machines that are still listed but gone: their names are free."""


class ListingError(ValueError):
    """A driver did not answer a map of machines."""


def normal_listing(machines: object) -> dict[str, dict[str, Any]]:
    """A normalized answer of `list_nodes`: `{name: {the six fields}}`. Raises ListingError."""
    return {name: six_fields(details) for name, details in _machines(machines)}


def full_listing(machines: object) -> dict[str, dict[str, Any]]:
    """A normalized answer of `list_nodes_full`: all fields, the six as in `list_nodes` if they are there. Raises
    ListingError.
    """
    return {name: {**plain_value(details), **known_fields(details)} for name, details in _machines(machines)}


def six_fields(details: Mapping[str, Any]) -> dict[str, Any]:
    """Exactly the six fields: four texts and two lists of texts."""
    texts = {field: text_field(details.get(field)) for field in TEXT_FIELDS}
    return {**texts, **{field: _addresses(details.get(field)) for field in LIST_FIELDS}}


def known_fields(details: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the six fields that the machine has, in their form."""
    return {field: value for field, value in six_fields(details).items() if field in details}


def selected_fields(details: Mapping[str, Any], fields: Iterable[str]) -> dict[str, Any]:
    """The selected fields of a machine that it has; `extra:key` is a key in a map."""
    found: dict[str, Any] = {}
    for wanted in fields:
        value: Any = details
        for part in (wanted,) if wanted in details else wanted.split(":"):
            value = value.get(part) if isinstance(value, Mapping) else None
        if value is not None or wanted in details:
            found[wanted] = value
    return found


def is_gone(details: Mapping[str, Any]) -> bool:
    """Whether this machine is gone and its provider still lists it."""
    return str(details.get("state") or "").strip().lower() in GONE_STATES


def plain_value(value: Any) -> Any:
    """The value as data that can be stored and sent: maps, lists, texts, numbers, booleans, None."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        case Mapping():
            return {str(key): plain_value(one) for key, one in value.items()}
        case list() | tuple() | set() | frozenset():
            return [plain_value(one) for one in value]
        case bytes():
            return value.decode("utf-8", "replace")
        case _:
            return str(value)


def _machines(machines: object) -> list[tuple[str, Mapping[str, Any]]]:
    if not isinstance(machines, Mapping):
        raise ListingError(f"a {type(machines).__name__} in place of a map of machines")
    for name, details in machines.items():
        if not isinstance(details, Mapping):
            raise ListingError(f"a {type(details).__name__} in place of the fields of {str(name)[:60]}")
    return [(str(name), details) for name, details in machines.items()]


def text_field(value: object) -> str:
    """A field of a listing as text; "" for None."""
    return "" if value is None else str(value)


def _addresses(value: object) -> list[str]:
    if isinstance(value, str) or value is None:
        return [value] if value else []
    if isinstance(value, Sequence | set | frozenset):
        return [str(one) for one in value if one]
    return [str(value)]
