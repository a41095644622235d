"""The options of the master."""

from __future__ import annotations

import re
from dataclasses import field
from typing import Any

from saltlite.auth.acl import PEER, read_blacklist, read_peer_runs, read_peers, read_rules
from saltlite.config.external_pillars import read_external
from saltlite.config.options import (
    AnyList,
    AnyMap,
    Choice,
    Duration,
    FilePath,
    FilePaths,
    FileRootsKind,
    FlagKind,
    GlobsByType,
    IntegerKind,
    MapOf,
    MisfitError,
    Networks,
    TextKind,
    TextOrTexts,
    Texts,
    option,
)
from saltlite.config.paths import DEFAULT_ROOT_DIR, DEFAULT_SOCK_DIR
from saltlite.config.values import DAY, LOG_LEVELS, STATE_OUTPUTS
from saltlite.config.written import Map, Written, value_of
from saltlite.errors import UsageError
from saltlite.hooks import read_hooks
from saltlite.model.dataclass import dataclass
from saltlite.model.files import MASTER_TYPES
from saltlite.model.masters import DEFAULT_PORT, PORT_MAX, parse_address
from saltlite.wire.limits import HANDSHAKES_PER_S_PER_ADDRESS, MASTER_WEIGHT, MASTER_WEIGHT_MAX

_RULES = "users (or group%) to lists of functions, targets with functions, and rights such as @jobs"


COMMAND_PILLARS = frozenset({"cmd_json", "cmd_yaml", "cmd_yamlex"})
"""External pillars whose argument is a command; the last is Salt's."""
_PASSWORD = re.compile(r"password\s*=|://[^/@]*:[^/@]*@", re.IGNORECASE)


def without_password(dsn: str) -> str:
    """The connection string of a database. Raises UsageError if a password is in it."""
    if _PASSWORD.search(dsn):
        raise UsageError(
            "a password stands in it, which logs would repeat: name a file with it by passfile=, and for sslkey a key "
            "without one"
        )
    return dsn


def _address_if_any(text: str) -> str:
    if text:
        parse_address(text, PORT_MAX)
    return text


class OnDemandPillars(Texts):
    """Names of external pillars, but not of those that run a command: minions choose the arguments."""

    def read(self, written: Written) -> list[str]:
        names = super().read(written)
        for name in names:
            if name in COMMAND_PILLARS:
                raise MisfitError(written, f"{name} would let every minion run commands on the master")
        return names


class ExternalAuth(AnyMap):
    """A map from backends to maps as in publisher_acl; an error has the position of its backend."""

    def read(self, written: Written) -> dict[str, Any]:
        values = super().read(written)
        for backend, users in written.pairs if isinstance(written, Map) else ():
            if backend.text == PEER:
                raise MisfitError(
                    users, f"external_auth.{PEER}: this is the name of the rules in peer, and of no backend"
                )
            try:
                read_rules(value_of(users), f"external_auth.{backend.text}")
            except UsageError as error:
                raise MisfitError(users, str(error)) from error
        return values


