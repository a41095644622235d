"""Simulated resources without a device, with configurable delays and failures, for trying out targets and load tests.

The pillar of the minion declares them:

    resources:
      dummy:
        resource_ids: [web-1, web-2]  # ids by name
        count: 1000                   # and this many numbered ones, `dummy-1` ... `dummy-1000`
        prefix: dummy-                # the prefix of numbered ids
        latency: 0.05                 # seconds that every function takes
        latency_jitter: 0.01          # seconds added at most
        failure_rate: 0.1             # the share of calls that fail, 0 to 1
        hang: [web-2]                 # resources that never answer

The id of a resource and the number of its calls in this process determine which calls fail and how long they take, so
runs can be repeated. This is the connection module of the type; `modules` has its execution modules.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from saltlite.errors import CommandExecutionError

if TYPE_CHECKING:
    from saltlite.loader.hints import __context__, __opts__, __pillar__, __resource__


# -- the pillar of the type

COUNT_MAX = 1_000_000
"""Counted resources of one minion."""

SECONDS_MAX = 86_400.0
"""The longest latency."""

_KNOWN = ("resource_ids", "count", "prefix", "latency", "latency_jitter", "failure_rate", "hang")


@dataclass(frozen=True, slots=True)
class Settings:
    """The declared resources and their behaviour. Times are in seconds, the rate is 0 to 1."""

    named: tuple[str, ...]
    count: int
    prefix: str
    latency_s: float
    jitter_s: float
    failure_rate: float
    hang: frozenset[str]

    @property
    def troubles(self) -> bool:
        """Whether calls may be slow or fail."""
        return bool(self.latency_s or self.jitter_s or self.failure_rate or self.hang)

    def ids(self) -> Iterator[str]:
        """Every id once, first those of `resource_ids`, then the numbered ones."""
        seen = dict.fromkeys(self.named)
        yield from seen
        for number in range(1, self.count + 1):
            if (counted := f"{self.prefix}{number}") not in seen:
                yield counted


def _settings_of(pillar: object) -> Settings:
    """The settings in the pillar's `dummy`. Raises CommandExecutionError that names an invalid one."""
    given: Mapping[str, Any] = pillar if isinstance(pillar, Mapping) else {}
    for name in given:
        if name not in _KNOWN:
            raise CommandExecutionError(f"Pillar of dummy: {name!r} is not known; it may have {', '.join(_KNOWN)}.")
    return Settings(
        named=_texts(given, "resource_ids"),
        count=int(_number(given, "count", COUNT_MAX)),
        prefix=str(given.get("prefix", "dummy-")),
        latency_s=_number(given, "latency", SECONDS_MAX),
        jitter_s=_number(given, "latency_jitter", SECONDS_MAX),
        failure_rate=_number(given, "failure_rate", 1),
        hang=frozenset(_texts(given, "hang")),
    )


def _number(given: Mapping[str, Any], name: str, most: float) -> float:
    value = given.get(name, 0)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most:
        raise CommandExecutionError(f"Pillar of dummy: {name} is {value!r}; it must be a number from 0 to {most:g}.")
    return value


def _texts(given: Mapping[str, Any], name: str) -> tuple[str, ...]:
    value = given.get(name) or ()
    if not isinstance(value, list | tuple) or not all(isinstance(each, str | int) for each in value):
        raise CommandExecutionError(f"Pillar of dummy: {name} must be a list of ids.")
    return tuple(map(str, value))


_FILE_NAME_MAX = 200
_FOREVER_S = 3600.0


def __virtual__() -> bool:  # noqa: N807 - the name that the loader asks for
    return True


def init(opts: dict[str, Any]) -> None:
    """Make the folder of the states, and read the pillar. Raises CommandExecutionError for an invalid pillar."""
    folder = os.path.join(opts["cachedir"], "dummy-resources")
    os.makedirs(folder, mode=0o700, exist_ok=True)
    __context__["dummy.calls"] = {}
    __context__["dummy.folder"] = folder
    _settings()


def initialized() -> bool:
    """Whether `init` has run."""
    return "dummy.folder" in __context__


def discover(opts: dict[str, Any]) -> list[str]:  # noqa: ARG001 - the contract of connection modules
    """The ids of all declared resources."""
    return list(_settings().ids())


def grains() -> dict[str, Any]:
    """Three constant grains, and the id."""
    constant = {"dummy_grain_1": "one", "dummy_grain_2": "two", "dummy_grain_3": "three"}
    return {**constant, "resource_id": __resource__["id"]}


def grains_refresh() -> dict[str, Any]:
    """The same as `grains`: nothing is cached."""
    return grains()


def ping() -> bool:
    """True after the configured delay. Raises CommandExecutionError if this call is to fail."""
    reach()
    return True


def shutdown(opts: dict[str, Any]) -> None:  # noqa: ARG001 - the contract of connection modules
    """Drop all data in memory; states stay on disk."""
    for name in ("dummy.folder", "dummy.calls", "dummy.settings"):
        __context__.pop(name, None)


