"""The options of the minion."""

from __future__ import annotations

from dataclasses import field
from typing import Any

from saltlite.config.options import (
    Addresses,
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
    TextKind,
    Texts,
    option,
)
from saltlite.config.paths import DEFAULT_ROOT_DIR
from saltlite.config.values import DAY, LOG_LEVELS, STATE_OUTPUTS
from saltlite.model.dataclass import dataclass
from saltlite.model.execution import DIRECT
from saltlite.model.files import MINION_TYPES
from saltlite.model.ids import parse_minion_id
from saltlite.model.keys import parse_fingerprint, parse_token
from saltlite.model.masters import DEFAULT_PORT, PORT_MAX
from saltlite.model.resourcelook import RESOURCE_PILLAR_KEY
from saltlite.wire.limits import JOBS_RUNNING_PER_MINION, RETURN_MAX

RETURN_MAX_LEAST = 64 * 1024
"""`return_max` leaves room for the notices of what was cut."""


_RESOURCES_AT_ONCE = IntegerKind(1, 1000)


def _check_token(text: str) -> str:
    return parse_token(text).text()


def _check_state_options(options: dict[str, Any]) -> None:
    from saltlite.model.salt_features import check_state_options  # noqa: PLC0415 - most configurations have none

    check_state_options(options)


