"""The state of one `saltlite cloud` command: its journal, its cache of machines, its progress output, and `Program`.

Drivers reach the program through `saltlite.cloud.api.port`. The journal lists what dead commands left for
`--unfinished`, and `--clean` rolls it back (`saltlite.cloud.rules.flow` interprets the lines).
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import logging
import os
import pwd
import shutil
import stat
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TextIO

from saltlite.cloud.api import port
from saltlite.cloud.api.port import Capabilities
from saltlite.cloud.program.drivers import Driver, Drivers
from saltlite.cloud.program.files import LoadedCloud
from saltlite.cloud.program.master import TAG_ROOT, CloudEvents, Master
from saltlite.cloud.rules.catalogue import (
    GLOBAL,
    Level,
    Profile,
    Provider,
    Settings,
    composed,
    levels_of,
    merged,
    mistyped,
    plain_value,
)
from saltlite.cloud.rules.flow import Unfinished, replay
from saltlite.config.cloud import SELECTION
from saltlite.config.master import MasterConfig
from saltlite.config.options import options_of
from saltlite.errors import ConfigError, SaltliteError
from saltlite.model.keys import parse_token
from saltlite.model.redaction import KEY_FILES, Secrets, secret_values
from saltlite.platform.process import start_ticks

# -- the journal of unfinished work: a line for each step, synced before the next step; no line has a secret

COMPACT_AT = 1024 * 1024
"""A journal of more bytes without unfinished work is truncated."""


class CloudJournal:
    """The journal of a folder. Several processes may write to it concurrently."""

    def __init__(self, folder: str) -> None:
        self.path = os.path.join(folder, "journal")
        self._folder = folder

    def write(self, run: str, what: str, **fields: Any) -> None:
        """Append a line and sync it. Raises SaltliteError."""
        line = json.dumps({"run": run, "what": what, "at": time.time(), **fields}, sort_keys=True)
        try:
            with self._open() as fd:
                if what in ("create", "destroy") and os.fstat(fd).st_size > COMPACT_AT and not replay(_lines(fd)):
                    os.ftruncate(fd, 0)
                _append(fd, f"{line}\n".encode())
        except OSError as error:
            raise SaltliteError(
                f"{self.path} cannot be written ({error.strerror}). Without the journal, half-made machines could be "
                "forgotten, so nothing more is done: free disk space, or change cachedir"
            ) from error

    def begin(self, what: str, run: str, **fields: Any) -> None:
        """The first line of a create or destroy of this process."""
        self.write(run, what, pid=os.getpid(), started=start_ticks(os.getpid()), **fields)

    def unfinished(self) -> list[Unfinished]:
        """Unfinished work whose process is dead."""
        return [one for one, alive in self.everything() if not alive]

    def everything(self) -> list[tuple[Unfinished, bool]]:
        """All unfinished work, and whether its process is alive."""
        if not os.path.exists(self.path):
            return []
        with self._open() as fd:
            lines = _lines(fd)
        started = {record.get("run"): record.get("started") for record in lines if "started" in record}
        return [(one, bool(one.pid) and start_ticks(one.pid) == started.get(one.run)) for one in replay(lines)]

    @contextlib.contextmanager
    def _open(self) -> Iterator[int]:
        os.makedirs(self._folder, mode=0o700, exist_ok=True)
        fd = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield fd
        finally:
            os.close(fd)


def _append(fd: int, line: bytes) -> None:
    """Append a whole line and sync it, or change nothing. Raises OSError."""
    size = os.fstat(fd).st_size
    if size and os.pread(fd, 1, size - 1) != b"\n":
        line = b"\n" + line  # the last one was cut: only that is lost, and not this one too
    try:
        # A nearly full disk takes part of a line, and reports it only by the count.
        written = os.write(fd, line)
        os.fsync(fd)
        error = None if written == len(line) else OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    except OSError as failed:
        error = failed
    if error is not None:
        with contextlib.suppress(OSError):
            os.ftruncate(fd, size)
        raise error


def _lines(fd: int) -> list[dict[str, Any]]:
    """The complete lines; a crash may have cut the last one."""
    found = []
    with open(fd, "rb", closefd=False) as file:
        file.seek(0)
        for line in file:
            with contextlib.suppress(ValueError):
                record = json.loads(line)
                if isinstance(record, dict):
                    found.append(record)
    return found


# -- the cache: one file for each machine, with the last answer of its provider and the minion that belongs to it

# It never decides whether a name is free, because machines are also made elsewhere.


class MachineCache:
    """The cache in a folder. Unreadable entries count as missing, and failed writes are ignored."""

    def __init__(self, cachedir: str) -> None:
        self._root = os.path.join(cachedir, "active")

    def put(self, provider: str, machine: str, details: Mapping[str, Any], **own: Any) -> None:
        """Cache a machine of `alias:driver`, without secrets; `own` are fields that only this program knows."""
        before = self._read(self._path(provider, machine))
        record = {"at": time.time(), "own": {**before.get("own", {}), **own}, "details": dict(details)}
        with contextlib.suppress(OSError):
            self._write(self._path(provider, machine), record)

    def put_all(self, provider: str, machines: Mapping[str, Mapping[str, Any]]) -> None:
        """Cache all machines of `alias:driver`; the others become unlisted."""
        for name, details in machines.items():
            self.put(provider, name, details)
        for name in self.names(provider):
            if name not in machines:
                self.unlist(provider, name)

    def unlist(self, provider: str, machine: str) -> None:
        """Its provider did not list this machine. The own fields stay: one listing may miss a machine."""
        own = self.own(provider, machine)
        if not own:
            self.drop(provider, machine)
            return
        with contextlib.suppress(OSError):
            self._write(self._path(provider, machine), {"at": time.time(), "own": own, "unlisted": True})

    def drop(self, provider: str, machine: str) -> None:
        """Forget a machine."""
        with contextlib.suppress(OSError):
            os.unlink(self._path(provider, machine))

    def own(self, provider: str, machine: str) -> dict[str, Any]:
        """The own fields of a machine, such as `minion_id`, and `id` at that time."""
        found: dict[str, Any] = self._read(self._path(provider, machine)).get("own", {})
        return found

    def machines(self, provider: str) -> dict[str, dict[str, Any]]:
        """The cached machines of `alias:driver`: `{name: details}`."""
        return {name: self._read(self._path(provider, name)).get("details", {}) for name in self.names(provider)}

    def names(self, provider: str) -> list[str]:
        """The names in the last listing, sorted."""
        try:
            found = os.listdir(self._folder(provider))
        except OSError:
            return []
        names = (urllib.parse.unquote(one.removesuffix(".json")) for one in found if one.endswith(".json"))
        return sorted(name for name in names if not self._read(self._path(provider, name)).get("unlisted"))

    def clear(self) -> None:
        """Forget all machines."""
        shutil.rmtree(self._root, ignore_errors=True)

    def _folder(self, provider: str) -> str:
        return os.path.join(self._root, *(_file_name(part) for part in provider.split(":")))

    def _path(self, provider: str, machine: str) -> str:
        return os.path.join(self._folder(provider), f"{_file_name(machine)}.json")

    @staticmethod
    def _read(path: str) -> dict[str, Any]:
        try:
            with open(path, encoding="utf-8") as file:
                record = json.load(file)
        except (OSError, ValueError):
            return {}
        return record if isinstance(record, dict) else {}

    @staticmethod
    def _write(path: str, record: Mapping[str, Any]) -> None:
        _make_private(os.path.dirname(path))
        half = f"{path}.{os.getpid()}"
        fd = os.open(half, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with open(fd, "w", encoding="utf-8") as file:
            json.dump(record, file, default=str)
        os.replace(half, path)


def _make_private(folder: str) -> None:
    """Make a folder and its parents; `os.makedirs` sets the mode of the last one only."""
    if not os.path.isdir(folder):
        _make_private(os.path.dirname(folder))
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder, 0o700)


def _file_name(text: str) -> str:
    """Any text as a file name: no slash, no leading dot, no more than a file system takes."""
    quoted = urllib.parse.quote(text, safe="").replace(".", "%2E")
    return quoted[:200]


# -- progress

Say = Callable[[str, str], None]
"""Shows progress: the name of a machine, and what is being done."""


class Lines:
    """Progress as lines: `web1: waits for ssh (3.2 s)`."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._began = time.monotonic()

    def __call__(self, machine: str, text: str) -> None:
        self._write(f"{machine}: {text} ({time.monotonic() - self._began:.1f} s)")


