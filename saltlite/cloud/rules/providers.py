"""Providers: an alias, a driver, settings. Profiles: settings of one kind of machine at a provider.

Contract: Salt's files `cloud.providers` and `cloud.profiles`. `extends` is resolved here, over several steps; who
extends wins. An entry whose driver (or whose provider) is `-only-extendable-` is there to be extended, and is none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from saltlite.cloud.rules.settings import Level, Settings
from saltlite.errors import ConfigError

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
    """Every provider and profile; `dropped` has the profiles that are none, with the sentence why."""

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
        """The providers that are meant by `all`, an alias, `alias:driver`, or a driver. Raises ConfigError for none."""
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
    """What the files mean: `providers` has the entries of each alias. Raises ConfigError, with the place."""
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
    """An entry over what it extends, and over what that extends. Raises ConfigError."""
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
            raise ConfigError(f"{where}: {kind} {shown or name} extends {above!r}, which is none")
        seen.append(str(above))
        settings = settings.over(found)
        if settings.values.get("driver") == ONLY_EXTENDABLE and found.values.get("driver"):
            settings = Settings({**settings.values, "driver": found.values["driver"]}, settings.origins, settings.where)
        now = found
    return settings


def _known(names: Mapping[str, object]) -> str:
    return f"there are {', '.join(sorted(names))}" if names else "none is configured"
