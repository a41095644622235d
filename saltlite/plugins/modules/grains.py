"""Read and set grains: facts about this minion.

Grains that are set are stored in the file ``grains`` beside the minion's configuration. They override collected grains;
the option ``grains`` overrides them. After a function has set grains, the master has them, so ``-G`` and the pillar use
them at once.

:maintainer:    The saltlite authors
:maturity:      new
:platform:      all
"""

from __future__ import annotations

import contextlib
import copy
import fcntl
import os
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from saltlite.errors import CommandExecutionError, NoMinionError, SaltInvocationError
from saltlite.plugins.modules import _nested
from saltlite.plugins.modules._nested import MISSING
from saltlite.plugins.modules._safe_files import write_whole

if TYPE_CHECKING:
    from saltlite.loader.hints import __file_client__, __grains__, __opts__, __salt__


# --- The file of static grains, which plugins/grains/collect.py reads ---

LOCK_S = 30.0
"""Seconds to wait for other writers of the file."""

FILE_BYTES_MAX = 1024 * 1024
"""Maximum size of the file; a minion does not read a larger one."""

DEPTH_MAX = 32
"""Maximum depth of nested maps and lists."""

_LOOK_S = 0.02
_PLAIN = (str, int, float, bool, type(None))


@contextlib.contextmanager
def _changing(path: str) -> Iterator[dict[str, Any]]:
    """Lock the file and yield its grains; they are written at the end of the block if they changed.

    Raises CommandExecutionError when the file cannot be read or written, SaltInvocationError for an invalid value.
    """
    with _locked(os.path.dirname(path)):
        header, grains = _read(path)
        before = _text(grains)
        yield grains
        for value in grains.values():
            _check(value, DEPTH_MAX)
        after = _text(grains)
        if after != before:
            _write(path, header + after)


def _check(value: Any, depth: int) -> None:
    if depth == 0:
        raise SaltInvocationError(f"A grain has at most {DEPTH_MAX} maps and lists inside of each other.")
    if isinstance(value, dict):
        for key, inner in value.items():
            if not isinstance(key, _PLAIN):
                raise SaltInvocationError(f"{key!r} cannot be a key inside of a grain.")
            _check(inner, depth - 1)
    elif isinstance(value, list | tuple):
        for inner in value:
            _check(inner, depth - 1)
    elif not isinstance(value, _PLAIN):
        import datetime  # YAML dates in a hand-written file

        if not isinstance(value, datetime.date):
            raise SaltInvocationError(f"A grain is text, a number, true, false, a list or a map, not {value!r:.80}.")


def _text(grains: dict[str, Any]) -> str:
    import yaml  # only needed to set grains

    class Plain(yaml.SafeDumper):
        """Writes no anchors, so that the file can be edited by hand."""

        def ignore_aliases(self, _data: Any) -> bool:
            return True

    plain: Any = Plain
    plain.add_multi_representer(dict, yaml.SafeDumper.represent_dict)
    plain.add_multi_representer(str, yaml.SafeDumper.represent_str)
    plain.add_multi_representer(tuple, yaml.SafeDumper.represent_list)
    try:
        text: str = yaml.dump(grains, Dumper=plain, default_flow_style=False, allow_unicode=True, sort_keys=False)
    except (yaml.YAMLError, RecursionError) as error:
        raise SaltInvocationError(f"That cannot be written as YAML: {error}") from error
    return text if grains else ""


def _read(path: str) -> tuple[str, dict[str, Any]]:
    """Return the leading comment lines and the grains."""
    import yaml

    try:
        with open(path, encoding="utf-8-sig") as stream:
            text = stream.read(FILE_BYTES_MAX + 1)
        found = yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506 - both are safe loaders
    except FileNotFoundError:
        return "", {}
    except OSError as error:
        raise CommandExecutionError(f"The grains file {path} cannot be read: {error.strerror}.") from error
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise CommandExecutionError(f"The grains file {path} is not YAML, and was not changed: {reason}") from error
    if len(text) > FILE_BYTES_MAX or not isinstance(found, dict | None):
        raise CommandExecutionError(f"The grains file {path} is not a map of grains, and was not changed.")
    header = ""
    for line in text.splitlines(keepends=True):
        if not line.startswith("#"):
            break
        header += line
    return header, {str(name): value for name, value in (found or {}).items()}