@dataclass(frozen=True, slots=True)
class MinionConfig:
    """The minion's configuration. Durations are seconds; paths are final (see `options.assemble`)."""

    root_dir: str = option(
        DEFAULT_ROOT_DIR,
        "Moves every path that is not absolute in this file, the defaults included, so that a complete installation "
        "fits below one folder.",
        FilePath(absolute=True),
    )
    master: list[str] = option(
        ["salt"],
        "The master, or a list of masters: host, host:port or [ipv6]:port.",
        Addresses(),
    )
    port: int = option(
        DEFAULT_PORT,
        "The TCP port of masters that are listed without one.",
        IntegerKind(1, PORT_MAX),
    )
    id: str = option(
        "",
        "The id of this minion: A-Z, a-z, 0-9, '.', '_' and '-'. A master never accepts two ids that differ by case "
        "only. Empty means the full host name in lower case.",
        TextKind(check=parse_minion_id),
    )
    fleet: str = option(
        "",
        "The fingerprint of the fleet that this minion belongs to, as `saltlite key finger` prints it on the "
        "master. A master of another fleet is refused.",
        TextKind(check=parse_fingerprint),
    )
    trust_on_first_use: bool = option(
        False,
        "Whether a minion without a known fleet accepts the first one that answers. An attacker who controls the "
        "network at that time can then command this machine; prefer a join token or `fleet`.",
        FlagKind(),
    )
    join_token: str = option(
        "",
        "A token from `saltlite key token create`. It names the fleet, and the master accepts the minion's key "
        "because of it. If it is set here, this file must be readable by root only; otherwise use join_token_file.",
        TextKind(check=_check_token),
        secret=True,
    )
    join_token_file: str = option(
        "",
        "A file with the join token.",
        FilePath(may_be_empty=True),
    )
    user: str = option(
        "saltlite",
        "The user of the process that talks to the network when the minion is started as root. Jobs still run as "
        "root. Started by another user, the minion ignores this option.",
        TextKind(required=True),
    )
    pki_dir: str = option(
        "/etc/saltlite/pki/minion",
        "The folder of the minion's key and of the fleet that it has pinned.",
        FilePath(),
    )
    data_dir: str = option(
        "/var/lib/saltlite/minion",
        "The folder of the job journal and of results that the master has not confirmed yet.",
        FilePath(),
    )
    cachedir: str = option(
        "/var/cache/saltlite/minion",
        "The folder of data that can be created again, such as files from the master.",
        FilePath(),
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
        "/var/log/saltlite/minion",
        "The file that log messages are appended to; '' logs to standard error only.",
        FilePath(may_be_empty=True),
    )
    grains: dict[str, Any] = option(
        {},
        "Additional grains of this minion. They override collected ones.",
        AnyMap(),
    )
    module_dirs: list[str] = option(
        [],
        "Folders with more plug-ins of every type, one subfolder per type (modules or _modules, utils or _utils ...). "
        "The last folder that has a file wins.",
        FilePaths(),
    )
    extension_modules: str = option(
        "/var/cache/saltlite/minion/extmods",
        "A folder with more plug-ins of every type, one subfolder per type (modules, grains ...), where "
        "saltutil.sync_all stores those of the master; '' for none.",
        FilePath(may_be_empty=True),
    )
    file_roots: dict[str, list[str]] = option(
        {},
        "The folders of files, by environment, that `saltlite call` uses instead of a master's. Without them, "
        "functions that need files fail there. Jobs always use the files of their master.",
        FileRootsKind(),
    )
    pillar_roots: dict[str, list[str]] = option(
        {},
        "The folders of pillar files, by environment, from which `saltlite call` compiles the pillar. Without them it "
        "uses the pillar of minion_pillar_cache, or none. Jobs always have the pillar of their master.",
        FileRootsKind(),
    )
    minion_pillar_cache: bool = option(
        False,
        "Whether the last pillar of the master is stored in cachedir, readable by its owner only, for `saltlite "
        "call` and for a start while no master answers. Pillars often contain secrets.",
        FlagKind(),
    )
    proxy_host: str = option(
        "", "The HTTP proxy of requests and downloads of this minion's modules; with proxy_port.", TextKind()
    )
    proxy_port: int = option(0, "The port of the HTTP proxy; 0 for no proxy.", IntegerKind(0, PORT_MAX))
    proxy_username: str = option("", "The name for the HTTP proxy, if it asks for one.", TextKind())
    proxy_password: str = option("", "The password for the HTTP proxy.", TextKind())
    no_proxy: list[str] = option([], "The hosts that are asked without the HTTP proxy.", Texts())
    pillar_raise_on_missing: bool = option(
        False,
        "Whether pillar.get fails for a missing key without a default. Otherwise it returns an empty text.",
        FlagKind(),
    )
    clean_dynamic_modules: bool = option(
        True,
        "Whether a sync removes plug-ins from extension_modules that the master no longer has.",
        FlagKind(),
    )
    extmod_whitelist: dict[str, list[str]] = option(
        {},
        "The only plug-ins that a sync brings, by type: globs of their names, as in {modules: [plain, 'web*']}. Types "
        "that are not named are not limited. The keyword of a sync overrides this option.",
        GlobsByType(MINION_TYPES, whitelist=True),
    )
    extmod_blacklist: dict[str, list[str]] = option(
        {},
        "Plug-ins that a sync does not bring, by type, written as in extmod_whitelist.",
        GlobsByType(MINION_TYPES, whitelist=False),
    )
    extmod_empty: bool = option(
        False,
        "Whether a sync may remove every plug-in of a type because the whitelist and the blacklist exclude all that "
        "the master has. If false, such a sync fails and removes nothing.",
        FlagKind(),
    )
    salt_compat: str = option(
        "auto",
        "Whether Salt's execution modules, grains and outputters, and the saltext-* extensions, are used: auto loads "
        "them, with the lowest precedence, if they are installed beside saltlite; off never does.",
        Choice(("auto", "off")),
    )
    salt_python: str = option(
        "",
        "The Python interpreter that has Salt, as in /opt/saltstack/salt/bin/python3, for state.apply and its like; "
        "empty means that of saltlite.",
        FilePath(may_be_empty=True),
    )
    state_options: dict[str, Any] = option(
        {},
        "Options of Salt's state compiler under Salt's names, as in {failhard: true, state_aggregate: [pkg]}.",
        AnyMap(check=_check_state_options),
    )
    state_output: str = option(
        "full",
        "How `saltlite call` shows the results of states: full is a block for each, terse a line; mixed is a block for "
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
    providers: dict[str, str] = option(
        {},
        "Which module provides a virtual module if several could, as in {pkg: yumpkg}.",
        MapOf(TextKind(required=True), "a map from text to text"),
    )
    disable_modules: list[str] = option(
        [],
        "Execution modules that are never loaded on this minion.",
        Texts(),
    )
    smi_mode: str = option(
        "uniform",
        "How the interfaces of virtual modules are applied: uniform translates calls that are valid for the interface "
        "and that the module would refuse, and changes no other; enforce translates all calls, and takes none that is "
        "not valid for the interface; observe only reports differences; off ignores interfaces.",
        Choice(("uniform", "enforce", "observe", "off")),
    )
    smi_returns: str = option(
        "log",
        "What happens to a return without a part that its interface promises: log warns, fill adds the missing part, "
        "strict fails the call, off does not check.",
        Choice(("log", "fill", "strict", "off")),
    )
    whitelist_modules: list[str] = option(
        [],
        "The only execution modules that jobs may call here, as in [test, pkg]; empty means all. Modules may still "
        "call each other, so this limits requests, and not their effects.",
        Texts(),
    )
    job_processes: str = option(
        "reuse",
        "Whether a job process may run the next job if its job called only functions that ship with saltlite: reuse, "
        "if the process is verified to be unchanged, or fresh, a new process for every job.",
        Choice(("reuse", "fresh")),
    )
    module_executors: list[str] = option(
        [DIRECT],
        "The executors that functions are called through, one after the other until one has a result: direct_call "
        "calls; splay waits, audit logs the call, nice and timeout limit it, and all four pass it on; sudo calls as "
        "another user; dry reports what would be called. Custom ones are synced from _executors.",
        Texts(or_text=True),
    )
    executors_allowed: list[str] = option(
        [DIRECT, "dry", "splay"],
        "The executors that jobs may request instead of module_executors, besides those in module_executors. If "
        "audit, nice, sudo or timeout are in module_executors, they always apply.",
        Texts(),
    )
    splaytime: float = option(
        300.0,
        "The longest time that the executor splay waits. The time within that limit is derived from the id of the "
        "target, so it is the same each time. Jobs may request another splaytime.",
        Duration(0.001, 365 * DAY),
    )
    splay_max: float = option(
        3600.0,
        "The longest splaytime that jobs may request.",
        Duration(0.001, 365 * DAY),
    )
    sudo_user: str = option(
        "",
        "The user who calls functions instead of the minion's own user, by the program sudo; empty for none. If it is "
        "set, the executor sudo replaces direct_call, functions of resources are refused, and salt:// is not "
        "available.",
        TextKind(),
    )
    call_timeout: float = option(
        0.0,
        "The longest that one function may run under the executor timeout. Jobs may request less. 0 means no limit.",
        Duration(0.0, 365 * DAY),
    )
    nice_level: int = option(
        10,
        "The priority of functions under the executor nice: 19 is the lowest. Jobs may request a higher number.",
        IntegerKind(0, 19),
    )
    nice_idle_io: bool = option(
        False,
        "Whether functions under the executor nice read and write only while no other process does.",
        FlagKind(),
    )
    nice_memory: int = option(
        0,
        "The most memory that a process of a function may allocate under the executor nice; 0 means no limit.",
        IntegerKind(0, 2**50),
        unit="bytes",
    )
    audit_file: str = option(
        "/var/log/saltlite/minion-audit",
        "The file to which the executor audit appends one line of JSON per call, before the call.",
        FilePath(),
    )
    audit_arguments: bool = option(
        False,
        "Whether the executor audit logs all arguments of calls, and not only the names of keyword arguments. "
        "Arguments that are named like a secret are omitted; others may contain secrets.",
        FlagKind(),
    )
    minion_blackout: bool = option(
        False,
        "Whether this minion refuses jobs, except for saltutil.refresh_pillar and functions in "
        "minion_blackout_whitelist. Both may also be set in its grains and its pillar. `saltlite call` is not refused.",
        FlagKind(),
    )
    minion_blackout_whitelist: list[str] = option(
        [],
        "The functions that jobs may run while minion_blackout is set here, as in [test.ping].",
        Texts(),
    )
    utils_dirs: list[str] = option(
        [],
        "Folders with more files whose functions modules reach as __utils__. The last folder that has a file wins.",
        FilePaths(),
    )
    outputter_dirs: list[str] = option(
        [],
        "Folders with more outputters, for --out of `saltlite call`, searched after module_dirs and extension_modules.",
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
        "Whether a .pyx file in a folder of plug-ins is loaded. Cython and a C compiler must be installed; compiled "
        "modules are stored in cachedir.",
        FlagKind(),
    )
    run_timeout: float = option(
        0.0,
        "The longest that a job may run here, regardless of the command line; 0 means no limit.",
        Duration(0.0, 365 * DAY),
    )
    jobs_max: int = option(
        JOBS_RUNNING_PER_MINION,
        "How many jobs run at once; others wait in the queue.",
        IntegerKind(1, 1000),
        unit="jobs",
    )
    resource_pillar_key: str = option(
        RESOURCE_PILLAR_KEY,
        "The key of the pillar that declares the resources of this minion: a map from resource types to their "
        "settings.",
        TextKind(),
    )
    resource_workers: int = option(
        32,
        "How many resources of one type are called at once.",
        _RESOURCES_AT_ONCE,
        unit="calls",
    )
    resource_type_limits: dict[str, int] = option(
        {},
        "Lower limits for single resource types, as in {ssh: 8}.",
        MapOf(_RESOURCES_AT_ONCE, f"a map from text to {_RESOURCES_AT_ONCE.wants()}"),
    )
    resource_timeout: float = option(
        60.0,
        "How long one call of one resource may take, unless its type sets another limit. Then the resource is "
        "reported as timed out, and its answer is ignored. 0 means no limit.",
        Duration(0.0, DAY),
    )
    return_max: int = option(
        RETURN_MAX,
        "The largest return that is sent to the master. A larger one is cut, with a notice.",
        IntegerKind(RETURN_MAX_LEAST, RETURN_MAX),
        unit="bytes",
    )
    kept_returns_max: int = option(
        256 * 1024 * 1024,
        "The disk space of returns that were too large to send, on this minion, for `saltlite job fetch`; the oldest "
        "are deleted first. 0 stores none.",
        IntegerKind(0, 2**40),
        unit="bytes",
    )
    mine_functions: dict[str, Any] = option(
        {},
        "The functions whose results the master keeps for other minions (mine.get), by name, as in {network.ip_addrs: "
        "[eth0], site: [{mine_function: cmd.run}, cat /etc/site, {allow_tgt: 'web*'}]}. Those of the pillar are added.",
        AnyMap(),
    )
    mine_enabled: bool = option(
        True,
        "Whether the minion calls the mine_functions by itself: at its start, and every mine_interval.",
        FlagKind(),
    )
    mine_interval: float = option(
        3600.0,
        "The time between two updates of the mine.",
        Duration(1.0, 365 * DAY, salt_unit="m"),
    )
    mine_return_job: bool = option(
        False,
        "Whether these updates are jobs that the master stores.",
        FlagKind(),
    )
    schedule: dict[str, Any] = option(
        {},
        "Jobs that this minion runs by itself, by name, as in {backup: {function: cmd.run, args: [backup --all], cron: "
        "'15 2 * * *', splay: 600}}. Entries of the pillar `schedule` are added, and go first. `saltlite help "
        "automation` explains the fields.",
        AnyMap(),
    )
    beacons: dict[str, Any] = option(
        {},
        "Beacons, which look at this machine at intervals and send events, as in {load: [{averages: {1m: [0.0, 2.0]}}, "
        "{interval: 60}]}. Those of the pillar `beacons` are added, and go first. `saltlite help automation` lists "
        "those that ship.",
        AnyMap(),
    )
    x509_signing_policies: dict[str, Any] = option(
        {},
        "Signing policies of x509.create_certificate by name, as in {www: {days_valid: 90}}; those of the pillar come "
        "first.",
        AnyMap(),
    )
    own_options: list[str] = option(
        [],
        "Names, or globs, of options of your own, which saltlite does not know and modules read with config.get, as in "
        "[rack, 'site_*']. Other unknown options are errors, and so are those that only a glob matches and that look "
        "like a mistyped option. Options with a dot, as in mysql.host, need no declaration.",
        Texts(),
    )
    module_config: dict[str, Any] = field(default_factory=dict)
    """What modules read: every key of the file that has a dot, such as `test.foo`, or that own_options declares."""
    conf_file: str = field(default="", compare=False)
    """The file that the options were read from; what modules keep of this minion's settings stands beside it."""
