"""The options of Salt's `salt-key`, which `saltlite-key` takes in place of a verb of `saltlite key`.

They show and change the same keys by the same requests. Lists have Salt's names and sections: pending keys are
`minions_pre`, keys in conflict `minions_denied`. `minions_revoked`, which Salt does not have, appears only when there
is a revoked key.
"""

from __future__ import annotations

from saltlite.cli import exitcodes
from saltlite.cli.commands import (
    CONFIG_DIR,
    KEY_STATES,
    LOG_LEVEL,
    LOGIN_OPTIONS,
    QUIET,
    VERSIONS,
    begin,
    command_lines,
    config_dir_of,
    load,
    members,
)
from saltlite.cli.connect import open_client
from saltlite.cli.main import full_name, next_word
from saltlite.cli.options import Option, Table
from saltlite.cli.output import OUTPUT_OPTIONS, Printing, opened_output
from saltlite.cli.verbs.key import ACCEPTED, CONFLICT, PENDING, REJECTED, agreed, refuse_doubled
from saltlite.errors import NoTargetError, UsageError, nearest
from saltlite.model import keys
from saltlite.platform import logs

TYPE_CHECKING = False  # importing typing takes as long as the rest of the command line
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from typing import Any

    from saltlite.cli.console import Console
    from saltlite.cli.options import Parsed
    from saltlite.cli.verbs.key import Row
    from saltlite.client.local import LocalClient

ALL = "all"
ERROR = "error: "
"""What Salt's programs write before a sentence about their options."""


class _ListName:
    """A converter from a name that begins as one of `names` does to the name of a list, or ALL."""

    names = ("acc", "pre", "un", "rej", "den", "rev", ALL)

    def __call__(self, text: str) -> str:
        short = next((name for name in self.names if text.startswith(name)), None)
        if short is None:
            raise UsageError(f"{text!r} is not a list of keys: use one of {', '.join(self.names)}")
        return ALL if short == ALL else keys.SHORT_NAMES[short]


ACTIONS = (
    Option("-l", "--list", metavar="LIST", convert=_ListName(), help="list keys: acc, pre, un, rej, den, rev, all"),
    Option("-L", "--list-all", help="list all keys, as without any option"),
    Option("-a", "--accept", metavar="IDS", help="accept these pending keys"),
    Option("-A", "--accept-all", help="accept all pending keys"),
    Option("-r", "--reject", metavar="IDS", help="reject these pending keys"),
    Option("-R", "--reject-all", help="reject all pending keys"),
    Option("-d", "--delete", metavar="IDS", help="delete these keys, whatever their state"),
    Option("-D", "--delete-all", help="delete all keys"),
    Option("-p", "--print", metavar="IDS", help="print these public keys"),
    Option("-P", "--print-all", help="print all public keys"),
    Option("-f", "--finger", metavar="IDS", help="print the fingerprints of these keys"),
    Option("-F", "--finger-all", help="print all fingerprints, the master's too"),
)
"""A command line has at most one of them."""

_MORE_KEYS = (
    Option("--include-all", help="with -a as --include-rejected; -r: --include-accepted"),
    Option("--include-accepted", help="with -r and -R: revoke accepted keys too"),
    Option("--include-rejected", help="with -a and -A: accept rejected keys too"),
    Option("--include-denied", help="with -a, -A, -r and -R: keys in conflict too"),
)

_LOGIN = Option("--eauth", "--external-auth", "--auth", metavar="BACKEND", help="log in: pam, file, sharedsecret")
"""`-a` is --accept here."""
_LOG_LEVEL = Option("--log-level", metavar=LOG_LEVEL.metavar, convert=LOG_LEVEL.convert, help=LOG_LEVEL.help)
"""`-l` is --list here."""

