"""The settings of one machine, read one by one: each of its kind, or an error that names it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from saltlite.cloud.api.exceptions import SaltCloudConfigError
from saltlite.config.values import parse_duration
from saltlite.errors import UsageError
from saltlite.resources.types.ssh._host import problem_of


class Readings:
    """The settings of a machine; every method raises SaltCloudConfigError, and repeats no value of a secret."""

    def __init__(self, vm_: Mapping[str, Any]) -> None:
        """`vm_` is what drivers hand over: settings of all layers, the nearest one already chosen."""
        self._vm = vm_
        self.name = str(vm_.get("name") or "")
        if not self.name:
            raise SaltCloudConfigError("the machine has no name: `name` is missing in what the driver handed over")

    def first(self, *names: str) -> tuple[str, Any]:
        """The first of these settings that is there, with its name; the last name and None when none is."""
        return next(
            ((name, self._vm[name]) for name in names if self._vm.get(name) not in (None, "")), (names[-1], None)
        )

    def text(self, *names: str, default: str = "") -> str:
        """Text, which may be written as a number."""
        name, value = self.first(*names)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise self.wrong(name, "must be text")
        return str(value)

    def path(self, name: str, default: str) -> str:
        """An absolute path on the machine, without a line break."""
        value = self.text(name, default=default)
        if not value.startswith("/") or not value.isprintable():
            raise self.wrong(name, f"is {value!r}; it must be an absolute path on the machine")
        return value.rstrip("/") or "/"

    def flag(self, name: str, *, default: bool = False) -> bool:
        """True or false."""
        value = self._vm.get(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self.wrong(name, f"is {value!r}; it must be true or false")
        return value

    def seconds(self, name: str, default: float, most: float = 86_400.0) -> float:
        """A time: a number of seconds, or text such as `5m`."""
        value = self._vm.get(name)
        if value is None:
            return default
        try:
            found = parse_duration(str(value))
        except UsageError:
            found = 0.0
        if isinstance(value, bool) or not 0 < found <= most:
            raise self.wrong(name, f"is {value!r}; it must be a time up to {most:g} s, as in 30, 30s or 5m")
        return found

    def whole(self, name: str, default: int, most: int) -> int:
        """A whole number from 1 on."""
        value = self._vm.get(name)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
            raise self.wrong(name, f"is {value!r}; it must be a whole number from 1 to {most}")
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        """Texts: a list of them, or one."""
        value = self._vm.get(name)
        if value in (None, "", []):
            return ()
        if isinstance(value, str):
            return (value,)
        if not isinstance(value, list | tuple) or not all(isinstance(each, str) and each for each in value):
            raise self.wrong(name, "must be text, or a list of texts")
        return tuple(value)

    def mapping(self, name: str) -> dict[str, Any]:
        """A map; nothing written is an empty one."""
        value = self._vm.get(name)
        if value in (None, ""):
            return {}
        if not isinstance(value, Mapping):
            raise self.wrong(name, "must be a map")
        return {str(key): each for key, each in value.items()}

    def checked(self, field: str, name: str, value: Any) -> Any:
        """A value that goes to ssh as this field of a host, named as the setting is."""
        problem = problem_of(field, value)
        if problem:
            raise self.wrong(name, problem)
        return value

    def wrong(self, name: str, problem: str) -> SaltCloudConfigError:
        """The error for one setting."""
        where = self._vm.get("profile")
        return SaltCloudConfigError(
            f"{self.name}: the setting {name} {problem}" + (f" (profile {where})" if where else "")
        )
