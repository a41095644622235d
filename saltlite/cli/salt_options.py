"""The options of Salt's programs that are without effect here, and those that are refused, each with the reason.

An option is accepted without effect only where that cannot mislead: what it asks for always is so, or concerns
something that does not exist here. A note says so, except where it always is so. Every other option is refused: a
command that did something else than it was asked to would be worse than an error.

The tables of commands read this file for an option that they do not have (`saltlite.cli.options.Table`).
"""

from __future__ import annotations

from saltlite.cli.options import Option, parse_duration
from saltlite.errors import UsageError

TYPE_CHECKING = False  # importing typing takes as long as the rest of the command line
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

SALT, CALL, RUN, CP, KEY = "salt", "salt-call", "salt-run", "salt-cp", "salt-key"
"""The programs of Salt."""

KEYSIZE_MIN, KEYSIZE_MAX = 2048, 32768
"""Bits; Salt accepts these sizes of RSA keys."""
HELP_WIDTH = 80
"""Characters."""
DELIMITER = ":"
"""Between the names in a target such as `os_data:codename:bookworm`."""


def _keysize(text: str) -> int:
    if text.isascii() and text.isdigit() and len(text) < 8 and KEYSIZE_MIN <= int(text) <= KEYSIZE_MAX:
        return int(text)
    raise UsageError(f"{text!r} is not a size that Salt accepts: {KEYSIZE_MIN} to {KEYSIZE_MAX} bits")


def _delimiter(text: str) -> str:
    if text != DELIMITER:
        raise UsageError(f"targets are written with {DELIMITER!r} between their names, not with {text!r}")
    return text


def _refused(*names: str, why: str, metavar: str = "") -> Option:
    return Option(*names, help="", metavar=metavar, refusal=why)


def _ignored(
    *names: str, why: str = "", metavar: str = "", convert: Callable[[str], object] = str, many: bool = False
) -> Option:
    return Option(*names, help="", metavar=metavar, convert=convert, many=many, no_effect=why)


_LOGS = "a command logs to stderr only: write 2>>PATH behind it"
_NO_PROFILES = "to profile a command, run `python -m cProfile -m saltlite ...`"
_NO_SIGNATURE = (
    "minions know the master by the fingerprint of the fleet, which `saltlite key finger` prints, and no file has a "
    "signature of its key"
)
_RETURNERS = "the settings of returners are in returner_config of the master's configuration"