TABLE = Table(
    "saltlite-key [options]",
    "List, accept, reject, delete and print keys with the options of salt-key.",
    (
        *ACTIONS,
        *_MORE_KEYS,
        Option("-y", "--yes", help="do not ask"),
        _LOGIN,
        *(option for option in LOGIN_OPTIONS if option.key != _LOGIN.key),
        CONFIG_DIR,
        *OUTPUT_OPTIONS,
        QUIET,
        _LOG_LEVEL,
        *VERSIONS,
    ),
    f"""\
IDS is an id, a glob, or several with commas between: web1,'db*'

commands (`saltlite-key COMMAND` is `saltlite key COMMAND`):
{command_lines("key")}

exit codes: 0 all is well, 2 usage or configuration, 3 IDS to change matched no
  key, 6 refused, 7 master unreachable, 130 interrupted""",
    salt="salt-key",
)


def run(argv: Sequence[str], console: Console) -> int:
    """Run a verb of `saltlite key`, or the options of salt-key. Raises UsageError, NoTargetError."""
    first = next_word(argv, 0, TABLE)
    if first is not None and argv[first] in members("key"):
        name, rest = full_name(["key", argv[first], *argv[:first], *argv[first + 1 :]])
        return load(name)(rest, console)
    return _run_options(argv, console)


def _run_options(argv: Sequence[str], console: Console) -> int:
    try:
        parsed = TABLE.parse(argv)
        action = _action_of(parsed)
    except UsageError as error:
        raise UsageError(f"{ERROR}{error}") from error
    begin(parsed, "saltlite-key", console)
    logs.configure(parsed.options.get("log_level", "warning"))
    match = "*" if parsed.options.get(action, True) is True else parsed.options[action]
    with opened_output(parsed, console) as output, open_client(parsed, console) as client:
        printing = Printing(parsed, output, lambda: _master_opts(parsed))
        if action in _SHOW:
            printing.show(_SHOW[action](client, match), "key")
            return exitcodes.OK
        return _Change(parsed, console, output, printing).run(client, action, match)


def _master_opts(parsed: Parsed) -> dict[str, Any]:
    from saltlite.cli.custom_output import master_opts

    return master_opts(config_dir_of(parsed))


def _action_of(parsed: Parsed) -> str:
    """The key of the one action, `list_all` by default. Raises UsageError for options that exclude each other."""
    given = [option for option in ACTIONS if parsed.on(option.key)]
    if len(given) > 1:
        raise UsageError(f"{' and '.join(option.names[-1] for option in given)} exclude each other: give one of them")
    if parsed.words:
        raise UsageError(_unexpected(parsed.words[0], given))
    return given[0].key if given else "list_all"


def _unexpected(word: str, given: Sequence[Option]) -> str:
    if not given:
        known = members("key")
        near = nearest(word, known)
        hint = f"did you mean {near}?" if near else f"use one of {', '.join(known)}, or an option"
        return f"there is no command `saltlite-key {word}`; {hint}"
    option = given[0]
    if option.key == "delete_all":
        return f"Delete all takes no arguments, and {word!r} is one: -d deletes the keys that you name"
    if option.metavar:
        return f"{word!r} is not expected: write several ids with commas, as in {option.names[0]} web1,web2"
    return f"{word!r} is not expected: {option.names[-1]} takes no ids"


def _rows(client: LocalClient, **fields: Any) -> list[Row]:
    rows: list[Row] = client.call("key_list", **fields)["keys"]
    return rows


def _lists(rows: Sequence[Row]) -> dict[str, list[str]]:
    """Ids by list, with the empty lists that Salt has."""
    found = keys.all_lists(rows)
    return {name: found[name] for name in keys.LISTS if found[name] or name != keys.REVOKED}


def _listed(client: LocalClient, name: str) -> dict[str, list[str]]:
    rows = _rows(client)
    return _lists(rows) if name in (ALL, "*") else {name: keys.all_lists(rows)[name]}


def _printed(client: LocalClient, match: str) -> dict[str, dict[str, str]]:
    return keys.by_id(_rows(client, public=True), match, "public")