class Block:
    """Progress as one line for each machine on a terminal, updated in place."""

    def __init__(self, stream: TextIO, width: int) -> None:
        self._stream = stream
        self._width = max(20, width - 1)
        self._rows: dict[str, str] = {}
        self._began = time.monotonic()
        self._drawn = 0
        self._lock = threading.Lock()

    def __call__(self, machine: str, text: str) -> None:
        with self._lock:
            self._rows[machine] = f"{machine}: {text} ({time.monotonic() - self._began:.1f} s)"
            self._draw()

    def _draw(self) -> None:
        up = f"\x1b[{self._drawn}A" if self._drawn else ""
        rows = "".join(f"\r\x1b[2K{row[: self._width]}\n" for row in self._rows.values())
        self._stream.write(f"{up}{rows}")
        self._stream.flush()
        self._drawn = len(self._rows)


KEY_FILE_MAX = 64 * 1024
"""Bytes of a file with a private key."""

_GLOBAL = ("minion", "deploy", "script", "append_domain", "destroy_on_failure", "wait_for_minion")
"""Options that are also settings of machines."""
IMPLICIT = "providers.json"
"""The file in cachedir with the providers that no file of the configuration has: alias -> driver."""
SAYS_THAT: Mapping[str, str] = {"creating": "announced", "requesting": "requested"}
"""Event of a driver -> its entry in the journal."""