def reach() -> None:
    """Simulate a connection: wait, fail or hang, as the pillar says."""
    settings = _settings()
    if not settings.troubles:
        return
    own_id = __resource__["id"]
    while own_id in settings.hang:
        time.sleep(_FOREVER_S)
    number = __context__["dummy.calls"][own_id] = __context__["dummy.calls"].get(own_id, 0) + 1
    digest = hashlib.sha256(f"{own_id}\n{number}".encode()).digest()
    wait_s = settings.latency_s + settings.jitter_s * _share(digest[:8])
    if wait_s:
        time.sleep(wait_s)
    if _share(digest[8:16]) < settings.failure_rate:
        raise CommandExecutionError(f"dummy resource {own_id} failed at call {number}, as its pillar asks")


def service_start(name: str) -> str:
    """Start a service: `running`."""
    return _set_service(name, "running")


def service_stop(name: str) -> str:
    """Stop a service: `stopped`."""
    return _set_service(name, "stopped")


def service_restart(name: str) -> bool:
    """Start an existing service: True. Raises CommandExecutionError for an unknown one."""
    _set_service(name, "running", known=True)
    return True


def service_list() -> list[str]:
    """The names of all services, sorted."""
    with _state() as state:
        return sorted(state["services"])


def service_status(name: str) -> dict[str, str]:
    """`{"comment": "running"}` or `stopped`; an unknown service is stopped."""
    with _state() as state:
        return {"comment": state["services"].get(name, "stopped")}


def package_list() -> dict[str, str]:
    """All packages with their versions."""
    with _state() as state:
        return dict(state["packages"])


def package_install(name: str, version: str = "1.0") -> dict[str, str]:
    """Install a package, or another version of an installed one."""
    with _state() as state:
        state["packages"][name] = version
    return {name: version}


def package_remove(name: str) -> dict[str, str]:
    """Remove a package; returns the remaining ones."""
    with _state() as state:
        state["packages"].pop(name, None)
        return dict(state["packages"])


def package_status(name: str) -> dict[str, str] | None:
    """`{name: version}`, or None when it is not installed."""
    with _state() as state:
        version = state["packages"].get(name)
    return None if version is None else {name: version}


def upgrade() -> dict[str, str]:
    """Add 1.0 to every numeric version; returns all packages."""
    with _state() as state:
        state["packages"] = {name: _next_version(version) for name, version in state["packages"].items()}
        return dict(state["packages"])


def uptodate() -> dict[str, str]:
    """All packages: every installed version is the newest."""
    return package_list()


def test_from_state() -> str:
    """A constant."""
    return "testvalue"


def _settings() -> Settings:
    """The current settings; they are read again after the pillar was replaced."""
    key = __opts__.get("resource_pillar_key") or "resources"
    types = __pillar__.get(key)
    pillar = types.get("dummy") if isinstance(types, Mapping) else None
    known = __context__.get("dummy.settings")
    if known is None or known[0] is not pillar:
        known = __context__["dummy.settings"] = (pillar, _settings_of(pillar))
    settings: Settings = known[1]
    return settings


def _share(eight: bytes) -> float:
    """Eight bytes as a number from 0 to just below 1."""
    return (int.from_bytes(eight) >> 11) / 2**53


def _next_version(version: str) -> str:
    try:
        return str(float(version) + 1.0)
    except ValueError:
        return version


def _set_service(name: str, state_of_it: str, *, known: bool = False) -> str:
    with _state() as state:
        if known and name not in state["services"]:
            raise CommandExecutionError(f"dummy resource {__resource__['id']} has no service {name!r}")
        state["services"][name] = state_of_it
    return state_of_it


def _path() -> str:
    """The file of this resource. An encoded id may be longer than a file name, and is then hashed."""
    own_id = __resource__["id"]
    name = quote(own_id, safe="")
    if len(name) > _FILE_NAME_MAX:
        name = f"{name[:100]}%{hashlib.sha256(own_id.encode()).hexdigest()}"
    return os.path.join(__context__["dummy.folder"], f"{name}.json")


@contextmanager
def _state() -> Iterator[dict[str, dict[str, str]]]:
    """The state of this resource, after a simulated connection; changes in the block are saved."""
    reach()
    path = _path()
    try:
        with open(path, encoding="utf-8") as stream:
            state = json.load(stream)
    except FileNotFoundError:
        state = {
            "services": {"apache": "running", "ntp": "running", "samba": "stopped"},
            "packages": {"coreutils": "1.0", "apache": "2.4", "tinc": "1.4", "redbull": "999.99"},
        }
    before = json.dumps(state)
    yield state
    after = json.dumps(state)
    if after != before:
        _write(path, after)


def _write(path: str, text: str) -> None:
    """Write atomically: another process may read at the same time."""
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=os.path.dirname(path), delete=False) as stream:
        stream.write(text)
    os.replace(stream.name, path)