def _fingers(client: LocalClient, match: str) -> dict[str, dict[str, str]]:
    own = client.call("key_finger")["master"]["fingerprint"] if keys.fits(keys.LOCAL_KEY, match) else ""
    return keys.fingerprints(_rows(client), match, own)


_SHOW: Mapping[str, Callable[[LocalClient, str], Any]] = {
    "list": _listed,
    "list_all": _listed,
    "print": _printed,
    "print_all": _printed,
    "finger": _fingers,
    "finger_all": _fingers,
}


class _Change:
    """Accepts, rejects or deletes keys, and prints that as Salt does.

    In Salt's text everything goes to stdout. In other formats stdout has one document, the changed ids by their former
    lists, and a program can read it.
    """

    def __init__(self, parsed: Parsed, console: Console, output: Console, printing: Printing) -> None:
        self._parsed = parsed
        self._console = console
        self._output = output
        self._printing = printing
        self._as_text = parsed.options.get("out", "key") == "key"

    def run(self, client: LocalClient, action: str, match: str) -> int:
        """Change the keys whose ids fit `match`; the exit code."""
        verb = action.removesuffix("_all")
        states = self._states(verb)
        rows = keys.chosen(_rows(client), match, states)
        if not rows:
            return self._without_keys(match, states, every=verb != action)
        if verb == "accept":
            refuse_doubled(rows)
        if not self._parsed.on("yes") and not agreed(rows, verb, self._console):
            self._console.error("saltlite: nothing was changed")
            return exitcodes.INTERRUPTED
        if self._as_text and not self._console.quiet:
            self._output.data(f"The following keys are going to be {verb.rstrip('e')}ed:\n")
            self._printing.show(_without_empty(rows), "key")
        return self._change(client, verb, rows)

    def _change(self, client: LocalClient, verb: str, rows: Sequence[Row]) -> int:
        # Salt moves an accepted key to its rejected ones; here that is another action, and another state.
        accepted = [row for row in rows if verb == "reject" and row["state"] == ACCEPTED]
        others = [row for row in rows if row not in accepted]
        changed: set[str] = set()
        refused: list[Row] = []
        for action, part in ((verb, others), ("revoke", accepted)):
            if not part:
                continue
            answer = client.call("key_change", action=action, fingerprints=[row["fingerprint"] for row in part])
            changed.update(row["fingerprint"] for row in answer["changed"])
            refused += answer["refused"]
            if self._as_text:
                past = f"{action.rstrip('e')}ed"
                self._output.data("".join(f"Key for minion {row['id']} {past}.\n" for row in answer["changed"]))
        if not self._as_text:
            self._printing.show(_without_empty([row for row in rows if row["fingerprint"] in changed]))
        for row in refused:
            self._console.error(f"{row['id']}: {row['reason']}")
        return exitcodes.REFUSED if refused else exitcodes.OK

    def _states(self, verb: str) -> Collection[str]:
        on = self._parsed.on
        if verb == "delete":
            return KEY_STATES
        more = ("rejected", REJECTED) if verb == "accept" else ("accepted", ACCEPTED)
        states = [PENDING]
        if on("include_all") or on(f"include_{more[0]}"):
            states.append(more[1])
        if on("include_denied"):
            states.append(CONFLICT)
        return states

    def _without_keys(self, match: str, states: Collection[str], *, every: bool) -> int:
        """No key fits. For an option such as --accept-all that is not an error, because nothing is left to do."""
        of_state = "" if len(states) == len(KEY_STATES) else f"{' or '.join(states)} "
        if not every:
            raise NoTargetError(f"{match!r} matches no {of_state}key; `saltlite-key -L` lists all of them")
        self._console.note(f"saltlite: there is no {of_state}key")
        if not self._as_text:
            self._printing.show({})
        return exitcodes.OK


def _without_empty(rows: Sequence[Row]) -> dict[str, list[str]]:
    return {name: ids for name, ids in _lists(rows).items() if ids}