Note = Callable[[str, str], None]
"""Journals one of `flow.NOTES`, and the id of a machine."""


class Program:
    """One run of `saltlite cloud`. It is the `Cloud` of `saltlite.cloud.api.port`."""

    def __init__(self, loaded: LoadedCloud, master: MasterConfig, config_dir: str, ask: Master, say: Say) -> None:
        self.config = loaded.config
        self.catalogue = loaded.catalogue
        self.everywhere = _everywhere(loaded)
        self.opts = opts_of(loaded, master, config_dir)
        self.secrets = Secrets(_is_there)
        self.ask = ask
        self.cache = MachineCache(self.config.cachedir)
        self.journal = CloudJournal(self.config.cachedir)
        self.drivers = Drivers(self.opts)
        self.events = CloudEvents(ask, self.secrets, _more_fields(self.config.filter_events))
        self.missing_settings: dict[str, list[str]] = {}
        """`alias:driver`, or `profile NAME` -> missing settings that its driver needs."""
        self.deploy_args: dict[str, dict[str, Any]] = {}
        """Machine -> what its event `deploying` says about the deployment, without secrets."""
        self._say = say
        self._making: dict[str, dict[str, Any]] = {}
        self._notes: dict[str, Note] = {}
        self._given = loaded.given
        self._told_exposed: set[str] = set()
        for alias, driver in self._remembered_providers().items():
            if alias not in self.catalogue.providers:
                self._add_provider(alias, driver)
        self._learn_everything()

    def driver(self, provider: Provider) -> Driver:
        """The driver of a provider."""
        return self.drivers.of(provider)

    def implicit_provider(self, alias: str, driver: str) -> Provider:
        """The provider of this alias, which is added if no file has it, and remembered for later commands."""
        if alias not in self.catalogue.providers:
            self._add_provider(alias, driver)
            path = os.path.join(self.config.cachedir, IMPLICIT)
            _make_private(os.path.dirname(path))
            with open(f"{path}.new", "w", encoding="utf-8") as file:
                json.dump({**self._remembered_providers(), alias: driver}, file)
            os.replace(f"{path}.new", path)
        return self.catalogue.provider(alias)

    def _add_provider(self, alias: str, driver: str) -> None:
        provider = Provider(alias, driver, Settings({"driver": driver}, where=f"provider {alias}"))
        self.catalogue = replace(self.catalogue, providers={**self.catalogue.providers, alias: {driver: provider}})
        self.opts["providers"][alias] = {driver: {"driver": driver}}

    def _remembered_providers(self) -> dict[str, str]:
        try:
            with open(os.path.join(self.config.cachedir, IMPLICIT), encoding="utf-8") as file:
                found = json.load(file)
        except (OSError, ValueError):
            return {}
        return {str(alias): str(driver) for alias, driver in found.items()} if isinstance(found, dict) else {}

    def levels(self, profile: Profile, machine: Settings | None, given: Mapping[str, Any]) -> list[Level]:
        """The levels of settings of a machine, the winning one first."""
        return levels_of(profile, machine, self.everywhere, given)

    def require_known(
        self, profile: Profile, machine: Settings | None = None, given: Mapping[str, Any] | None = None
    ) -> None:
        """Raises ConfigError for settings of a machine that are mistyped."""
        known = self.driver(profile.provider).settings()
        levels = [level for level in self.levels(profile, machine, given or {}) if level.label != GLOBAL]
        wrong = [sentence for level in levels for sentence in mistyped(level, known)]
        if wrong:
            raise ConfigError("\n".join(wrong))

    def machine(
        self, name: str, profile: Profile, machine: Settings | None = None, given: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """The machine as its driver gets it. Raises UsageError for an invalid name."""
        vm_ = composed(name, profile, self.levels(profile, machine, given or {}))
        self.learn(vm_)
        for path in set(_exposed([machine] if machine else [])) - self._told_exposed:
            self._told_exposed.add(path)
            self._say(name, f"other users can read {path}, which has secrets: chmod 600 {path}")
        return vm_

    def learn(self, settings: Mapping[str, Any]) -> None:
        """Redact the secrets in these settings, and in the key files that they name, from all output."""
        self.secrets.add_from(settings)
        for name in KEY_FILES:
            for path in _texts(settings.get(name)):
                self.secrets.add(_content(os.path.expanduser(path)))

    def exposed(self) -> list[str]:
        """The files with secrets that other users can read; maps are checked when they are used."""
        every = [self._given, *(one.settings for one in self.catalogue.every_provider())]
        return _exposed([*every, *(one.settings for one in self.catalogue.profiles.values())])

    def forked(self, say: Say) -> None:
        """After a fork: `say` shows progress from now on."""
        self._say = say
        self.ask.forked()

    @contextlib.contextmanager
    def making(self, vm_: dict[str, Any], note: Note) -> Iterator[None]:
        """A block that makes this machine; `note` journals the reports of its driver."""
        self._making[vm_["name"]] = vm_
        self._notes[vm_["name"]] = note
        try:
            with port.running(self):
                yield
        finally:
            del self._making[vm_["name"]], self._notes[vm_["name"]]

    # The methods of `port.Cloud`, which drivers call.

    def capabilities(self, driver: str) -> Capabilities:
        found = (one for one in self.catalogue.every_provider() if one.driver == driver)
        return next((self.driver(one).capabilities for one in found), Capabilities())

    def fire(self, tag: str, data: Mapping[str, Any]) -> None:
        machine, _slash, what = tag.removeprefix(TAG_ROOT).rpartition("/")
        if what == "deploying":
            known = self.deploy_args.get(machine, {})
            self.deploy_args[machine] = {**known, **self.secrets.event(what, data)}
        if what in SAYS_THAT and machine in self._notes:
            self._notes[machine](SAYS_THAT[what], "")
        self.events.fire(tag, data)

    def made(self, machine: str, identity: str) -> None:
        if machine in self._notes:
            self._notes[machine]("made", identity)

    def refused(self, machine: str) -> None:
        if machine in self._notes:
            self._notes[machine]("refused", "")

    def bootstrap(self, vm_: dict[str, Any], opts: Mapping[str, Any]) -> dict[str, Any]:
        from saltlite.cloud.deploy.bootstrap import bootstrap  # noqa: PLC0415 - most commands deploy nothing

        self.learn(vm_)  # drivers add passwords that their providers generated
        own = self._making.get(str(vm_.get("name")), {})
        return bootstrap(merged(vm_, own), opts)

    def retire(self, vm_: dict[str, Any], opts: Mapping[str, Any]) -> tuple[str, ...]:
        from saltlite.cloud.deploy.bootstrap import retire  # noqa: PLC0415 - as above

        return retire(vm_, opts)

    def require_deployable(self, vm_: Mapping[str, Any]) -> None:
        """Check the settings of a deployment before the machine exists. Raises SaltCloudConfigError."""
        from saltlite.cloud.deploy.settings import deployment_of, is_windows, refuse  # noqa: PLC0415 - as above

        if is_windows(vm_):
            raise refuse(vm_)
        with port.running(self):
            deployment_of({"ssh_host": "machine", **vm_}, self.opts)

    def script(self, vm_: Mapping[str, Any]) -> str:
        from saltlite.cloud.deploy.bootstrap import script_text  # noqa: PLC0415 - as above

        return script_text(vm_, self.opts)

    def remember(self, provider: str, machines: Mapping[str, Mapping[str, Any]]) -> None:
        if self.config.update_cachedir:
            for name, details in machines.items():
                self.cache.put(provider, name, self.secrets.value(plain_value(details)))

    def forget(self, provider: str, machine: str) -> None:
        self.cache.drop(provider, machine)

    def lacks(self, what: str, missing: Sequence[str]) -> None:
        self.missing_settings[what] = list(missing)

    def conceal(self, secret: str) -> None:
        self.secrets.add(secret)

    def conceal_token(self, token: str) -> None:
        """Let a join token, and the secret in it, appear nowhere."""
        self.secrets.add(token)
        self.secrets.add(parse_token(token).secret)

    def progress(self, machine: str, text: str) -> None:
        self._say(machine, self.secrets.text(text))

    def _learn_everything(self) -> None:
        self.learn(self.everywhere.values)
        for provider in self.catalogue.every_provider():
            self.learn(provider.settings.values)
        for profile in self.catalogue.profiles.values():
            self.learn(profile.settings.values)


def conceal_logs(secrets: Secrets) -> None:
    """Redact these secrets from the logs of this process and its children. Call it again after the handlers change."""
    for handler in logging.getLogger().handlers:
        handler.addFilter(ConcealingFilter(secrets))


class ConcealingFilter(logging.Filter):
    """Redacts secrets in log records, tracebacks included."""

    def __init__(self, secrets: Secrets) -> None:
        super().__init__()
        self._secrets = secrets
        self._formatter = logging.Formatter()

    def filter(self, record: logging.LogRecord) -> bool:
        """Always true; the record is changed."""
        if record.exc_info:
            record.exc_text = self._formatter.formatException(record.exc_info)
            record.exc_info = None
        if record.exc_text:
            record.exc_text = self._secrets.text(record.exc_text)
        record.msg, record.args = self._secrets.text(record.getMessage()), None
        return True


def opts_of(loaded: LoadedCloud, master: MasterConfig, config_dir: str) -> dict[str, Any]:
    """The `__opts__` of drivers.

    They have only those options of the master that locate plug-ins and the master itself: a missing setting of a
    provider must not be looked up in an option of the master with the same name.
    """
    config = loaded.config
    providers = {
        alias: {name: {**one.settings.values, "driver": name} for name, one in drivers.items()}
        for alias, drivers in loaded.catalogue.providers.items()
    }
    profiles = {
        name: {**one.settings.values, "profile": name, "provider": one.provider.name}
        for name, one in loaded.catalogue.profiles.items()
    }
    return {
        **config.defaults,
        **{name: getattr(config, name) for name in options_of(type(config)) if name != "defaults"},
        "query.selection": list(SELECTION),
        **config.module_config,
        "providers": providers,
        "profiles": profiles,
        "config_dir": config_dir,
        "conf_file": os.path.join(config_dir, "cloud"),
        "sock_dir": master.sock_dir,
        "master_folders": _private_folders(master),
        "master_interface": master.interface,
        "master_port": master.port,
        "module_dirs": master.module_dirs,
        "extension_modules": master.extension_modules,
        "transport": "zeromq",
        # Salt's drivers pass these three on to `deploy_script`; -P and -k set the last two.
        "start_action": None,
        "parallel": False,
        "keep_tmp": False,
        "show_deploy_args": False,
    }


def _private_folders(master: MasterConfig) -> list[str]:
    """Private folders of the master, which drivers that show files of this host to machines must hide."""
    pillar = [folder for folders in master.pillar_roots.values() for folder in folders]
    return [master.root_dir, master.pki_dir, master.data_dir, master.cachedir, *pillar]


def _more_fields(filter_events: Mapping[str, Any]) -> dict[str, frozenset[str]]:
    """The last part of a tag -> the fields that the option `filter_events` lets such events have."""
    return {
        what: frozenset(map(str, wanted.get("keys") or ()))
        for what, wanted in filter_events.items()
        if isinstance(wanted, Mapping)
    }


def _everywhere(loaded: LoadedCloud) -> Settings:
    """The level below all others: `defaults`, and the options that are settings of machines."""
    config = loaded.config
    given = {name: getattr(config, name) for name in _GLOBAL if name in loaded.given.values}
    where = loaded.given.origin("defaults")
    origins = {**dict.fromkeys(config.defaults, where), **{name: loaded.given.origin(name) for name in given}}
    return Settings({**config.defaults, **given}, origins)


def _exposed(every: Sequence[Settings]) -> list[str]:
    """The files of these settings that have secrets and are readable by other users."""
    secret = {
        one.origin(key).rpartition(":")[0]
        for one in every
        for key, value in one.values.items()
        if any(True for _ in secret_values({key: value}, _is_there))
    }
    return sorted(path for path in secret if _is_open(path))


def _is_open(path: str) -> bool:
    """Whether other users can read it: everyone, or a group other than root's and its owner's primary group."""
    try:
        found = os.stat(path)
        own = {0, pwd.getpwuid(found.st_uid).pw_gid}
    except OSError:
        return False
    except KeyError:  # a user without an entry
        own = {0}
    group = bool(found.st_mode & stat.S_IRGRP) and found.st_gid not in own
    return group or bool(found.st_mode & stat.S_IROTH)


def _is_there(path: str) -> bool:
    return os.path.exists(os.path.expanduser(path))


def _content(path: str) -> str:
    with contextlib.suppress(OSError), open(path, encoding="utf-8", errors="replace") as file:
        return file.read(KEY_FILE_MAX)
    return ""


def _texts(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    return [one for one in value if isinstance(one, str)] if isinstance(value, list | tuple) else []