@dataclass(frozen=True, slots=True)
class MasterConfig:
    """The master's configuration. Durations are seconds; paths are final (see `options.assemble`)."""

    root_dir: str = option(
        DEFAULT_ROOT_DIR,
        "Moves every path that is not absolute in this file, the defaults included, so that a complete installation "
        "fits below one folder.",
        FilePath(absolute=True),
    )
    interface: str = option(
        "0.0.0.0",  # noqa: S104 - minions are elsewhere; every connection is authenticated before it is served
        "The address to listen on for minions: an IPv4 or IPv6 address of this machine.",
        TextKind(required=True),
    )
    port: int = option(
        DEFAULT_PORT,
        "The TCP port that minions connect to.",
        IntegerKind(1, PORT_MAX),
    )
    user: str = option(
        "saltlite",
        "The user that the master becomes when it is started as root. Started by another user, it ignores this option.",
        TextKind(required=True),
    )
    link_user: str = option(
        "saltlite-link",
        "The user that the link process becomes when the master is started as root. This is the only process of the "
        "master that reads data from strangers. With a separate user, even a compromised link process can open "
        "neither the store nor any file of the master. The same user as in `user` gives up this protection, and "
        "`saltlite doctor` reports it.",
        TextKind(required=True),
    )
    master_name: str = option(
        "",
        "The name of this master in certificates, logs and events. Empty means the host name.",
        TextKind(),
    )
    pki_dir: str = option(
        "/etc/saltlite/pki/master",
        "The folder of the master's keys.",
        FilePath(),
    )
    data_dir: str = option(
        "/var/lib/saltlite/master",
        "The folder of the store: minion keys, jobs, returns and events. Back it up.",
        FilePath(),
    )
    database: str = option(
        "",
        "A PostgreSQL database that has the store in place of a file in data_dir: a connection string, such as "
        "`host=db1,db2 dbname=saltlite user=saltlite sslmode=verify-full passfile=/etc/saltlite/database.pass`. It "
        "contains no password: that stands in the passfile, or is not needed on a Unix socket (peer). The database "
        "serves this master only, unless several_masters is set. `saltlite store migrate` moves the store there and "
        "back: see `saltlite help postgresql`.",
        TextKind(without_password),
    )
    several_masters: bool = option(
        False,
        "Whether other masters of the same fleet share the `database`, which this option needs. Each has another "
        "master_name, and sets this option, too. Commands on any of them reach the minions of all.",
        FlagKind(),
    )
    master_address: str = option(
        "",
        "The host, or host:port, at which minions reach this master, which it tells the other masters that share the "
        "database. Empty means master_name and port.",
        TextKind(_address_if_any),
    )
    shared_accounts: bool = option(
        False,
        "With several_masters: whether a uid is the same person on the machines of all masters, as with LDAP. If "
        "false, local users who are not operators are USER@MASTER in jobs, and see only jobs of that master.",
        FlagKind(),
    )
    directory: bool = option(
        True,
        "Whether minions get the list of all masters with several_masters, and choose among these by themselves. Set "
        "it to false on all masters where minions connect to a load balancer: they would go around it.",
        FlagKind(),
    )
    master_weight: int = option(
        MASTER_WEIGHT,
        "The share of the minions that this master gets with several_masters, compared with the weights of the other "
        "masters.",
        IntegerKind(1, MASTER_WEIGHT_MAX),
    )
    cachedir: str = option(
        "/var/cache/saltlite/master",
        "The folder of data that can be created again, such as the grains of the minions.",
        FilePath(),
    )
    sock_dir: str = option(
        DEFAULT_SOCK_DIR,
        "The folder of the Unix socket on which the master answers the command line and the API.",
        FilePath(),
    )
    file_roots: dict[str, list[str]] = option(
        {"base": ["/srv/salt"]},
        "The folders of files that minions may fetch, by environment; the first folder that has a file wins. Every "
        "accepted minion may read all of them.",
        FileRootsKind(),
    )
    pillar_roots: dict[str, list[str]] = option(
        {"base": ["/srv/pillar"]},
        "The folders of pillar files, by environment; the first folder that has a file wins. top.sls assigns them to "
        "minions. Grains are reported by the minions themselves: select minions by id for data that others must not "
        "see. Keep these folders outside of file_roots, which every minion may read.",
        FileRootsKind(),
    )
    ext_pillar: list[Any] = option(
        [],
        "External pillars: plug-ins that add to the pillar of each minion, in this order, as in [{cmd_yaml: 'cat "
        "/srv/facts/%s.yaml'}, {inventory: {site: b}}]. They run as `user`, with the limits of pillar files.",
        AnyList("a list of maps from one plug-in to its arguments", read_external),
    )
    ext_pillar_first: bool = option(
        False,
        "Whether external pillars run before the pillar files, which then see their data and win over it.",
        FlagKind(),
    )
    on_demand_ext_pillar: list[str] = option(
        [],
        "Plug-ins that minions may have run (pillar.ext). The minion chooses all arguments: list only plug-ins of your "
        "own that check them.",
        OnDemandPillars(),
    )
    pillar_dirs: list[str] = option(
        [],
        "Folders with more external pillars, searched after module_dirs and extension_modules.",
        FilePaths(),
    )
    minion_data_cache: bool = option(
        True,
        "Whether the master stores each minion's pillar below cachedir, readable by `user` only, so that targets can "
        "select minions by pillar (-I, -J). If false, such targets are errors, and stored pillars are deleted.",
        FlagKind(),
    )
    file_ignore_glob: list[str] = option(
        [],
        "Files that are not served: globs of their path below file_roots, where * also matches slashes, as in '*.pyc'.",
        Texts(),
    )
    fileserver_max: int = option(
        16_384,
        "The largest file that is served. Minions cannot see larger ones; the log names them.",
        IntegerKind(1, 100_000_000),
        unit="MiB",
    )
    file_recv: bool = option(
        False,
        "Whether minions may send files with cp.push. They are stored below cachedir, in minions/<id>/files.",
        FlagKind(),
    )
    file_recv_max_size: int = option(
        100,
        "The largest file that is accepted from a minion.",
        IntegerKind(1, 100_000_000),
        unit="MiB",
    )
    nodegroups: dict[str, str | list[str]] = option(
        {},
        "Names for targets, as in {web: 'G@role:web and not E@old', db: [db1, db2]}, for -N web, or N@web in -C. A "
        "list of names is a list of minions and resources.",
        MapOf(TextOrTexts(), "a map from text to text or lists of texts"),
    )
    resource_conflict: str = option(
        "refuse",
        "What happens when a minion registers a resource that another one manages: `refuse` leaves it with its owner, "
        "`newest` moves it. Both cause an event; resource.transfer moves a resource explicitly.",
        Choice(("refuse", "newest")),
    )
    resource_policy: dict[str, list[str]] = option(
        {},
        "Which minions may register which resources: a map from globs of minions to lists of globs of resources, as "
        "in {'gate*': ['ssh:*']}. Empty: every accepted minion may register any resource that no other minion manages.",
        MapOf(Texts(), "a map from text to lists of texts"),
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
        "is faster but loses the last registrations when the machine fails. Minions then register again.",
        Choice(("registration", "never")),
    )
    minion_data_cache_events: bool = option(
        True,
        "Whether each registration of resources is an event (resource/refresh/<minion>).",
        FlagKind(),
    )
    module_dirs: list[str] = option(
        [],
        "Folders with more plug-ins for `saltlite runner`, one subfolder per type (runners or _runners, modules or "
        "_modules ...). The last folder that has a file wins. Everybody who can write to these folders can run code "
        "as the operator.",
        FilePaths(),
    )
    salt_compat: str = option(
        "auto",
        "Whether the runner salt.cmd uses Salt's execution modules and the saltext-* extensions: auto uses them, with "
        "the lowest precedence, if they are installed beside saltlite; off never does.",
        Choice(("auto", "off")),
    )
    runner_dirs: list[str] = option(
        [],
        "Folders with more runners, searched after module_dirs and extension_modules.",
        FilePaths(),
    )
    enable_zip_modules: bool = option(
        False,
        "Whether a .zip archive in a folder of plug-ins is loaded: it has one folder with its own name and an "
        "__init__.py.",
        FlagKind(),
    )
    cython_enable: bool = option(
        False,
        "Whether a .pyx file in a folder of plug-ins is loaded by `saltlite runner`. Cython and a C compiler must be "
        "installed; compiled plug-ins are stored in extension_modules.",
        FlagKind(),
    )
    outputter_dirs: list[str] = option(
        [],
        "Folders with more outputters, for --out, searched after module_dirs and extension_modules.",
        FilePaths(),
    )
    extension_modules: str = option(
        "/var/cache/saltlite/extmods",
        "A folder with more plug-ins of every type for `saltlite runner`, where its saltutil.sync_all stores those of "
        "file_roots. It must not belong to `user`; otherwise a compromised network process could have an operator run "
        "its code. '' for none.",
        FilePath(may_be_empty=True),
    )
    extmod_whitelist: dict[str, list[str]] = option(
        {},
        "The only plug-ins that a sync brings, by type: globs of their names, as in {modules: [plain, 'web*']}. Types "
        "that are not named are not limited. The keyword of a sync overrides this option.",
        GlobsByType(MASTER_TYPES, whitelist=True),
    )
    extmod_blacklist: dict[str, list[str]] = option(
        {},
        "Plug-ins that a sync does not bring, by type, written as in extmod_whitelist.",
        GlobsByType(MASTER_TYPES, whitelist=False),
    )
    extmod_empty: bool = option(
        False,
        "Whether a sync may remove every plug-in of a type because the whitelist and the blacklist exclude all that "
        "file_roots have. If false, such a sync fails and removes nothing.",
        FlagKind(),
    )
    publisher_acl: dict[str, Any] = option(
        {},
        "What local users who are not operators may do, by name, glob or regular expression of the user, or group%: "
        "lists of functions (regular expressions), of {target: [functions]}, {function: {args: [...], kwargs: "
        "{...}}}, and of @runner, @wheel, @jobs, {'@hook': [paths]} and the like. With this option or external_auth, "
        "every local user may connect.",
        AnyMap(f"a map from {_RULES}", lambda users: read_rules(users, "publisher_acl", patterns=True)),
    )
    publisher_acl_blacklist: dict[str, Any] = option(
        {},
        "Users and functions that are always refused, except for operators: {users: [...], modules: ['cmd.*']}.",
        AnyMap("a map of `users` and `modules`, lists of names or patterns", read_blacklist),
    )
    external_auth: dict[str, Any] = option(
        {},
        "What users may do who log in (-a, -T, the API): a map from backends (pam, file, sharedsecret) to maps as in "
        "publisher_acl; `*` is for all users without an entry. Targets should name minions by id, because minions "
        "report their grains themselves.",
        ExternalAuth(f"a map from backends to such: a map from {_RULES}"),
    )
    peer: dict[str, Any] = option(
        {},
        "Which minions may run which functions on others with publish.publish: a map from ids, globs or regular "
        "expressions of minions to lists as in publisher_acl, as in {'web.*': [test.ping, {'db*': [service.status]}]}. "
        "Patterns match the whole id. Empty: no minion may. A link process that was taken over can publish what is "
        "granted here to any minion, so grant no more than minions need.",
        AnyMap("a map from minions to lists of functions and of targets with functions", read_peers),
    )
    peer_run: dict[str, Any] = option(
        {},
        "Which minions may run which runners with publish.runner: a map from ids, globs or regular expressions of "
        "minions to lists of runners, as in {'web.*': [manage.up, {jobs.lookup_jid: {args: ['[0-9]+']}}]}. Patterns "
        "match the whole id and name. Empty: no minion may. As with peer, grant no more than minions need: salt.cmd "
        "and salt.execute run anything.",
        AnyMap("a map from minions to lists of runners", read_peer_runs),
    )
    peer_run_as: str = option(
        "",
        "The local user as whom runners of peer_run run, with this user's rights on the master. Empty: the user that "
        "started the master, who may do everything.",
        TextKind(),
    )
    token_expire: float = option(
        DAY / 2,
        "How long a login lasts.",
        Duration(1.0, 365 * DAY),
    )
    auth_file: str = option(
        "/etc/saltlite/auth",
        "The names and hashes of the backend `file`; `saltlite auth entry NAME` creates a line for it.",
        FilePath(),
    )
    pam_service: str = option(
        "login",
        "The PAM service of the backend `pam`: a file in /etc/pam.d.",
        TextKind(required=True),
    )
    sharedsecret_file: str = option(
        "",
        "A file, readable by root only, with the secret of the backend `sharedsecret`. The secret allows a login as "
        "any user that external_auth lists for the backend. It is not in this file, because users of the CLI read "
        "this file.",
        FilePath(may_be_empty=True),
    )
    auth_dirs: list[str] = option(
        [],
        "Folders with more backends, searched after module_dirs and extension_modules. They run with the rights that "
        "the master was started with.",
        FilePaths(),
    )
    hooks: dict[str, Any] = option(
        {},
        "Reactions to events: a map from names to hooks, as in {deploy: {event: salt/netapi/hook/deploy, data: "
        "{body.branch: main}, as: amy, job: {tgt: 'web*', fun: app.deploy, arg: ['{body.version}']}}}. A hook has the "
        "rights of `as`: a local user, or backend:user. {runner: {fun: ...}} runs a runner as that local user. `rate` "
        "limits runs per minute. Never pass a field of an event to a shell.",
        AnyMap("a map from names to hooks: maps of `event`, `as`, `job` or `runner` ...", read_hooks),
    )
    returner_config: dict[str, Any] = option(
        {},
        "The settings of returners, by name, as in {json_file: {path: /var/lib/saltlite/master/returns.json}}. Jobs "
        "may name these returners (--return) to receive their returns. Each runs in a separate process as `user`.",
        MapOf(AnyMap(), "a map from names to maps"),
    )
    master_returners: list[str] = option(
        [],
        "Returners that receive every return, in addition to those that a job names.",
        Texts(),
    )
    event_return: list[str] = option(
        [],
        "Returners that receive events.",
        Texts(),
    )
    event_return_whitelist: list[str] = option(
        [],
        "Globs of the tags of events for event_return; empty for all.",
        Texts(),
    )
    event_return_blacklist: list[str] = option(
        [],
        "Globs of the tags of events that event_return does not receive.",
        Texts(),
    )
    returner_dirs: list[str] = option(
        [],
        "Folders with more returners, searched after module_dirs and extension_modules.",
        FilePaths(),
    )
    log_level: str = option(
        "warning",
        "The least severe messages that are logged.",
        Choice(LOG_LEVELS),
    )
    log_format: str = option(
        "text",
        "How lines of log_file, and of standard error outside of systemd, are written: text, or json with one object a "
        "line. The journal gets fields in any case.",
        Choice(("text", "json")),
    )
    log_file: str = option(
        "/var/log/saltlite/master",
        "The file that log messages are appended to; '' logs to standard error only.",
        FilePath(may_be_empty=True),
    )
    audit_max: int = option(
        64,
        "The disk space of the audit log in data_dir/audit, which has who asked this master for what; its oldest "
        "entries are removed. 0 writes none.",
        IntegerKind(0, 1_000_000),
        unit="MiB",
    )
    worker_threads: int = option(
        4,
        "The number of MWorker processes, which handle requests. One per core is enough.",
        IntegerKind(1, 64),
        unit="processes",
    )
    handshakes_per_address: int = option(
        HANDSHAKES_PER_S_PER_ADDRESS,
        "How many new connections one address may open; further ones must retry later. Increase it if many minions "
        "share an address.",
        IntegerKind(1, 10_000),
        unit="handshakes per second",
    )
    trusted_balancers: list[str] = option(
        [],
        "The addresses of load balancers in front of the masters. The minions behind one have its address, so "
        "handshakes_per_address and the limits of connections of one address do not hold there.",
        Networks(),
    )
    timeout: float = option(
        5.0,
        "How long the command line waits without news of a minion, unless -t is given.",
        Duration(0.1, DAY),
    )
    deliver_by: float = option(
        60.0,
        "How long a job may wait for a minion that is not connected, unless --deliver-by is given. Then the job "
        "expires for this minion.",
        Duration(0.1, 30 * DAY),
    )
    keep_jobs: float = option(
        7 * DAY,
        "How long jobs and their returns are stored after their end.",
        Duration(1.0, 3650 * DAY, salt_unit="h"),
    )
    keep_job_args: bool = option(
        True,
        "Whether ended jobs keep their arguments, for `job show` and `job rerun`. If false, arguments are deleted "
        "when the last target of their job has ended. Secrets in arguments always are.",
        FlagKind(),
    )
    store_max: int = option(
        10_240,
        "The size limit of the store. Before it is reached, the oldest ended jobs are deleted, regardless of "
        "keep_jobs. While the store is full nevertheless, no new jobs are accepted.",
        IntegerKind(16, 100_000_000),
        unit="MiB",
    )
    state_output: str = option(
        "full",
        "How `saltlite` shows the results of states: full is a block for each, terse a line; mixed is a block for "
        "those that failed; changes is a block for those that failed or changed something. With _id at the end, the "
        "ID is shown for the name.",
        Choice(STATE_OUTPUTS),
    )
    state_verbose: bool = option(
        True,
        "Whether states that succeeded and changed nothing are shown.",
        FlagKind(),
    )
    state_output_diff: bool = option(
        False,
        "Whether only states that failed or changed something are shown.",
        FlagKind(),
    )
    state_output_profile: bool = option(
        True,
        "Whether the results of states have times.",
        FlagKind(),
    )
    config_dir: str = field(default="", compare=False)
    """The folder that the options were read from."""