_EVERY = (
    _ignored("--hard-crash", why="SALTLITE_TRACEBACK=1 in the environment shows where a defect is"),
    _refused("--saltfile", metavar="PATH", why="there are no Saltfiles here: write the options on the command line"),
    _refused("--log-file", metavar="PATH", why=_LOGS),
    _refused("--log-file-level", metavar="LEVEL", why=_LOGS),
)
_LOGIN = (
    _refused(
        "--password",
        metavar="TEXT",
        why="other users of this machine can read arguments: use --password-fd, or type it when asked",
    ),
)
_TARGETS = (
    _refused(
        "-R",
        "--range",
        why="it needs a range server: list the minions with -L a,b, or use a nodegroup (-N)",
    ),
    _refused("-H", "--hosts", why="rosters do not exist here: list the minions with -L a,b"),
    _ignored("--delimiter", metavar="CHARACTER", convert=_delimiter),
)
_PROFILING = (
    _refused("--profiling-path", metavar="DIR", why=_NO_PROFILES),
    _refused("--enable-profiling", why=_NO_PROFILES),
)
PROGRAMS: Mapping[str, tuple[Option, ...]] = {
    SALT: (
        *_EVERY,
        *_LOGIN,
        *_TARGETS,
        _ignored("--show-timeout"),
        _ignored("-p", "--progress"),
        _ignored("-s", "--static"),  # --out json always is one object
        _ignored(
            "--gather-job-timeout",
            metavar="TIME",
            convert=parse_duration,
            why="minions acknowledge a job, so none is asked whether it still runs one",
        ),
        _refused("--start-event", why="minions acknowledge every job: `saltlite events 'salt/job/*'` shows it"),
        _refused("--return_config", metavar="NAME", why=_RETURNERS),
        _refused("--return_kwargs", metavar="MAP", why=_RETURNERS),
        _refused("--config-dump", why="`saltlite config show master` shows the configuration"),
    ),
    CALL: (
        *_EVERY,
        *_PROFILING,
        _ignored("-t", "--timeout", metavar="TIME", convert=parse_duration),  # for a master, which it does not ask
        _ignored("--no-return-event"),
        _ignored("--refresh-grains-cache"),
        _ignored("--states-dir", metavar="DIR", many=True, why="states of your own are files in salt://_states"),
        _refused("--master", metavar="ADDRESS", why="it asks no master: run a job, as in saltlite ID MODULE.FUNCTION"),
        _refused(
            "--return", metavar="LIST", why="returners belong to the master: run a job, as in saltlite --return LIST ID"
        ),
        _refused("--proxyid", metavar="ID", why="devices are resources here: use --resources --tgt ID"),
        _refused("--set-metadata", metavar="MAP", why="nothing is stored; a job stores what its --metadata says"),
    ),
    RUN: (
        *_EVERY,
        *_LOGIN,
        *_PROFILING,
        _refused("--jid", metavar="JID", why="a runner gets its job id when it begins; --async prints it"),
    ),
    CP: (
        *_EVERY,
        *_LOGIN,
        *_TARGETS,
        _ignored("-n", "--no-compression"),
    ),
    KEY: (
        *_EVERY,
        *_LOGIN,
        _refused(
            "--gen-keys",
            metavar="NAME",
            why="each minion makes its own key, and no private key is made here: let minions join with a token of "
            "`saltlite key token create`",
        ),
        _refused("--gen-signature", why=_NO_SIGNATURE),
        _refused("--priv", metavar="PATH", why=_NO_SIGNATURE),
        _refused("--pub", metavar="PATH", why=_NO_SIGNATURE),
        _refused("--signature-path", metavar="PATH", why=_NO_SIGNATURE),
        _refused(
            "--preserve-minions",
            metavar="BOOL",
            why="the cached grains and pillar of a minion are always deleted with its accepted key",
        ),
        _refused(
            "-u", "--user", metavar="NAME", why="run the whole command as that user, as in `sudo -u USER saltlite-key`"
        ),
        _ignored("--gen-keys-dir", metavar="DIR", why="no keys are made here"),
        _ignored("--keysize", metavar="BITS", convert=_keysize, why="keys have one size here"),
        _ignored("--auto-create", why="no keys are made here"),
        _ignored(
            "--rotate-aes-key",
            metavar="BOOL",
            why="minions share no key here, and a deleted, rejected or revoked key's sessions always end at once",
        ),
    ),
}


def find(program: str, name: str) -> Option | None:
    """The option of that program of Salt which has this name."""
    return next((option for option in PROGRAMS[program] if name in option.names), None)


def help_text(program: str) -> str:
    """Two paragraphs for the help of a command."""
    ignored = [option for option in PROGRAMS[program] if not option.refusal]
    refused = [option for option in PROGRAMS[program] if option.refusal]
    return "\n\n".join(
        _paragraph(f"Options of {program} {what}: {', '.join(option.names[-1] for option in options)}")
        for what, options in (("without effect here", ignored), ("that are refused, with the reason", refused))
    )


def _paragraph(text: str) -> str:
    # textwrap would import regular expressions.
    lines = [""]
    for word in text.split(" "):
        if len(lines[-1]) + 1 + len(word) > HELP_WIDTH:
            lines.append(word)
        else:
            lines[-1] = f"{lines[-1]} {word}".lstrip()
    return "\n".join(lines)