def _write(path: str, text: str) -> None:
    data = text.encode()
    if len(data) > FILE_BYTES_MAX:
        raise SaltInvocationError(f"Grains that are set have at most {FILE_BYTES_MAX} bytes together: nothing is set.")
    try:
        write_whole(path, data, new_mode=0o644)
    except CommandExecutionError as error:
        reason = getattr(error.__cause__, "strerror", None) or str(error).rstrip(".")
        raise CommandExecutionError(f"The grains file {path} cannot be written, and is as it was: {reason}.") from error


@contextlib.contextmanager
def _locked(folder: str) -> Iterator[None]:
    try:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise CommandExecutionError(f"The folder {folder} of the grains cannot be opened: {error.strerror}.") from error
    try:
        give_up_at = time.monotonic() + LOCK_S
        while not _lock(fd):
            if time.monotonic() > give_up_at:
                raise CommandExecutionError(f"Another process has locked the grains in {folder} for {LOCK_S:g} s.")
            time.sleep(_LOOK_S)
        yield
    finally:
        os.close(fd)


def _lock(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


__func_alias__ = {"set_": "set"}

_SANITIZED = {
    "serialnumber": "SERIAL", "uuid": "UUID", "machine_id": "MACHINE_ID", "domain": "DOMAINNAME",
    "fqdn": "MINION.DOMAINNAME", "id": "MINION.DOMAINNAME", "host": "MINION", "localhost": "MINION",
    "nodename": "MINION",
}  # fmt: skip

_OWN = frozenset({"id"})
"""Grains that cannot be overridden."""


def items(sanitize: bool = False) -> dict[str, Any]:
    """Return all grains. ``sanitize=True`` masks names and serial numbers of this machine.

    CLI Example::

        saltlite '*' grains.items
        saltlite '*' grains.items sanitize=True
    """
    return _sanitized(dict(__grains__)) if sanitize else dict(__grains__)


def item(*args: str, default: Any = "", delimiter: str = ":", sanitize: bool = False) -> dict[str, Any]:
    """Return the named grains; a missing grain has the value of ``default``.

    CLI Example::

        saltlite '*' grains.item os
        saltlite '*' grains.item os osrelease oscodename
        saltlite '*' grains.item host default=unknown
        saltlite '*' grains.item host sanitize=True
    """
    found = {name: get(name, default, delimiter) for name in args}
    return _sanitized(found) if sanitize else found


def get(key: str, default: Any = "", delimiter: str = ":", ordered: bool = True) -> Any:  # noqa: ARG001 - Salt's signature
    """Return a grain, or a value inside it; ``delimiter`` separates the parts of the key.

    A number is an index into a list. A missing key gives ``default``. ``ordered`` exists in Salt and has no effect.

    CLI Example::

        saltlite '*' grains.get os
        saltlite '*' grains.get locale_info:defaultlanguage
        saltlite '*' grains.get ip4_interfaces:eth0:0
        saltlite '*' grains.get 'abc::def|ghi' delimiter='|'
        saltlite '*' grains.fetch os
    """
    value = _nested.find(__grains__, key, delimiter)
    return default if value is MISSING else value


fetch = get


def ls() -> list[str]:
    """Return the names of all grains, sorted.

    CLI Example: ``saltlite '*' grains.ls``
    """
    return sorted(__grains__)


def has_value(key: str) -> bool:
    """Return whether a grain, or a value inside it, exists.

    CLI Example: ``saltlite '*' grains.has_value ip4_interfaces:eth0``
    """
    return _nested.find(__grains__, key) is not MISSING


def equals(key: str, value: Any) -> bool:
    """Return whether the value of a grain equals this one as text.

    CLI Example::

        saltlite '*' grains.equals os Debian
        saltlite '*' grains.equals systemd:version 252
    """
    return str(value) == str(get(key))


def filter_by(
    lookup_dict: dict[Any, Any],
    grain: str = "os_family",
    merge: dict[Any, Any] | None = None,
    default: str = "default",
    base: str | None = None,
) -> Any:
    """Return the value of the first key, a glob, that matches the grain, or one of its values if it is a list.

    Without a match, the value of the key ``default``, or ``None``. A map is merged over that of the key ``base``, and
    ``merge`` over the result.

    CLI Example::

        saltlite '*' grains.filter_by '{Debian: apache2, RedHat: httpd}'
        saltlite '*' grains.filter_by '{A: B, C: {D: {E: F, G: H}}}' xxx '{D: {E: I}, J: K}' C
    """
    return _nested.chosen(lookup_dict, get(grain, []), merge, default, base)


def setvals(grains: dict[str, Any], destructive: bool = False, refresh_pillar: bool = True) -> dict[str, Any]:
    """Set several grains and return them. ``destructive`` removes those with the value ``None``.

    CLI Example: ``saltlite '*' grains.setvals '{rack: 4, roles: [web, db]}'``
    """
    if not isinstance(grains, Mapping):
        raise SaltInvocationError("Grains to set are a map, as in '{rack: 4}'.")
    wanted = {str(name): value for name, value in grains.items()}
    _change(lambda _known: wanted, destructive=destructive, refresh_pillar=refresh_pillar)
    return dict(grains)


def setval(key: str, val: Any, destructive: bool = False, refresh_pillar: bool = True) -> dict[str, Any]:
    """Set one grain by its whole name. ``grains.set`` sets values inside a grain.

    CLI Example::

        saltlite '*' grains.setval rack 4
        saltlite '*' grains.setval place '{room: 12, rack: 4}'
    """
    return setvals({key: val}, destructive, refresh_pillar)


def append(key: str, val: Any, convert: bool = False, delimiter: str = ":") -> dict[str, Any] | str:
    """Append a value, or all values of a list, to a list grain, creating it if needed.

    A value that is not a list stays unchanged, or becomes the first item with ``convert``. Returns the grain, or a
    message that nothing changed.
    was changed; otherwise the grain is returned.

    CLI Example::

        saltlite '*' grains.append roles web
        saltlite '*' grains.append apps:web:ports 443
    """

    def longer(known: dict[str, Any]) -> dict[str, Any] | str:
        now = _nested.find(known, key, delimiter)
        if now is MISSING:
            now = []
        elif convert and not isinstance(now, list):
            now = [] if now is None else [now]
        if not isinstance(now, list):
            return f"The key {key} is not a valid list"
        if val in now:
            return f"The val {val} was already in the list {key}"
        return _placed(known, key, [*now, *(val if isinstance(val, list) else [val])], delimiter)

    changed: dict[str, Any] | str = _change(longer)
    return changed


def remove(key: str, val: Any, delimiter: str = ":") -> dict[str, Any] | str:
    """Remove a value from a list grain. Return the grain, or a message that nothing changed.

    CLI Example: ``saltlite '*' grains.remove roles web``
    """

    def shorter(known: dict[str, Any]) -> dict[str, Any] | str:
        now = _nested.find(known, key, delimiter)
        now = [] if now is MISSING else now
        if not isinstance(now, list):
            return f"The key {key} is not a valid list"
        if val not in now:
            return f"The val {val} was not in the list {key}"
        place = now.index(val)
        return _placed(known, key, now[:place] + now[place + 1 :], delimiter)

    changed: dict[str, Any] | str = _change(shorter)
    return changed


def delval(key: str, destructive: bool = False, force: bool = False) -> dict[str, Any]:
    """Set a grain, or a value inside it, to ``None``; ``destructive`` removes it.

    ``force`` permits this for maps and lists. Returns what ``grains.set`` returns.

    CLI Example::

        saltlite '*' grains.delval rack
        saltlite '*' grains.delval apps:web destructive=True force=True
    """
    return set_(key, None, force=force, destructive=destructive)


def delkey(key: str, force: bool = False) -> dict[str, Any]:
    """Remove a grain, or a value inside it; ``force`` permits this for maps and lists.

    A collected grain returns at the next collection.

    CLI Example: ``saltlite '*' grains.delkey rack``
    """
    return delval(key, destructive=True, force=force)


def set_(
    key: str, val: Any = "", force: bool = False, destructive: bool = False, delimiter: str = ":"
) -> dict[str, Any]:
    """Set a grain, or a value inside it: ``{"result": ..., "comment": ..., "changes": {grain: value}}``.

    ``force`` is needed to replace maps and lists, or a plain value by one.

    CLI Example::

        saltlite '*' grains.set apps:web:port 8080
        saltlite '*' grains.set apps:web '{port: 8080}' force=True
    """

    def changed(known: dict[str, Any]) -> dict[str, Any] | str:
        now = _nested.find(known, key, delimiter)
        if now is not MISSING and now == val and not (val is None and destructive):
            return "Grain is already set"
        if now is not MISSING and now is not None and not force:
            if isinstance(now, dict | list):
                raise _NotForcedError(f"The key '{key}' exists but is a dict or a list. Use 'force=True' to overwrite.")
            if isinstance(val, dict | list):
                raise _NotForcedError(
                    f"The key '{key}' exists and the given value is a dict or a list. Use 'force=True' to overwrite."
                )
        return _placed(known, key, val, delimiter, gone=val is None and destructive, force=force)

    try:
        changes = _change(changed, destructive=destructive)
    except _NotForcedError as refusal:
        return {"comment": str(refusal), "changes": {}, "result": False}
    if isinstance(changes, str):
        return {"comment": changes, "changes": {}, "result": True}
    return {"comment": "", "changes": changes, "result": True}


class _NotForcedError(Exception):
    """An existing value would be replaced without `force`; the message is Salt's."""


def _placed(
    known: dict[str, Any], key: str, val: Any, delimiter: str, *, gone: bool = False, force: bool = False
) -> dict[str, Any]:
    """Return `{grain: value}` with the value set inside the grain, or removed if `gone`."""
    key = str(key)
    value, whole = val, key in known
    while delimiter in key and not whole:
        key, _, rest = key.rpartition(delimiter)
        around = _nested.find(known, key, delimiter)
        whole = key in known
        value = _with(around, rest, value, force=force, gone=gone, key=key)
        gone = False
    return {key: value}


def _with(around: Any, name: str, value: Any, *, force: bool, gone: bool, key: str) -> Any:
    """Return the outer value with the inner one set."""
    if around is MISSING or around is None:
        return {} if gone else {name: value}
    if isinstance(around, dict):
        rest = {each: inner for each, inner in around.items() if not gone or each != name}
        return rest if gone else {**rest, name: value}
    if isinstance(around, list):
        return _in_list(around, name, value, gone=gone)
    if around == name or force:
        return {} if gone else {name: value}
    raise _NotForcedError(
        f"The key '{key}' value is '{around}', which is different from the provided key '{name}'. "
        "Use 'force=True' to overwrite."
    )


def _in_list(around: list[Any], name: str, value: Any, *, gone: bool) -> list[Any]:
    """Replace the word, or the value in maps with that key, in a list by `{name: value}`, or append it."""
    if name.isdecimal() and int(name) < len(around):
        at = int(name)
        return [*around[:at], *([] if gone else [value]), *around[at + 1 :]]
    if gone:
        return [
            {each: inner for each, inner in member.items() if each != name} if isinstance(member, dict) else member
            for member in around
        ]
    there = any(member == name or (isinstance(member, dict) and name in member) for member in around)
    changed = [
        {name: value}
        if member == name
        else {**member, name: value}
        if isinstance(member, dict) and name in member
        else member
        for member in around
    ]
    return changed if there else [*changed, {name: value}]


def _change(
    alter: Callable[[dict[str, Any]], dict[str, Any] | str], *, destructive: bool = False, refresh_pillar: bool = True
) -> Any:
    """Set the grains that `alter` computes from the current ones, notify the master, and return its result."""
    conf_file = __opts__.get("conf_file")
    if not conf_file:
        raise CommandExecutionError("This call has no minion's configuration folder, so there is no grains file.")
    with _changing(os.path.join(os.path.dirname(conf_file), "grains")) as kept:
        made = alter(copy.deepcopy({**__grains__, **kept}))
        if isinstance(made, str):
            return made
        for name, value in made.items():
            _refuse_fixed(name, value)
            if value is None and destructive:
                kept.pop(name, None)
                __grains__.pop(name, None)
            else:
                kept[name] = __grains__[name] = value
    _tell(refresh_pillar=refresh_pillar)
    return made


def _refuse_fixed(name: str, value: Any) -> None:
    if name in _OWN:
        raise SaltInvocationError(f"The grain {name} is the minion's own, and cannot be set: set the option {name}.")
    configured = __opts__.get("grains") or {}
    if name in configured and configured[name] != value:
        raise SaltInvocationError(f"The configuration of this minion sets the grain {name}, and wins: change it there.")


def _tell(*, refresh_pillar: bool) -> None:
    if not hasattr(__file_client__, "sync"):
        return  # a loader without a minion
    try:
        __salt__["saltutil.refresh_grains"](refresh_pillar=refresh_pillar)
    except NoMinionError:
        return  # it reads them at its start
    except CommandExecutionError as error:
        raise CommandExecutionError(f"The grains are set, but the minion does not have them yet. {error}") from error


def _sanitized(shown: dict[str, Any]) -> dict[str, Any]:
    return {**shown, **{name: text for name, text in _SANITIZED.items() if name in shown}}
