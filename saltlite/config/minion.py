"""The options of the minion."""

from __future__ import annotations

from dataclasses import dataclass, field
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
    TextKind,
    TextMap,
    Texts,
    WholeMap,
    option,
)
from saltlite.config.paths import DEFAULT_ROOT_DIR
from saltlite.config.values import DAY, LOG_LEVELS, PORT_MAX
from saltlite.model.execution import DIRECT
from saltlite.model.files import MINION_TYPES
from saltlite.model.ids import parse_minion_id
from saltlite.model.keys import parse_fingerprint, parse_token
from saltlite.wire.limits import JOBS_RUNNING_PER_MINION, RETURN_MAX

RESOURCE_PILLAR_KEY = "resources"
"""The key of the pillar that declares resources, when the configuration names no other one."""

RETURN_MAX_LEAST = 64 * 1024
"""`return_max` leaves room for the notices of what was cut."""


def _check_token(text: str) -> str:
    return parse_token(text).text()


@dataclass(frozen=True, slots=True)
class MinionConfig:
    """The minion's configuration. Durations are seconds; paths are final (see `options.assemble`)."""

    root_dir: str = option(
        DEFAULT_ROOT_DIR,
        "Moves every path that is not written absolute in this file, the defaults included, so that a whole "
        "installation fits below one folder.",
        FilePath(absolute=True),
    )
    master: list[str] = option(  # noqa: RUF009 - a fresh copy for each configuration
        ["salt"],
        "The master, or a list of masters: host, host:port or [ipv6]:port.",
        Addresses(),
    )
    port: int = option(
        4515,
        "The TCP port of the masters that are written without one.",
        IntegerKind(1, PORT_MAX),
    )
    id: str = option(
        "",
        "The id of this minion: a-z, 0-9, '.', '_' and '-'. Empty means the full host name in lower case.",
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
        "Whether a minion that knows no fleet yet takes the first one that answers. Whoever controls the "
        "network at that moment can then command this machine; prefer a join token or `fleet`.",
        FlagKind(),
    )
    join_token: str = option(
        "",
        "A token that `saltlite key token create` printed: it names the fleet, and the master accepts the "
        "key of this minion by it. Give it here, with the file readable by root only, or in join_token_file.",
        TextKind(check=_check_token),
        secret=True,
    )
    join_token_file: str = option(
        "",
        "A file that holds the join token.",
        FilePath(may_be_empty=True),
    )
    user: str = option(
        "saltlite",
        "The user of the process that talks to the network when the minion is started as root. Jobs still "
        "run as root. Started by anybody else, the minion stays that user.",
        TextKind(required=True),
    )
    pki_dir: str = option(
        "/etc/saltlite/pki/minion",
        "The folder of the minion's own key and of the fleet that it has pinned.",
        FilePath(),
    )
    data_dir: str = option(
        "/var/lib/saltlite/minion",
        "The folder of the job journal and of results that the master has not confirmed yet.",
        FilePath(),
    )
    cachedir: str = option(
        "/var/cache/saltlite/minion",
        "The folder of what can be made again, such as files from the master.",
        FilePath(),
    )
    log_level: str = option(
        "warning",
        "The least severe messages that are logged.",
        Choice(LOG_LEVELS),
    )
    log_file: str = option(
        "/var/log/saltlite/minion",
        "The file that log messages are appended to; '' logs to standard error only.",
        FilePath(may_be_empty=True),
    )
    grains: dict[str, Any] = option(  # noqa: RUF009 - a fresh copy for each configuration
        {},
        "Grains of this minion that are set by hand. They win over those that are found.",
        AnyMap(),
    )
    module_dirs: list[str] = option(  # noqa: RUF009 - a fresh copy for each configuration
        [],
        "Folders with more plug-ins of every type, each type in its own folder (modules or _modules, utils or _utils "
        "...); the last one that has a file of a name wins.",
        FilePaths(),
    )
    extension_modules: str = option(
        "/var/cache/saltlite/minion/extmods",
        "A folder with more plug-ins of every type, each type in its own folder (modules, grains ...). This is where "
        "saltutil.sync_all puts those of the master; '' for none.",
        FilePath(may_be_empty=True),
    )
    file_roots: dict[str, list[str]] = option(  # noqa: RUF009 - a fresh copy for each configuration
        {},
        "The folders of files, by environment, that `saltlite call` takes for those of a master; without any, "
        "functions that need files fail there. Jobs always get the files of their master.",
        FileRootsKind(),
    )
    pillar_roots: dict[str, list[str]] = option(  # noqa: RUF009 - a fresh copy for each configuration
        {},
        "The folders of pillar files, by environment, of which `saltlite call` makes the pillar; without any it has "
        "what minion_pillar_cache keeps, or none. Jobs always have the pillar of their master.",
        FileRootsKind(),
    )
    minion_pillar_cache: bool = option(
        False,
        "Whether the last pillar of the master is kept in cachedir, where its owner alone can read it, so that "
        "`saltlite call` has it. Pillar often holds secrets.",
        FlagKind(),
    )
    clean_dynamic_modules: bool = option(
        True,
        "Whether a sync removes plug-ins from extension_modules that the master has no more.",
        FlagKind(),
    )
    extmod_whitelist: dict[str, list[str]] = option(  # noqa: RUF009 - a fresh copy for each configuration
        {},
        "The only plug-ins that a sync brings, by type: globs of their names, as in {modules: [plain, 'web*']}. A type "
        "that is not named is not limited. The keyword of a sync takes the place of this.",
        GlobsByType(MINION_TYPES, whitelist=True),
    )
    extmod_blacklist: dict[str, list[str]] = option(  # noqa: RUF009 - as above
        {},
        "Plug-ins that a sync does not bring, by type, as extmod_whitelist has them.",
        GlobsByType(MINION_TYPES, whitelist=False),
    )
    extmod_empty: bool = option(
        False,
        "Whether a sync may remove every plug-in of a type because the whitelist and blacklist leave out all that "
        "the master has. Otherwise it fails and removes nothing.",
        FlagKind(),
    )
    salt_compat: str = option(
        "auto",
        "What is made of Salt's own execution modules, grains and outputters, and of the saltext-* extensions: auto "
        "loads them below everything else where they are installed beside saltlite, off never does.",
        Choice(("auto", "off")),
    )
    providers: dict[str, str] = option(  # noqa: RUF009 - a fresh copy for each configuration
        {},
        "Which module serves a virtual module where several could, as in {pkg: yumpkg}.",
        TextMap(),
    )
    disable_modules: list[str] = option(  # noqa: RUF009 - a fresh copy for each configuration
        [],
        "Execution modules that are not loaded on this minion, whoever asks for them.",
        Texts(),
    )
    smi_mode: str = option(
        "observe",
        "What is made of the interfaces of virtual modules: observe reports differences, enforce puts calls into the "
        "words of the module that provides a name, off does not look at interfaces.",
        Choice(("observe", "enforce", "off")),
    )
    smi_returns: str = option(
        "log",
        "What becomes of a return that lacks what its interface promises: log warns, fill adds what is missing, "
        "strict fails the call, off does not look.",
        Choice(("log", "fill", "strict", "off")),
    )
    whitelist_modules: list[str] = option(  # noqa: RUF009 - a fresh copy for each configuration
        [],
        "The only execution modules that jobs may call here, as in [test, pkg]; empty means all. Modules still call "
        "each other, so this limits what is asked for, and not what happens.",
        Texts(),
    )
    job_processes: str = option(
        "reuse",
        "Whether the process of a job that called only functions which ship with saltlite may run the next one: reuse, "
        "when it is found to be as it was before the job, or fresh, a new process for every job.",
        Choice(("reuse", "fresh")),
    )
    module_executors: list[str] = option(  # noqa: RUF009 - a fresh copy for each configuration
        [DIRECT],
        "The executors that functions are called through, one after the other until one has a result: direct_call "
        "calls; splay waits, audit notes the call, nice and timeout limit it, and all four pass it on; sudo has "
        "another user call it; dry tells what would be called. Own ones are synced from _executors.",
        Texts(or_text=True),
    )
    executors_allowed: list[str] = option(  # noqa: RUF009 - a fresh copy for each configuration
        [DIRECT, "splay"],
        "The executors that may be asked for in the place of module_executors, besides those that stand there. Those "
        "of audit, nice, sudo and timeout that stand there stay, whatever is asked for.",
        Texts(),
    )
    splaytime: float = option(
        300.0,
        "The longest that the executor splay waits: how long within that time follows from the id of the target, so it "
        "is the same each time. Who asks for splay may say another time.",
        Duration(0.001, 365 * DAY),
    )
    splay_max: float = option(
        3600.0,
        "The longest splaytime that may be asked for.",
        Duration(0.001, 365 * DAY),
    )
    sudo_user: str = option(
        "",
        "The user who calls functions in the place of the minion's own, by the program sudo; empty for none. With it "
        "the executor sudo stands wherever direct_call would. Functions of resources are then refused, and salt:// is "
        "not there.",
        TextKind(),
    )
    call_timeout: float = option(
        0.0,
        "The longest that one function may run under the executor timeout. Who asks for it may say less. 0 means no "
        "limit.",
        Duration(0.0, 365 * DAY),
    )
    nice_level: int = option(
        10,
        "The priority of functions under the executor nice: 19 is the least. Who asks for it may say more.",
        IntegerKind(0, 19),
    )
    nice_idle_io: bool = option(
        False,
        "Whether functions under the executor nice read and write only while nobody else does.",
        FlagKind(),
    )
    nice_memory: int = option(
        0,
        "The most memory that a process of a function may ask for under the executor nice; 0 means no limit.",
        IntegerKind(0, 2**50),
        unit="bytes",
    )
    audit_file: str = option(
        "/var/log/saltlite/minion-audit",
        "The file to which the executor audit adds one line of JSON a call, before it is made.",
        FilePath(),
    )
    audit_arguments: bool = option(
        False,
        "Whether the executor audit writes down what functions are called with, and not only the names of keyword "
        "arguments. What is named like a secret is left out; there may be others among them.",
        FlagKind(),
    )
    minion_blackout: bool = option(
        False,
        "Whether this minion refuses jobs, but for saltutil.refresh_pillar and those in minion_blackout_whitelist. The "
        "same words work in its grains and its pillar. `saltlite call` is not refused.",
        FlagKind(),
    )
    minion_blackout_whitelist: list[str] = option(  # noqa: RUF009 - a fresh copy for each configuration
        [],
        "The functions that jobs may run all the same while minion_blackout is set here, as in [test.ping].",
        Texts(),
    )
    utils_dirs: list[str] = option(  # noqa: RUF009 - a fresh copy for each configuration
        [],
        "Folders with more files whose functions modules reach as __utils__; the last one that has a file of a name "
        "wins.",
        FilePaths(),
    )
    outputter_dirs: list[str] = option(  # noqa: RUF009 - as above
        [],
        "Folders with more outputters, for --out of `saltlite call`; asked after module_dirs and extension_modules.",
        FilePaths(),
    )
    enable_zip_modules: bool = option(
        False,
        "Whether a .zip archive in a folder of plug-ins is one: a folder with its own name and an __init__.py.",
        FlagKind(),
    )
    cython_enable: bool = option(
        False,
        "Whether a .pyx file in a folder of plug-ins is one. Cython and a C compiler must be installed; what is "
        "compiled is kept in cachedir.",
        FlagKind(),
    )
    run_timeout: float = option(
        0.0,
        "The longest that any job may run here, whatever the command line asked for; 0 means no limit.",
        Duration(0.0, 365 * DAY),
    )
    jobs_max: int = option(
        JOBS_RUNNING_PER_MINION,
        "How many jobs run at once; others wait for their turn.",
        IntegerKind(1, 1000),
        unit="jobs",
    )
    resource_pillar_key: str = option(
        RESOURCE_PILLAR_KEY,
        "The key of the pillar that declares the resources of this minion: a map from resource types to what each of "
        "them wants to know.",
        TextKind(),
    )
    resource_workers: int = option(
        32,
        "How many resources of one type are called at once.",
        IntegerKind(1, 1000),
        unit="calls",
    )
    resource_type_limits: dict[str, int] = option(  # noqa: RUF009 - a fresh copy for each configuration
        {},
        "Lower limits for single resource types, as in {ssh: 8}.",
        WholeMap(IntegerKind(1, 1000)),
    )
    resource_timeout: float = option(
        60.0,
        "How long one call of one resource may take, where its type names no other limit; after that it is reported "
        "as timed out, and its answer is not waited for. 0 means no limit.",
        Duration(0.0, DAY),
    )
    return_max: int = option(
        RETURN_MAX,
        "The largest return that travels to the master. Of a larger one the first part is sent, and says so.",
        IntegerKind(RETURN_MAX_LEAST, RETURN_MAX),
        unit="bytes",
    )
    kept_returns_max: int = option(
        256 * 1024 * 1024,
        "How much room returns that were too large to travel may take on this minion, for `saltlite job fetch`; "
        "the oldest go first. 0 keeps none.",
        IntegerKind(0, 2**40),
        unit="bytes",
    )
    module_config: dict[str, Any] = field(default_factory=dict)
    """Configuration of execution modules: every key of the file that has a dot, such as `test.foo`."""
    conf_file: str = field(default="", compare=False)
    """The file that the options were read from; what modules keep of this minion's settings stands beside it."""
