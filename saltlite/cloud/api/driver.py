"""What drivers share: call checks, events, files that settings name, and waiting.

    def show_instance(name, call=None):
        only_action("show_instance", call)

`call` is "action" for `-a`, "function" for `-f`, and None when the program itself calls the function.
"""

from __future__ import annotations

import contextlib
import difflib
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from saltlite.cloud.api.cloud import filter_event, fire_event
from saltlite.cloud.api.config import get_cloud_config_value
from saltlite.cloud.api.exceptions import (
    SaltCloudConfigError,
    SaltCloudException,
    SaltCloudExecutionTimeout,
    SaltCloudSystemExit,
)
from saltlite.cloud.api.port import cloud


def only_action(name: str, call: str | None) -> None:
    """Raises SaltCloudSystemExit unless the function was called for one machine."""
    if call != "action":
        raise SaltCloudSystemExit(f"The {name} action must be called with -a or --action.")


def only_function(name: str, call: str | None) -> None:
    """Raises SaltCloudSystemExit unless the function was called for a provider."""
    if call != "function":
        raise SaltCloudSystemExit(f"The {name} function must be called with -f or --function.")


def no_action(name: str, option: str, call: str | None) -> None:
    """Raises SaltCloudSystemExit if the function was called for one machine; `option` is how else it is called."""
    if call == "action":
        raise SaltCloudSystemExit(f"The {name} function must be called with -f or --function, or with {option}.")


def no_function(name: str, option: str, call: str | None) -> None:
    """Raises SaltCloudSystemExit if the function was called for a provider; `option` is how else it is called."""
    if call == "function":
        raise SaltCloudSystemExit(f"The {name} action must be called with {option}, -a or --action.")


def needed(kwargs: Mapping[str, Any] | None, key: str, name: str) -> str:
    """The value of `key=value` on the command line. Raises SaltCloudSystemExit without one."""
    value = (kwargs or {}).get(key)
    if value is None or value == "":
        raise SaltCloudSystemExit(f"{name} needs {key}=VALUE behind the names")
    return str(value)


MACHINE_KEYS = ("name", "profile", "provider", "driver")


def uniquely_named(machines: Iterable[tuple[str, Any, Machine]]) -> dict[str, Machine]:
    """Machines of (name, id, machine) by name; of equal names the first keeps it, the others become "name (id)", or
    "name (2)" without an id.
    """
    found: dict[str, Machine] = {}
    for name, identity, machine in machines:
        number = len(found) + 1 if identity is None else identity
        found[name if name not in found else f"{name} ({number})"] = machine
    return found


def require_one(name: str, ids: Iterable[Any]) -> None:
    """Raises SaltCloudSystemExit when several machines have this name."""
    known = [str(one) for one in ids]
    if len(known) > 1:
        raise SaltCloudSystemExit(f"several machines are called {name}: give the id of one of them: {', '.join(known)}")


def nearest(wanted: str, known: Iterable[str]) -> str:
    """The end of a sentence that suggests the most similar name, "" for none."""
    near = difflib.get_close_matches(wanted, list(known), n=1)
    return f": is {near[0]} meant?" if near else ""


def interface_of(vm_: Mapping[str, Any], opts: Mapping[str, Any]) -> str:
    """The setting `ssh_interface`: `public` (the default) or `private`, also as `public_ips` or `private_ips`."""
    value = get_cloud_config_value("ssh_interface", vm_, opts, default="public", search_global=False)
    chosen = str(value).removesuffix("_ips")
    if chosen not in ("public", "private"):
        raise SaltCloudConfigError(f"'ssh_interface' of {vm_['name']} must be public or private, not {chosen!r}")
    return chosen


def tell(tag: str, text: str, vm_: Mapping[str, Any], more: Mapping[str, Any] | None = None) -> None:
    """Fire `salt/cloud/<name>/<tag>`, such as `creating`, with the identity of the machine and `more`."""
    data = filter_event(tag, {**vm_, **(more or {})}, (*MACHINE_KEYS, *(more or ())))
    fire_event("event", text, f"salt/cloud/{vm_['name']}/{tag}", args=data)


@contextlib.contextmanager
def asking_for(vm_: Mapping[str, Any]) -> Iterator[None]:
    """A block with only the create request. After an error that is not `unclear`, no machine was made; the rollback
    then looks for none, because a machine of that name would be another one.
    """
    try:
        yield
    except SaltCloudException as error:
        if not error.unclear:
            cloud().refused(str(vm_["name"]))
        raise


def made(vm_: Mapping[str, Any], identity: str) -> None:
    """Journal the provider's id of a new machine: a rollback then destroys it by its id, not by its name."""
    cloud().made(str(vm_["name"]), identity)


def text_of(path: str, setting: str) -> str:
    """The text of a file that a setting names. Raises SaltCloudConfigError."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "it is not text in UTF-8"
        raise SaltCloudConfigError(f"{setting} {path} cannot be read: {why}") from None


def public_key(path: str) -> str:
    """The public key in a file. Raises SaltCloudConfigError when there is none, or a private one."""
    text = text_of(path, "file").strip()
    if "PRIVATE KEY" in text:
        raise SaltCloudConfigError(f"{path} is a private key, which is never sent: name the public one, {path}.pub")
    return text


def private_key_file(path: object, setting: str) -> str:
    """The full path of a private key for logins. Raises SaltCloudConfigError if the file is missing."""
    full = os.path.expanduser(str(path))
    if not os.path.isfile(full):
        raise SaltCloudConfigError(f"{setting} names {full}, and there is no such file")
    return full


Found = TypeVar("Found")
Machine = TypeVar("Machine")


def wait_until(
    ask: Callable[[], Found | None],
    problem: str,
    *,
    seconds: float,
    interval_s: float,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> Found:
    """Poll `ask` until it returns something other than None: at once, after each interval, and at the end.

    Raises SaltCloudExecutionTimeout after `seconds`: "<problem> after <seconds> s".
    """
    end = clock() + seconds
    while True:
        found = ask()
        if found is not None:
            return found
        left = end - clock()
        if left <= 0:
            raise SaltCloudExecutionTimeout(f"{problem} after {seconds:g} s")
        sleep(min(interval_s, left))
