"""Every command that is not a job: its name, its usage line, what it does, and where its code is.

The help of a group needs only this file, so it imports no verb.
"""

from __future__ import annotations

import os
import sys

from saltlite import __version__
from saltlite.cli.options import NO_PAGER, HelpAsked, Option, Table, choice
from saltlite.cli.start import complete_path
from saltlite.config.paths import DEFAULT_CONFIG_DIR, require_path
from saltlite.errors import UsageError

TYPE_CHECKING = False  # importing typing takes as long as the rest of the command line
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from saltlite.cli.console import Console
    from saltlite.cli.options import Parsed

    Command = Callable[[Sequence[str], Console], int]
    """Runs a command line that follows the command's name; the exit code. Errors are SaltliteErrors."""

COMMANDS: dict[str, tuple[str, str]] = {
    "acl explain": (
        "saltlite acl explain [options] USER TARGET MODULE.FUNCTION [ARGUMENT...]",
        "Show whether a user may run a function, by which rule.",
    ),
    "audit list": (
        "saltlite audit list [options]",
        "Show who asked this master for what.",
    ),
    "audit verify": (
        "saltlite audit verify [options]",
        "Check that the audit log was not altered.",
    ),
    "auth entry": (
        "saltlite auth entry NAME [options]",
        "Make a user's line for the file of names and hashes.",
    ),
    "auth token list": ("saltlite auth token list [options]", "Show who is logged in."),
    "auth token revoke": ("saltlite auth token revoke ID... [options]", "End logins."),
    "backup": ("saltlite backup FILE [options]", "Write everything that this master owns to one file."),
    "call": (
        "saltlite call [options] MODULE.FUNCTION [ARGUMENT...] [NAME=VALUE...]",
        "Run a function on this machine, without master and daemon.",
    ),
    "cloud": (
        "saltlite cloud [options] [NAME...] [KEY=VALUE...]",
        "Make and destroy machines of clouds, with minions on them.",
    ),
    "cloud-check": (
        "saltlite cloud-check DRIVER [options]",
        "Test whether a driver of clouds does what drivers must.",
    ),
    "completion": (
        "saltlite completion bash|zsh|fish [options]",
        "Print the script that completes command lines in a shell.",
    ),
    "config check": (
        "saltlite config check [master|minion|api|cloud|all] [options]",
        "Look for mistakes in the configuration files.",
    ),
    "config from-salt": (
        "saltlite config from-salt [DIR] [--write FOLDER] [options]",
        "Convert Salt's configuration in /etc/salt.",
    ),
    "config show": (
        "saltlite config show [master|minion|all] [options]",
        "Show the configuration that the files make.",
    ),
    "cp": (
        "saltlite cp [options] TARGET SOURCE... DEST",
        "Copy files and folders of this machine to minions.",
    ),
    "demo": (
        "saltlite demo [options] [-- TARGET MODULE.FUNCTION [ARGUMENT...]]",
        "Start a fleet in a folder that is removed at the end.",
    ),
    "doc": (
        "saltlite doc [MODULE|MODULE.FUNCTION|executors|clouds] [options]",
        "Show what a function does, takes, and who lacks it.",
    ),
    "doctor": (
        "saltlite doctor [master|minion|api|all] [options]",
        "Look for what is wrong here, and say how to mend it.",
    ),
    "events": (
        "saltlite events [PATTERN] [options]",
        "Show events as they come; PATTERN is a glob on their tags.",
    ),
    "explain": (
        "saltlite explain MODULE MINION|--local [options]",
        "Show which file provides a module, and why not others.",
    ),
    "help": ("saltlite help [TOPIC]", "Show a page of the documentation."),
    "interface diff": (
        "saltlite interface diff INTERFACE INTERFACE [options]",
        "Show what changed between two interfaces: whom it breaks.",
    ),
    "interface generate": (
        "saltlite interface generate NAME --from FILE... [options]",
        "Make an interface of the modules that provide a name.",
    ),
    "interface show": (
        "saltlite interface show NAME|FILE [options]",
        "Show the functions of an interface.",
    ),
    "job fetch": (
        "saltlite job fetch JID [MINION] [options]",
        "Fetch a return that was too large to travel, whole.",
    ),
    "job kill": ("saltlite job kill JID [options]", "Kill a job where it has not ended."),
    "job list": ("saltlite job list [options]", "List jobs, the newest first."),
    "job rerun": (
        "saltlite job rerun JID [options]",
        "Run a job again, everywhere or where it failed.",
    ),
    "job show": (
        "saltlite job show JID [options]",
        "Show who ran a job, what, and how it ended on each target.",
    ),
    "job watch": ("saltlite job watch JID [options]", "Follow a job, whether it runs or has ended."),
    "key accept": (
        "saltlite key accept ID|GLOB... [options]",
        "Accept keys: a glob pending ones, an id any that can be.",
    ),
    "key delete": ("saltlite key delete ID|GLOB... [options]", "Forget keys, whatever their state."),
    "key finger": (
        "saltlite key finger [ID|GLOB...] [options]",
        "Show fingerprints: of fleet and master, or of minions.",
    ),
    "key fleet new": (
        "saltlite key fleet new --lost [options]",
        "Begin a new fleet where the fleet key is lost for good.",
    ),
    "key fleet rotate": (
        "saltlite key fleet rotate [options]",
        "Change the fleet key; every minion follows by itself.",
    ),
    "key fleet show": (
        "saltlite key fleet show [options]",
        "Show the fleet key of this machine's master, and its past.",
    ),
    "key list": (
        "saltlite key list [STATE...] [options]",
        "List keys: all, or the pending, accepted, rejected, ...",
    ),
    "key preaccept": (
        "saltlite key preaccept ID FINGERPRINT [options]",
        "Accept a key before it comes, by its fingerprint.",
    ),
    "key reject": ("saltlite key reject ID|GLOB... [options]", "Reject keys that wait for a decision."),
    "key rename": (
        "saltlite key rename ID NEW-ID [options]",
        "Give an accepted key another minion id.",
    ),
    "key revoke": (
        "saltlite key revoke ID|GLOB... [options]",
        "Revoke accepted keys and end their sessions.",
    ),
    "key token create": (
        "saltlite key token create [options]",
        "Make and print a token that lets minions join.",
    ),
    "key token list": ("saltlite key token list [options]", "List the join tokens that can still be used."),
    "key token revoke": ("saltlite key token revoke ID... [options]", "Make join tokens unusable."),
    "lint": (
        "saltlite lint FILE|FOLDER... [options]",
        "Look for mistakes in modules and interfaces.",
    ),
    "master drain": (
        "saltlite master drain NAME [options]",
        "Have a master give its minions to the others.",
    ),
    "master invite": (
        "saltlite master invite NAME [REQUEST] [options]",
        "Let a further master into the fleet, by its request.",
    ),
    "master join": (
        "saltlite master join INVITATION [options]",
        "Make this machine's master one of the fleet.",
    ),
    "master list": ("saltlite master list [options]", "Show the masters that share this one's store."),
    "master remove": (
        "saltlite master remove NAME [options]",
        "Forget a master that has stopped for good.",
    ),
    "master request": (
        "saltlite master request [FILE] [options]",
        "Ask for an invitation: write this master's public keys.",
    ),
    "match": (
        "saltlite match [options] TARGET",
        "Show what a target selects, and why; nothing is run.",
    ),
    "new": (
        "saltlite new module|resource|executor|driver|runner NAME [options]",
        "Write the files of a new plug-in, with a test.",
    ),
    "restore": ("saltlite restore FILE [options]", "Put the backup of a master back, while it does not run."),
    "runner": (
        "saltlite runner [options] RUNNER.FUNCTION [ARGUMENT...] [NAME=VALUE...]",
        "Run a function about the whole fleet on this machine.",
    ),
    "store migrate": (
        "saltlite store migrate postgresql|sqlite [options]",
        "Move the master's store to its database, or back.",
    ),
    "status": ("saltlite status [options]", "Show how the master and its minions stand."),
    "upgrade": ("saltlite upgrade [options] TARGET", "Bring minions to the version of this machine's master."),
    "version": ("saltlite version [options]", "Show the version; -V shows those of dependencies too."),
}

