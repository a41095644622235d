"""The options of the master."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from saltlite.auth.acl import read_blacklist, read_rules
from saltlite.config.options import (
    Choice,
    Duration,
    FilePath,
    FilePaths,
    FileRootsKind,
    FlagKind,
    GlobsByType,
    IntegerKind,
    MapOfMaps,
    MisfitError,
    TextKind,
    TextLists,
    Texts,
    option,
)
from saltlite.config.paths import DEFAULT_ROOT_DIR, DEFAULT_SOCK_DIR
from saltlite.config.values import DAY, LOG_LEVELS, PORT_MAX
from saltlite.config.written import Map, Written, value_of
from saltlite.errors import UsageError
from saltlite.hooks import read_hooks
from saltlite.model.files import MASTER_TYPES
from saltlite.wire.limits import HANDSHAKES_PER_S_PER_ADDRESS


@dataclass(frozen=True, slots=True)
class Grants:
    """A map from users to lists of rules; of backends to such maps with `by_backend`."""

    by_backend: bool = False

    def wants(self) -> str:
        users = "a map from users (or group%) to lists of functions, targets with functions, and rights such as @jobs"
        return f"a map from backends to such: {users}" if self.by_backend else users

    def read(self, written: Written) -> dict[str, Any]:
        if not isinstance(written, Map):
            raise MisfitError(written)
        if not self.by_backend:
            _checked(written, lambda value: read_rules(value, "publisher_acl", patterns=True))
        for key, value in written.pairs if self.by_backend else ():
            _checked(value, lambda users, backend=key.text: read_rules(users, f"external_auth.{backend}"))  # type: ignore[misc]  # the default binds the name of this turn
        return _plain(written)

    def spell(self, value: dict[str, Any]) -> str:
        return json.dumps(value, ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class Forbidden:
    """`{users: [...], modules: [...]}`."""

    def wants(self) -> str:
        return "a map of `users` and `modules`, lists of names or patterns"

    def read(self, written: Written) -> dict[str, Any]:
        if not isinstance(written, Map):
            raise MisfitError(written)
        _checked(written, read_blacklist)
        return _plain(written)

    def spell(self, value: dict[str, Any]) -> str:
        return json.dumps(value, ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class HooksKind:
    """A map from names to hooks."""

    def wants(self) -> str:
        return "a map from names to hooks: maps of `event`, `as`, `job` or `runner` ..."

    def read(self, written: Written) -> dict[str, Any]:
        if not isinstance(written, Map):
            raise MisfitError(written)
        _checked(written, read_hooks)
        return _plain(written)

    def spell(self, value: dict[str, Any]) -> str:
        return json.dumps(value, ensure_ascii=False)


def _plain(written: Map) -> dict[str, Any]:
    return {key.text: value_of(value) for key, value in written.pairs}


def _checked(written: Written, read: Callable[[Any], object]) -> None:
    try:
        read(_plain(written) if isinstance(written, Map) else value_of(written))
    except UsageError as error:
        raise MisfitError(written, str(error)) from error


@dataclass(frozen=True, slots=True)
class MasterConfig:
    """The master's configuration. Durations are seconds; paths are final (see `options.assemble`)."""

    root_dir: str = option(
        DEFAULT_ROOT_DIR,
        "Moves every path that is not written absolute in this file, the defaults included, so that a whole "
        "installation fits below one folder.",
        FilePath(absolute=True),
    )
    interface: str = option(
        "0.0.0.0",  # noqa: S104 - minions are elsewhere; every connection is authenticated before it is served
        "The address to listen on for minions: an IPv4 or IPv6 address of this machine.",
        TextKind(required=True),
    )
    port: int = option(
        4515,
        "The one TCP port that minions connect to.",
        IntegerKind(1, PORT_MAX),
    )
    user: str = option(
        "saltlite",
        "The user that the master becomes when it is started as root. Started by anybody else, it stays that "
        "user and this option has no effect.",
        TextKind(required=True),
    )
    link_user: str = option(
        "saltlite-link",
        "The user that the link process becomes when the master is started as root: the one process of the master that "
        "reads what strangers send. With a user of its own it can open neither the store nor any file of the master, "
        "also when it was taken over. That of `user` does without this protection, and `saltlite doctor` says so.",
        TextKind(required=True),
    )
    master_name: str = option(
        "",
        "The name of this master in certificates, logs and events; empty means the host name.",
        TextKind(),
    )
    pki_dir: str = option(
        "/etc/saltlite/pki/master",
        "The folder of the master's own keys.",
        FilePath(),
    )
    data_dir: str = option(
        "/var/lib/saltlite/master",
        "The folder of the store: minion keys, jobs, returns and events. Back it up.",
        FilePath(),
    )
    cachedir: str = option(
        "/var/cache/saltlite/master",
        "The folder of what can be made again, such as the grains of the minions.",
        FilePath(),
    )
    sock_dir: str = option(
        DEFAULT_SOCK_DIR,
        "The folder of the Unix socket on which the master answers the command line and the API.",
        FilePath(),
    )
    file_roots: dict[str, list[str]] = option(  # noqa: RUF009 - a fresh copy for each configuration
        {"base": ["/srv/salt"]},
        "The folders of files that minions may fetch, by environment; the first folder that has a file wins. Every "
        "accepted minion may read all of them.",
        FileRootsKind(),
    )
    pillar_roots: dict[str, list[str]] = option(  # noqa: RUF009 - a fresh copy for each configuration
        {"base": ["/srv/pillar"]},
        "The folders of pillar files, by environment; the first folder that has a file wins. top.sls says which minion "
        "gets what of them. Grains are what a minion says of itself: give by id what only some minions may know. Keep "
        "these folders out of file_roots, which every minion may read.",
        FileRootsKind(),
    )
    minion_data_cache: bool = option(
        True,
        "Whether the master keeps the pillar that it made for each minion below cachedir, readable by `user` only, so "
        "that targets can select minions by it (-I, -J). Without it such a target is an error, and what was kept goes.",
        FlagKind(),
    )
    file_ignore_glob: list[str] = option(  # noqa: RUF009 - a fresh copy for each configuration
        [],
        "Files that are not served: globs on their path below file_roots, where * passes slashes, as in '*.pyc'.",
        Texts(),
    )
    fileserver_max: int = option(
        16_384,
        "The largest file that is served; a larger one is as good as missing, and the log says so.",
        IntegerKind(1, 100_000_000),
        unit="MiB",
    )
    file_recv: bool = option(
        False,
        "Whether minions may send files with cp.push. They are kept below cachedir, in minions/<id>/files.",
        FlagKind(),
    )
    file_recv_max_size: int = option(
        100,
        "The largest file that is taken from a minion.",
        IntegerKind(1, 100_000_000),
        unit="MiB",
    )
    nodegroups: dict[str, str | list[str]] = option(  # noqa: RUF009 - as above
        {},
        "Names for targets, as in {web: 'G@role:web and not E@old', db: [db1, db2]}: -N web, or N@web in -C. A list of "
        "names is a list of minions and resources.",
        TextLists(or_text=True),
    )
    resource_conflict: str = option(
        "refuse",
        "What happens when a minion registers a resource that another one manages: `refuse` leaves it with its owner, "
        "`newest` moves it. Both are events; resource.transfer moves one by hand.",
        Choice(("refuse", "newest")),
    )
    resource_policy: dict[str, str | list[str]] = option(  # noqa: RUF009 - as above
        {},
        "Which minions may register which resources: a map from globs of minions to lists of globs of resources, as in "
        "{'gate*': ['ssh:*']}. Empty: every accepted minion may register anything that nobody else manages.",
        TextLists(),
    )
    resource_quota: int = option(
        100_000,
        "How many resources one minion may register.",
        IntegerKind(0, 1_000_000),
        unit="resources",
    )
    registry_fsync: str = option(
        "registration",
        "Whether a registration of resources is on disk before it is acknowledged: `registration`, or `never`, which "
        "is faster and loses the last ones when the machine fails. Minions register them again.",
        Choice(("registration", "never")),
    )
    minion_data_cache_events: bool = option(
        True,
        "Whether each registration of resources is an event (resource/refresh/<minion>).",
        FlagKind(),
    )
    module_dirs: list[str] = option(  # noqa: RUF009 - a fresh copy for each configuration
        [],
        "Folders with more plug-ins for `saltlite runner`, each type in its own folder (runners or _runners, modules "
        "or _modules ...); the last one that has a file of a name wins. Whoever can write there runs code as the "
        "operator.",
        FilePaths(),
    )
    salt_compat: str = option(
        "auto",
        "What the runner salt.cmd makes of Salt's own execution modules and of the saltext-* extensions: auto has them "
        "below everything else where they are installed beside saltlite, off does without.",
        Choice(("auto", "off")),
    )
    runner_dirs: list[str] = option(  # noqa: RUF009 - a fresh copy for each configuration
        [],
        "Folders with more runners; asked after module_dirs and extension_modules.",
        FilePaths(),
    )
    outputter_dirs: list[str] = option(  # noqa: RUF009 - as above
        [],
        "Folders with more outputters, for --out; asked after module_dirs and extension_modules.",
        FilePaths(),
    )
    extension_modules: str = option(
        "/var/cache/saltlite/extmods",
        "A folder with more plug-ins of every type for `saltlite runner`. This is where its saltutil.sync_all puts "
        "those of file_roots. It must not belong to `user`, or a network process that was taken over could have an "
        "operator run its code; '' for none.",
        FilePath(may_be_empty=True),
    )
    extmod_whitelist: dict[str, list[str]] = option(  # noqa: RUF009 - a fresh copy for each configuration
        {},
        "The only plug-ins that a sync brings, by type: globs of their names, as in {modules: [plain, 'web*']}. A type "
        "that is not named is not limited. The keyword of a sync takes the place of this.",
        GlobsByType(MASTER_TYPES, whitelist=True),
    )
    extmod_blacklist: dict[str, list[str]] = option(  # noqa: RUF009 - as above
        {},
        "Plug-ins that a sync does not bring, by type, as extmod_whitelist has them.",
        GlobsByType(MASTER_TYPES, whitelist=False),
    )
    extmod_empty: bool = option(
        False,
        "Whether a sync may remove every plug-in of a type because the whitelist and blacklist leave out all that "
        "file_roots have. Otherwise it fails and removes nothing.",
        FlagKind(),
    )
    publisher_acl: dict[str, Any] = option(  # noqa: RUF009 - as above
        {},
        "What local users who are no operators may do, by name, glob or regular expression of the user, or group%: "
        "lists of functions (regular expressions), of {target: [functions]}, {function: {args: [...], kwargs: {...}}}, "
        "and of @runner, @wheel, @jobs, {'@hook': [paths]} and the like. With it, or external_auth, every local user "
        "may connect.",
        Grants(),
    )
    publisher_acl_blacklist: dict[str, Any] = option(  # noqa: RUF009 - as above
        {},
        "Whom and what is refused whatever is granted elsewhere, operators apart: {users: [...], modules: ['cmd.*']}.",
        Forbidden(),
    )
    external_auth: dict[str, Any] = option(  # noqa: RUF009 - as above
        {},
        "What users may do who log in (-a, -T, the API): a map from backends (pam, file, sharedsecret) to maps as in "
        "publisher_acl; `*` is for whoever has no entry. Targets should name minions by id: grains are what a minion "
        "says of itself.",
        Grants(by_backend=True),
    )
    token_expire: float = option(
        DAY / 2,
        "How long a login lasts.",
        Duration(1.0, 365 * DAY),
    )
    auth_file: str = option(
        "/etc/saltlite/auth",
        "The names and hashes of the backend `file`; `saltlite auth entry NAME` makes a line of it.",
        FilePath(),
    )
    pam_service: str = option(
        "login",
        "The PAM service of the backend `pam`: a file in /etc/pam.d.",
        TextKind(required=True),
    )
    sharedsecret_file: str = option(
        "",
        "A file that only root may read, with the secret of the backend `sharedsecret`: whoever has that can be "
        "any user that external_auth has for it. It does not stand in this file, which users of the CLI read.",
        FilePath(may_be_empty=True),
    )
    auth_dirs: list[str] = option(  # noqa: RUF009 - as above
        [],
        "Folders with more backends; asked after module_dirs and extension_modules. They run with the rights that the "
        "master was started with.",
        FilePaths(),
    )
    hooks: dict[str, Any] = option(  # noqa: RUF009 - as above
        {},
        "What is done when an event comes: a map from names to hooks, as in {deploy: {event: salt/netapi/hook/deploy, "
        "data: {body.branch: main}, as: amy, job: {tgt: 'web*', fun: app.deploy, arg: ['{body.version}']}}}. It may do "
        "what `as` may: a local user, or backend:user. {runner: {fun: ...}} runs a runner, as that local user. `rate` "
        "is how often in a minute. Never give a field of an event to a shell.",
        HooksKind(),
    )
    returner_config: dict[str, Any] = option(  # noqa: RUF009 - as above
        {},
        "What returners are told, by name, as in {json_file: {path: /var/lib/saltlite/master/returns.json}}. A job may "
        "name each of these (--return), and has its returns sent there; each has a process of its own, run by `user`.",
        MapOfMaps(),
    )
    master_returners: list[str] = option(  # noqa: RUF009 - as above
        [],
        "Returners that get every return, whatever the job names.",
        Texts(),
    )
    event_return: list[str] = option(  # noqa: RUF009 - as above
        [],
        "Returners that get events.",
        Texts(),
    )
    event_return_whitelist: list[str] = option(  # noqa: RUF009 - as above
        [],
        "Globs of the tags of events that event_return is for; empty for all.",
        Texts(),
    )
    event_return_blacklist: list[str] = option(  # noqa: RUF009 - as above
        [],
        "Globs of the tags of events that event_return is not for.",
        Texts(),
    )
    returner_dirs: list[str] = option(  # noqa: RUF009 - as above
        [],
        "Folders with more returners; asked after module_dirs and extension_modules.",
        FilePaths(),
    )
    log_level: str = option(
        "warning",
        "The least severe messages that are logged.",
        Choice(LOG_LEVELS),
    )
    log_file: str = option(
        "/var/log/saltlite/master",
        "The file that log messages are appended to; '' logs to standard error only.",
        FilePath(may_be_empty=True),
    )
    worker_threads: int = option(
        4,
        "How many MWorker processes handle requests. One a core is plenty.",
        IntegerKind(1, 64),
        unit="processes",
    )
    handshakes_per_address: int = option(
        HANDSHAKES_PER_S_PER_ADDRESS,
        "How many new connections one address may open; more are told to come back later. Raise it where "
        "many minions share an address.",
        IntegerKind(1, 10_000),
        unit="handshakes per second",
    )
    timeout: float = option(
        5.0,
        "How long the command line waits for minions of which it has no news, unless it is given -t.",
        Duration(0.1, DAY),
    )
    deliver_by: float = option(
        60.0,
        "How long a job may wait for a minion that is not connected, unless the command line gives "
        "--deliver-by; after that the job has expired for this minion.",
        Duration(0.1, 30 * DAY),
    )
    keep_jobs: float = option(
        7 * DAY,
        "How long jobs and their returns are kept after they have ended.",
        Duration(1.0, 3650 * DAY, salt_unit="h"),
    )
    keep_job_args: bool = option(
        True,
        "Whether ended jobs keep what they were called with, for `job show` and `job rerun`. Off, arguments leave the "
        "store when the last target of their job has ended. Secrets among arguments always do.",
        FlagKind(),
    )
    store_max: int = option(
        10_240,
        "How large the store may grow. Before it is full the oldest jobs that have ended make room, however "
        "young they are; while it is full all the same, nothing new is published.",
        IntegerKind(16, 100_000_000),
        unit="MiB",
    )


def returner_names(config: MasterConfig) -> list[str]:
    """Every returner that the configuration names, sorted."""
    return sorted({*config.returner_config, *config.master_returners, *config.event_return})
