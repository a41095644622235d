"""The implementation of `saltlite.cloud.api.libcloudfuncs`: machines, sizes and images of Libcloud as plain data.

It is a separate module because the functions of `libcloudfuncs` are copied into drivers together with every global name
that they use; so this module is their only one.
"""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from saltlite.cloud.api.cloud import list_nodes_select, os_script
from saltlite.cloud.api.config import get_cloud_config_value
from saltlite.cloud.api.driver import (
    nearest,
    no_action,
    no_function,
    only_action,
    require_one,
    tell,
    uniquely_named,
)
from saltlite.cloud.api.exceptions import (
    SaltCloudConfigError,
    SaltCloudExecutionFailure,
    SaltCloudNotFound,
    SaltCloudSystemExit,
)
from saltlite.cloud.rules.catalogue import text_field

# Imported here, not where it is used: several threads query providers, and concurrent imports of a cycle of modules
# from different ends fail.
with contextlib.suppress(ImportError):
    import libcloud.common.exceptions as faults
    import libcloud.common.types as kinds
    import libcloud.compute.providers  # noqa: F401 - for the modules that it brings
    import requests.exceptions

__all__ = [
    "ScriptText", "asking", "choices", "chosen", "done", "full", "list_nodes_select", "machine", "machines",
    "no_action", "no_function", "only_action", "os_script", "plain", "six", "tell",
]  # fmt: skip


class ScriptText(str):
    """The text of a deploy script. Drivers read it as such, or as the attribute `script` of libcloud's deployments."""

    __slots__ = ()

    @property
    def script(self) -> str:
        """The text."""
        return str(self)


_IMAGE_KEYS = ("image_id", "imageId", "image", "image_name")
_SIZE_KEYS = ("instance_type", "flavorId", "flavor_id", "size_slug", "size")
_PLAIN = (str, int, float, bool, type(None))
_DEEP = 6
"""Levels of `extra` that are shown."""


@contextlib.contextmanager
def asking(conn: Any, what: str) -> Iterator[None]:
    """A block that uses libcloud; its errors become SaltCloudExecutionFailure."""
    provider = str(getattr(conn, "name", None) or "the provider")
    try:
        yield
    except kinds.InvalidCredsError as error:
        sentence = f"{provider} rejects these credentials, asked to {what}: {_line(error)}"
        raise SaltCloudExecutionFailure(sentence) from None
    except kinds.MalformedResponseError:
        sentence = f"{provider} answers nonsense, asked to {what}: is its address right?"
        raise _unclear(sentence) from None
    except faults.RateLimitReachedError:
        raise SaltCloudExecutionFailure(f"{provider} limits the rate of requests to {what}: try again later") from None
    except (faults.BaseHTTPError, kinds.LibcloudError) as error:
        sentence = f"{provider} refuses to {what}: {_line(error)}"
        raise (
            _unclear(sentence) if (getattr(error, "code", 0) or 0) >= 500 else SaltCloudExecutionFailure(sentence)
        ) from None
    except (requests.exceptions.RequestException, ssl.SSLError, OSError) as error:
        raise _unclear(f"{provider} cannot be reached to {what}: {_line(error)}") from None
    except NotImplementedError:
        raise SaltCloudSystemExit(f"libcloud cannot {what} at {provider}") from None


def _unclear(text: str) -> SaltCloudExecutionFailure:
    """The error of a request that may have been carried out although it failed."""
    error = SaltCloudExecutionFailure(text)
    error.unclear = True
    return error


def machines(conn: Any) -> dict[str, Any]:
    """libcloud's objects of the machines by name. Of several with one name the first gets it, others "name (id)"."""
    with asking(conn, "list machines"):
        return uniquely_named((text_field(one.name or one.id), one.id, one) for one in conn.list_nodes())