WITHOUT_CONFIG = frozenset({"auth entry", "help", "interface generate", "lint", "new", "version"})
"""Commands that read no configuration. `-c DIR` before them is ignored, for aliases of `saltlite -c DIR`."""

TAKES_DOTS = frozenset({
    "acl", "auth", "backup", "call", "cloud", "cp", "doc", "explain", "help", "lint", "match", "restore", "runner",
    "upgrade",
})  # fmt: skip
"""Commands whose first word may contain a dot: a function after them does not make a job."""

COMPLETE = "__complete"
"""What the shells' completion scripts call; no help text shows it. Its words are those of another command line."""

SALT_KEY = "__key"
"""What `saltlite-key` runs: a verb of `key`, or the options of salt-key. No help text shows it."""

KEY_STATES = ("pending", "accepted", "rejected", "revoked", "conflict")
"""The names of `saltlite.model.keys.KeyState`, which takes longer to import than a list of keys takes."""

WITHOUT_PLUGINS = frozenset(
    {
        "acl",
        "auth",
        "completion",
        "events",
        "help",
        "job",
        "key",
        "match",
        "new",
        "status",
        "version",
        COMPLETE,
        SALT_KEY,
    }
)
"""Commands that load no plug-in before `saltlite.cli.custom_output`: they do not need every folder of packages."""

_FILES = {
    "acl": "auth",
    "explain": "doc",
    "key fleet": "key_fleet",
    "lint": "interface",
    "restore": "backup",
    "version": "help",
}
"""Nouns whose file in `saltlite/cli/verbs` has another name."""


def load(name: str) -> Command:
    """The function of a command: `key token create` is `run_token_create` in verbs/key.py, `status` is `run` in
    verbs/status.py, and `lint` is `run_lint` in verbs/interface.py.
    """
    if name.partition(" ")[0] not in WITHOUT_PLUGINS:
        complete_path()
    if name == COMPLETE:
        from saltlite.cli.completion import run_complete

        return run_complete
    if name == SALT_KEY:
        return _function("salt_key", "run")
    noun = next((words for words in _FILES if name.startswith(f"{words} ")), name.replace("-", " ").partition(" ")[0])
    verb = name[len(noun) + 1 :].replace(" ", "_")
    verb = verb or (noun if noun in _FILES else "")
    return _function(_FILES.get(noun, noun), f"run_{verb.replace('-', '_')}" if verb else "run")


def _function(file: str, name: str) -> Command:
    module = f"saltlite.cli.verbs.{file}"
    __import__(module)  # importlib is slow to import
    function: Command = getattr(sys.modules[module], name)
    return function


def parse_descriptor(text: str) -> int:
    """The number of an open descriptor. Raises UsageError."""
    if text.isascii() and text.isdigit() and len(text) < 6:
        return int(text)
    raise UsageError(f"{text!r} is not the number of a descriptor")


CONFIG_DIR = Option(
    "-c", "--config-dir", metavar="DIR", convert=require_path, help="the master's configuration folder (/etc/saltlite)"
)


def config_dir_of(parsed: Parsed) -> str:
    """The folder that `-c` names, or the default one; absolute, so that printed commands work anywhere."""
    given: str = parsed.options.get("config_dir", DEFAULT_CONFIG_DIR)
    return os.path.abspath(given)


_ASK_THE_MASTER = (
    "acl explain", "auth token", "events", "job", "key", "master drain", "master list", "master remove", "match",
    "status",
)  # fmt: skip
"""Commands, and groups of commands, that a logged-in user can run."""
_ON_THE_DISK = ("key fleet",)
"""Those among them that work on files of this machine."""
LOGIN_OPTIONS = (
    Option("-a", "--external-auth", "--eauth", "--auth", metavar="BACKEND", help="log in: pam, file, sharedsecret"),
    Option("-T", "--make-token", help="store that login for next time"),
    Option("--username", metavar="NAME", help="the user name to log in with (yours)"),
    Option("--password-fd", metavar="N", convert=parse_descriptor, help="read the password there; 0 is stdin"),
)
"""The options that `saltlite.cli.connect` reads, besides the configuration folder."""
QUIET = Option("-q", "--quiet", help="print data and errors only")
VERSIONS = (
    Option("--version", help="show the version and end"),
    Option("-V", "--versions-report", help="show the versions of dependencies too, and end"),
)


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split(","))


NO_PARSE = Option("--no-parse", metavar="NAMES", convert=_names, help="keywords whose values stay text: a,b")
"""An option of commands that call functions, as ARGS_STDIN is."""


def begin(parsed: Parsed, program: str, console: Console) -> None:
    """Obey what Salt's programs have in common: VERSIONS, which raise HelpAsked, QUIET, and options without effect."""
    if parsed.on("version"):
        raise HelpAsked(f"{program} {__version__}")
    if parsed.on("versions_report"):
        from saltlite.plugins.modules.test import versions_report

        raise HelpAsked(versions_report())
    console.quiet = parsed.on("quiet")
    for note in parsed.notes:
        console.note(note)


LOG_LEVELS = ("quiet", "critical", "error", "warning", "info", "profile", "debug", "trace", "garbage", "all")
"""The names in `saltlite.platform.logs.LEVELS`, which takes longer to import than a job takes."""
LOG_LEVEL = Option("-l", "--log-level", metavar="LEVEL", convert=choice(*LOG_LEVELS), help="log to stderr: warning")


def command_table(name: str, *options: Option, formats: tuple[str, ...] = ("text", "json")) -> Table:
    """The options of the command `name`: its own and the shared ones; `formats` are those of `--out`."""
    usage, summary = COMMANDS[name]
    *first, last = formats
    out = Option("--out", metavar="FORMAT", convert=choice(*formats), help=f"{', '.join(first)} or {last}")
    asks = name.startswith(_ASK_THE_MASTER) and not name.startswith(_ON_THE_DISK)
    login = LOGIN_OPTIONS if asks else ()
    return Table(usage, summary, (*options, *login, CONFIG_DIR, out, QUIET, NO_PAGER))


def members(group: str) -> list[str]:
    """The words that may follow `group`, sorted; the empty group is the top level."""
    prefix = f"{group} " if group else ""
    return sorted({name[len(prefix) :].partition(" ")[0] for name in COMMANDS if name.startswith(prefix)})


def command_lines(group: str = "") -> str:
    """The commands of a group with their summaries, as lines of a help text."""
    names = [name for name in COMMANDS if not group or name.startswith(f"{group} ")]
    return "\n".join(f"  {name:<20}{COMMANDS[name][1]}" for name in names)