def machine(conn: Any, name: str) -> Any:
    """The machine with this name, as in `machines`, or with this id. Raises SaltCloudNotFound, and SaltCloudSystemExit
    when several have that name.
    """
    known = machines(conn)
    require_one(name, (each.id for each in known.values() if each.name == name))
    found = known.get(name) or next((each for each in known.values() if text_field(each.id) == name), None)
    if found is None:
        raise SaltCloudNotFound(
            f"{getattr(conn, 'name', 'the provider')} has no machine {name!r}; -Q shows those it has"
        )
    return found


def six(machine: Any) -> dict[str, Any]:
    """The six fields of a listing. Many providers have image and size only in `extra`."""
    return {
        "id": text_field(machine.id),
        "image": _name_of(machine.image, machine.extra, _IMAGE_KEYS),
        "size": _name_of(machine.size, machine.extra, _SIZE_KEYS),
        "state": str(machine.state or ""),
        "private_ips": [str(address) for address in machine.private_ips or ()],
        "public_ips": [str(address) for address in machine.public_ips or ()],
    }


def full(machine: Any) -> dict[str, Any]:
    """All fields of a machine, and the six fields."""
    return {**plain(_public(machine)), **six(machine)}


def plain(value: Any, deep: int = _DEEP) -> Any:
    """A value of libcloud as JSON data; objects become their `str`."""
    if isinstance(value, _PLAIN):
        return value
    if isinstance(value, Mapping) and deep:
        return {str(key): plain(inner, deep - 1) for key, inner in value.items()}
    if isinstance(value, list | tuple | set | frozenset) and deep:
        return [plain(inner, deep - 1) for inner in value]
    return str(value)


def choices(conn: Any, kind: str) -> dict[str, dict[str, Any]]:
    """The `images`, `sizes` or `locations` of a provider, by name."""
    return {text_field(each.name or each.id): plain(_public(each)) for each in _every(conn, kind)}


def chosen(conn: Any, kind: str, vm_: Mapping[str, Any], opts: Mapping[str, Any]) -> Any:
    """The image, size or location that the machine's setting names by id or name; `kind` is the plural.

    Raises SaltCloudConfigError without the setting, SaltCloudNotFound if the provider does not have it.
    """
    setting = kind.removesuffix("s")
    wanted = get_cloud_config_value(setting, vm_, opts, search_global=False)
    if wanted is None or wanted == "":
        raise SaltCloudConfigError(f"{vm_.get('name')} has no {setting!r}: set one of --list-{kind} in its profile")
    every = list(_every(conn, kind))
    for each in every:
        if str(wanted) in (str(each.id), str(each.name)):
            return each
    hint = nearest(str(wanted), _names(every)) or f"; --list-{kind} shows those it has"
    raise SaltCloudNotFound(f"{getattr(conn, 'name', 'the provider')} has no {setting} {str(wanted)!r}{hint}")


def done(conn: Any, method: str, machine: Any) -> None:
    """Call a method of libcloud's driver, such as `destroy_node`, for a machine. Raises SaltCloudExecutionFailure."""
    what = f"{method.removesuffix('_node')} {machine.name}"
    with asking(conn, what):
        if not getattr(conn, method)(machine):
            raise SaltCloudExecutionFailure(f"{conn.name} does not say that it could {what}")


def _every(conn: Any, kind: str) -> Iterable[Any]:
    with asking(conn, f"list {kind}"):
        return list(getattr(conn, f"list_{kind}")())


def _names(every: Iterable[Any]) -> list[str]:
    return [str(name) for each in every for name in (each.id, each.name)]


def _name_of(thing: Any, extra: Mapping[str, Any] | None, keys: Iterable[str]) -> str:
    for value in (thing, *((extra or {}).get(key) for key in keys)):
        named = (value.get("slug") or value.get("name") or value.get("id")) if isinstance(value, Mapping) else value
        if named:
            return str(named if isinstance(named, _PLAIN) else named.id)
    return ""


def _line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def _public(thing: Any) -> dict[str, Any]:
    return {key: value for key, value in vars(thing).items() if not key.startswith("_") and key != "driver"}
