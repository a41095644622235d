"""`saltlite cloud`, also `saltlite-cloud`: machines of clouds, from a profile to an accepted minion and back.

As in Salt, one option says what to do, and the words say to which machines. `saltlite cloud-check` tests a driver.
"""

from __future__ import annotations

import re
import signal
import sys
from typing import TYPE_CHECKING, Any

from saltlite.cli import exitcodes
from saltlite.cli.commands import COMMANDS, CONFIG_DIR, QUIET, command_table, config_dir_of, parse_descriptor
from saltlite.cli.connect import ask_password, open_client
from saltlite.cli.custom_output import master_opts
from saltlite.cli.in_process import printing_to_stderr
from saltlite.cli.options import Option, Table, choice
from saltlite.cli.output import FORMATS_TEXT, OUTPUT_OPTIONS, Printing, opened_output, print_answer
from saltlite.cloud.deploy.settings import credentials_of, typed
from saltlite.cloud.program import app, lifecycle
from saltlite.cloud.program.app import Done, require_foreign, worst_exit_code
from saltlite.cloud.program.drivers import Result, check
from saltlite.cloud.program.files import keyring_module, load_map
from saltlite.cloud.program.program import Block, Lines, Program, conceal_logs
from saltlite.cloud.rules.catalogue import explanation as explain
from saltlite.config.paths import require_path
from saltlite.errors import RefusedError, SaltliteError, UsageError
from saltlite.model.redaction import HIDDEN, KEY_FILES, is_secret_name
from saltlite.platform import logs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from types import FrameType

    from saltlite.cli.console import Console
    from saltlite.cli.options import Parsed
    from saltlite.cloud.program.app import Answers
    from saltlite.cloud.rules.catalogue import MapMachine, Provider
    from saltlite.cloud.rules.flow import Unfinished


_KEY = re.compile(r"[A-Za-z_][\w.-]*", re.ASCII)


def printed(value: Any, parsed: Parsed, console: Console) -> None:
    """Print data in the chosen format."""
    printing(parsed, console).show(value)


def printing(parsed: Parsed, console: Console) -> Printing:
    """The printer for the chosen format. Raises UsageError for an unknown outputter."""
    return Printing(parsed, console, lambda: master_opts(config_dir_of(parsed)))


def confirm(what: str, parsed: Parsed, console: Console) -> None:
    """Return when a person, or -y, agrees. Raises RefusedError, and UsageError without a terminal."""
    if parsed.on("assume_yes"):
        return
    if not console.can_ask():
        raise UsageError(f"{what} There is no terminal to ask at: add -y to do it")
    console.error(what)
    if not console.ask("Proceed?"):
        raise RefusedError("nothing was done")


def split_words(words: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Names, and the settings after them as `KEY=VALUE`; values are text. Raises UsageError for a repeated key."""
    names: list[str] = []
    settings: dict[str, str] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not _KEY.fullmatch(key):
            names.append(word)
        elif key in settings:
            raise UsageError(f"{key} is given twice")
        else:
            settings[key] = value
    return names, settings


def print_explanation(rows: Mapping[str, Any], parsed: Parsed, console: Console) -> None:
    """Print an explanation: a line for each setting, or data with --out."""
    if "out" in parsed.options:
        printed(rows, parsed, console)
        return
    for name, row in rows.items():
        over = "".join(f", over {one}" for one in row.get("over", ()))
        console.data(f"{name}: {row['value']}\n    {row['from']}{over}\n")


def explanation(program: Program, profile: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """`{setting: {value, from, over}}` of a machine of this profile; secrets are hidden."""
    wanted = program.catalogue.profile(profile)
    rows = {}
    for row in explain(wanted, program.levels(wanted, None, given)):
        hidden = any(is_secret_name(part) for part in row.path)
        rows[":".join(row.path)] = {
            "value": HIDDEN if hidden else program.secrets.value(row.value),
            "from": row.origins[0] if row.origins else "",
            **({"over": list(row.origins[1:])} if len(row.origins) > 1 else {}),
        }
    return rows


def errors_of(program: Program) -> list[str]:
    """Sentences about settings that drivers found missing."""
    return [
        f"{where}: {shown} lacks the setting {' and '.join(map(repr, missing))}"
        for what, missing in program.missing_settings.items()
        for where, shown in [_place_of(program, what)]
    ]


def _place_of(program: Program, what: str) -> tuple[str, str]:
    """Where `alias:driver`, or `profile NAME`, is written, and its display name."""
    alias, _, driver = what.partition(":")
    provider = program.catalogue.providers.get(alias, {}).get(driver)
    if provider is not None:
        return provider.settings.where, f"provider {alias}"
    profile = program.catalogue.profiles.get(what.removeprefix("profile "))
    return (profile.settings.where if profile is not None else program.opts["conf_file"]), what


_ACTS = (
    Option("-p", "--profile", metavar="PROFILE", help="make machines of this profile, with these names"),
    Option(
        "-m", "--map", metavar="FILE", convert=require_path, help="make the machines of a map; -d, -Q, -F, -S: those"
    ),
    Option("-d", "--destroy", help="destroy the machines of these names"),
    Option("-a", "--action", metavar="ACTION", help="an action for machines, such as show_instance"),
    Option("-f", "--function", metavar="FUNCTION", help="a function for the provider of this name"),
    Option("-b", "--bootstrap", help="make a host a minion: HOST [ID] [KEY=VALUE...]"),
    Option("--set-password", metavar="USERNAME", help="keep a provider's password in the keyring"),
    Option("-Q", "--query", help="list machines: id, image, size, state, addresses"),
    Option("-F", "--full-query", help="list machines with all their fields"),
    Option("-S", "--select-query", help="list machines, with the fields of query.selection"),
    Option("--list-providers", help="list the providers that are configured"),
    Option("--list-profiles", metavar="PROVIDER", help="list the profiles of a provider, or of all"),
    Option("--list-locations", metavar="PROVIDER", help="list its locations, or those of all"),
    Option("--list-images", metavar="PROVIDER", help="list what machines can be made from"),
    Option("--list-sizes", metavar="PROVIDER", help="list how large machines can be"),
    Option("--unfinished", help="list what interrupted commands left half done"),
    Option("--clean", help="roll back what is half made (these names, or all)"),
    Option("--resume", help="go on with machines that wait for their minion"),
    Option("-u", "--update-bootstrap", help="show the script that makes machines minions"),
)
_HOW = (
    Option("-P", "--parallel", help="several machines at the same time"),
    Option("-y", "--assume-yes", help="do not ask"),
    Option("--explain", help="with -p: show each setting, and where it is written"),
    Option("--no-deploy", help="make machines without minions"),
    Option("--keep", help="keep a machine whose deployment failed"),
    Option("-k", "--keep-tmp", help="keep what was uploaded to a machine to deploy it"),
    Option("--script-args", metavar="TEXT", help="arguments of the deploy script"),
    Option("--show-deploy-args", help="show with what machines were deployed, without secrets"),
    Option("-H", "--hard", help="with -m: destroy all other machines of its providers"),
    Option("--provider", metavar="PROVIDER", help="ask this provider only"),
    Option("--foreign", help="-a, -f: no files of this host in settings, no destroy"),
    Option("--cached", help="with -Q: the last known state, without asking"),
)
_SHARED = (
    Option("--eauth", "--auth", metavar="BACKEND", help="log in: pam, file, sharedsecret"),
    Option("-T", "--make-token", help="store that login for next time"),
    Option("--username", metavar="NAME", help="the user name to log in with (yours)"),
    Option("--password-fd", metavar="N", convert=parse_descriptor, help="read the password there; 0 is stdin"),
    Option("-l", "--log-level", metavar="LEVEL", convert=choice(*logs.LEVELS), help="log to stderr: warning"),
    *OUTPUT_OPTIONS,
    QUIET,
    CONFIG_DIR,
)

_EPILOG = f"""\
Settings of actions and functions are KEY=VALUE after the names.

{FORMATS_TEXT}

exit codes: 0 all is well, 2 usage or configuration, 4 something failed,
  6 refused, 7 the master cannot be reached, 130 interrupted: what was half made
  is rolled back, or listed by --unfinished"""

_READS = ("show_", "list_", "get_", "avail_")
"""Actions with these prefixes change nothing and need no confirmation."""

_LISTS = ("query", "full_query", "select_query", "list_providers", "list_profiles", "list_locations", "list_images",
          "list_sizes", "update_bootstrap")  # fmt: skip
"""Options that concern no particular machine."""


def _table() -> Table:
    usage, summary = COMMANDS["cloud"]
    return Table(usage, summary, (*_ACTS, *_HOW, *_SHARED), _EPILOG)


def run(argv: Sequence[str], console: Console) -> int:
    """Do what the options say. Raises UsageError, ConfigError, RefusedError, UnreachableError."""
    parsed = _table().parse(argv)
    console.quiet = parsed.on("quiet")
    act = _act_of(parsed)
    with opened_output(parsed, console) as output, open_client(parsed, console) as client:
        printing(parsed, output)  # check it before any work
        program = app.open_program(config_dir_of(parsed), client, _progress(parsed, console))
        program.opts.update({name: parsed.on(name) for name in ("parallel", "keep_tmp", "show_deploy_args")})
        logs.configure(parsed.options.get("log_level", program.config.log_level))
        conceal_logs(program.secrets)
        signal.signal(signal.SIGTERM, _interrupt)
        for path in program.exposed():
            console.note(f"saltlite: others can read {path}, which contains secrets: chmod 600 {path}")
        try:
            return _HANDLERS[act](program, parsed, output)
        except SaltliteError as error:
            raise _without_secrets(error, program) from None


def _act_of(parsed: Parsed) -> str:
    given = [name for name in _HANDLERS if parsed.on(name)]
    if "map" in given and len(given) == 2:
        given.remove("map")  # it says which machines, not what to do with them
    if len(given) != 1:
        what = "one of them" if given else "what to do"
        raise UsageError(f"say {what}: -p, -m, -d, -a, -f, -Q, -F, -S, --list-...; `saltlite cloud --help` has them")
    act = given[0]
    if parsed.on("hard") and act != "map":
        raise UsageError("-H stands with -m FILE: it destroys the machines that the map does not name")
    if parsed.words and act in _LISTS:
        raise UsageError(
            f"--{act.replace('_', '-')} takes no words, and has {parsed.words[0]!r}: "
            "`--provider NAME` asks one provider, `-a show_instance NAME` describes one machine"
        )
    return act


def _progress(parsed: Parsed, console: Console) -> Callable[[str, str], None]:
    if parsed.on("parallel") and console.wants_status():
        return Block(sys.stderr, console.status_width())
    return Lines(console.note)


def _interrupt(_signum: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _without_secrets(error: SaltliteError, program: Program) -> SaltliteError:
    """The same error without secrets."""
    concealed = SaltliteError("\n".join(_with_missing_settings(program, program.secrets.text(str(error)))))
    concealed.exit_code = error.exit_code
    return concealed


def _with_missing_settings(program: Program, text: str) -> list[str]:
    """The text, and the settings that drivers found missing meanwhile."""
    return [text, *errors_of(program)]


def _make(program: Program, parsed: Parsed, console: Console) -> int:
    profile = parsed.options["profile"]
    given = _given(parsed)
    if parsed.on("explain"):
        program.require_known(program.catalogue.profile(profile), None, given)
        print_explanation(explanation(program, profile, given), parsed, console)
        return exitcodes.OK
    if not parsed.words:
        raise UsageError(f"name the machines: saltlite cloud -p {profile} NAME...")
    with printing_to_stderr():
        done = app.make_machines(program, profile, parsed.words, given, parallel=parsed.on("parallel"))
    return _print_done(program, done, parsed, console)


def _make_map(program: Program, parsed: Parsed, console: Console) -> int:
    machines = load_map(parsed.options["map"])
    if parsed.on("hard") and not program.config.enable_hard_maps:
        raise RefusedError(f"-H destroys machines: allow it with enable_hard_maps: true in {program.opts['conf_file']}")
    with printing_to_stderr():
        there = app.there_of_map(program, machines)
        others = app.others_of_map(program, machines) if parsed.on("hard") else []
    missing = [one for one in machines if one.name not in there]
    if not missing and not others:
        console.note("saltlite: all machines of the map exist")
        printed({}, parsed, console)
        return exitcodes.OK
    rows = [f"{one.name} ({one.profile})" for one in missing]
    confirm(" ".join(_intentions(rows, others)), parsed, console)
    parallel = parsed.on("parallel")
    with printing_to_stderr():
        done = app.make_map(program, machines, _given(parsed), there, parallel=parallel)
        if others and (done.errors or done.interrupted):
            console.error("saltlite: no machine was destroyed, because not every machine of the map was made")
        elif others:
            done = app.destroy_others(program, others, done, parallel=parallel)
    return _print_done(program, done, parsed, console)


def _intentions(made: Sequence[str], destroyed: Sequence[tuple[str, str]]) -> Iterator[str]:
    if made:
        yield f"These machines will be made: {', '.join(made)}."
    if destroyed:
        rows = [f"{name} ({provider})" for provider, name in destroyed]
        yield f"These machines will be destroyed: {', '.join(rows)}."


HOST_DRIVER = "saltify"
"""The driver that makes existing hosts minions."""


def _bootstrap(program: Program, parsed: Parsed, console: Console) -> int:
    names, given = split_words(parsed.words)
    if not 1 <= len(names) <= 2:
        raise UsageError("name the host, and perhaps the id of its minion: saltlite cloud -b HOST [ID] [KEY=VALUE...]")
    for name, value in given.items():
        _require_no_secret(name, value, program)
    settings = {"ssh_host": names[0], **{name: typed(name, value) for name, value in given.items()}, **_given(parsed)}
    with printing_to_stderr():
        done = app.bootstrap_host(program, HOST_DRIVER, names[-1], settings)
    return _print_done(program, done, parsed, console)


def _require_no_secret(name: str, value: str, program: Program) -> None:
    """Raises UsageError for a secret, which all users of this host could read in the list of processes."""
    public = name == "ssh_host_key" or (name in KEY_FILES and "\n" not in value)
    if (is_secret_name(name) and not public) or (name == "install_index" and credentials_of(value)):
        raise UsageError(
            f"{name}: other users can read the command line, so it takes no secrets: write {name} under `defaults` in "
            f"{program.opts['conf_file']} (chmod 600) or into a profile, or keep a provider's password in the keyring "
            "with --set-password"
        )


def _set_password(program: Program, parsed: Parsed, console: Console) -> int:
    """Store a password where `password: use_keyring` of the provider is read from."""
    if len(parsed.words) != 1:
        raise UsageError("name the provider: saltlite cloud --set-password USERNAME PROVIDER")
    alias = program.catalogue.provider(parsed.words[0]).alias
    keyring, user = keyring_module(), parsed.options["set_password"]
    if sys.stdin.isatty():
        password = ask_password(f"password of {user} at {alias}: ")
        if password != ask_password("once more: "):
            raise UsageError("the passwords differ; nothing was stored")
    else:
        password = sys.stdin.buffer.readline().rstrip(b"\r\n")
    if not password:
        raise UsageError("the password is empty; nothing was stored")
    keyring.set_password(alias, user, password.decode())
    console.note(f"saltlite: stored; `password: use_keyring` and `user: {user}` of the provider {alias} read it")
    return exitcodes.OK


def _destroy(program: Program, parsed: Parsed, console: Console) -> int:
    names = list(parsed.words)
    providers = _providers(program, parsed)
    if parsed.on("map"):
        machines = load_map(parsed.options["map"])
        with printing_to_stderr():
            there = app.there_of_map(program, machines)
        names += [name for name in there if name not in names]
        providers = [program.catalogue.provider(name) for name in dict.fromkeys(there.values())] or providers
        if not names:
            console.note("saltlite: no machine of the map exists")
            printed({}, parsed, console)
            return exitcodes.OK
    if not names:
        raise UsageError("name the machines: saltlite cloud -d NAME...")
    names = list(dict.fromkeys(names))
    with printing_to_stderr():
        app.find(program, names, providers)
    confirm(f"These machines will be destroyed: {', '.join(names)}.", parsed, console)
    with printing_to_stderr():
        done = app.destroy_machines(program, names, providers, parallel=parsed.on("parallel"))
    return _print_done(program, done, parsed, console)


def _action(program: Program, parsed: Parsed, console: Console) -> int:
    action = parsed.options["action"]
    names, kwargs = split_words(parsed.words)
    if parsed.on("foreign"):
        require_foreign(kwargs)
        if action == "destroy":
            raise RefusedError("destroy is not an action here: use cloud.destroy")
    if not names:
        raise UsageError(f"name the machines: saltlite cloud -a {action} NAME... [KEY=VALUE...]")
    providers = _providers(program, parsed)
    if not action.startswith(_READS):
        with printing_to_stderr():
            app.find(program, names, providers)
        confirm(f"{action} will be done with {', '.join(names)}.", parsed, console)
    with printing_to_stderr():
        answers = app.action(program, action, names, kwargs, providers)
    return _answered(program, answers, parsed, console)


def _function(program: Program, parsed: Parsed, console: Console) -> int:
    names, kwargs = split_words(parsed.words)
    if parsed.on("foreign"):
        require_foreign(kwargs)
    if len(names) != 1:
        raise UsageError(f"name the provider: saltlite cloud -f {parsed.options['function']} PROVIDER [KEY=VALUE...]")
    provider = program.catalogue.provider(names[0])
    with printing_to_stderr():
        answers = app.function(program, parsed.options["function"], provider, kwargs)
    return _answered(program, answers, parsed, console)


def _list_machines(program: Program, parsed: Parsed, console: Console) -> int:
    asks = {"query": app.machines, "full_query": app.machines_full, "select_query": app.machines_selected}
    ask = app.machines_cached if parsed.on("cached") else next(ask for name, ask in asks.items() if parsed.on(name))
    machines = load_map(parsed.options["map"]) if parsed.on("map") else None
    providers = _providers(program, parsed)
    if machines is not None:
        wanted = {program.catalogue.profile(one.profile).provider.name for one in machines}
        providers = [one for one in providers if one.name in wanted]
    with printing_to_stderr():
        answers = ask(program, providers)
    if machines is not None:
        _only(answers, machines)
    return _answered(program, answers, parsed, console)


def _only(answers: Answers, machines: Sequence[MapMachine]) -> None:
    names = {one.name for one in machines}
    for drivers in answers.found.values():
        for driver, found in drivers.items():
            drivers[driver] = {name: one for name, one in found.items() if name in names}


def _list_offers(program: Program, parsed: Parsed, console: Console) -> int:
    what = next(what for what in ("locations", "images", "sizes") if parsed.on(f"list_{what}"))
    providers = program.catalogue.matching(parsed.options[f"list_{what}"])
    with printing_to_stderr():
        answers = app.offers(program, providers, what)
    return _answered(program, answers, parsed, console)


def _list_providers(program: Program, parsed: Parsed, console: Console) -> int:
    printed(app.listed_providers(program), parsed, console)
    return exitcodes.OK


def _list_profiles(program: Program, parsed: Parsed, console: Console) -> int:
    rows = app.listed_profiles(program, parsed.options["list_profiles"])
    for sentence in program.catalogue.dropped.values():
        console.note(f"saltlite: {sentence}")
    printed(rows, parsed, console)
    return exitcodes.OK


def _unfinished(program: Program, parsed: Parsed, console: Console) -> int:
    rows = lifecycle.shown(program)
    often = [row["name"] for row in rows]
    labels = [row["name"] if often.count(row["name"]) == 1 else f"{row['name']} ({row['run']})" for row in rows]
    printed(dict(zip(labels, rows, strict=True)), parsed, console)
    return exitcodes.FAILED if any(row["left"] for row in rows) else exitcodes.OK


def _clean(program: Program, parsed: Parsed, console: Console) -> int:
    runs = _unfinished_of(program, parsed)
    machines = lifecycle.destroys(runs)
    if machines:
        confirm(f"These machines will be destroyed, if they exist: {', '.join(machines)}.", parsed, console)
    return _take_up(program, runs, parsed, console, lifecycle.clean)


def _resume(program: Program, parsed: Parsed, console: Console) -> int:
    return _take_up(program, _unfinished_of(program, parsed), parsed, console, lifecycle.resume)


def _unfinished_of(program: Program, parsed: Parsed) -> dict[str, Unfinished]:
    runs = [one for one in program.journal.unfinished() if not parsed.words or one.name in parsed.words]
    missing = [name for name in parsed.words if name not in {one.name for one in runs}]
    if missing:
        raise UsageError(f"nothing of {', '.join(missing)} is unfinished; `saltlite cloud --unfinished` lists what is")
    return lifecycle.by_label(runs)


def _take_up(
    program: Program, runs: Mapping[str, Unfinished], parsed: Parsed, console: Console, do: Callable[..., Any]
) -> int:
    done = Done()
    with printing_to_stderr():
        for name, one in runs.items():
            try:
                done.answers[name] = do(program, one)
            except SaltliteError as error:
                done.errors[name] = error
    return _print_done(program, done, parsed, console)


def _update_bootstrap(program: Program, parsed: Parsed, console: Console) -> int:
    script = program.script({"name": "machine", "profile": "", "provider": "", "driver": "", "ssh_host": "machine"})
    folder = f"{program.opts['config_dir']}/cloud.deploy.d"
    console.note("saltlite: the script comes with saltlite and changes with it; there is nothing to fetch")
    printed({"script": "deploy.sh", "lines": len(script.splitlines()), "own scripts": folder}, parsed, console)
    return exitcodes.OK


def _providers(program: Program, parsed: Parsed) -> list[Provider]:
    return program.catalogue.matching(parsed.options.get("provider", "all")) if program.catalogue.providers else []


def _given(parsed: Parsed) -> dict[str, Any]:
    """The settings on the command line, which override all others."""
    given: dict[str, Any] = {}
    if parsed.on("no_deploy"):
        given["deploy"] = False
    if parsed.on("keep"):
        given["destroy_on_failure"] = False
    if parsed.on("keep_tmp"):
        given["keep_tmp"] = True
    if parsed.on("script_args"):
        given["script_args"] = parsed.options["script_args"]
    return given


def _print_done(program: Program, done: Done, parsed: Parsed, console: Console) -> int:
    """Print the result for each machine, which may hold the only copy of a new machine's password."""
    for error in done.errors.values():
        console.error(f"saltlite: {program.secrets.text(str(error))}")
    for line in errors_of(program) if done.errors else ():
        console.error(f"saltlite: {line}")
    printed(done.answers, parsed, console)
    return worst_exit_code(done)


def _answered(program: Program, answers: Answers, parsed: Parsed, console: Console) -> int:
    for error in answers.errors.values():
        console.error(f"saltlite: {program.secrets.text(str(error))}")
    for line in errors_of(program) if answers.errors else ():
        console.error(f"saltlite: {line}")
    printed(answers.found, parsed, console)
    return max((error.exit_code for error in answers.errors.values()), default=exitcodes.OK)


_HANDLERS: Mapping[str, Callable[[Program, Parsed, Console], int]] = {
    "profile": _make,
    "bootstrap": _bootstrap,
    "set_password": _set_password,
    "map": _make_map,
    "destroy": _destroy,
    "action": _action,
    "function": _function,
    "query": _list_machines,
    "full_query": _list_machines,
    "select_query": _list_machines,
    "list_providers": _list_providers,
    "list_profiles": _list_profiles,
    "list_locations": _list_offers,
    "list_images": _list_offers,
    "list_sizes": _list_offers,
    "unfinished": _unfinished,
    "clean": _clean,
    "resume": _resume,
    "update_bootstrap": _update_bootstrap,
}


def run_check(argv: Sequence[str], console: Console) -> int:
    """Test the driver for each provider that uses it. Raises UsageError, ConfigError."""
    parsed = command_table("cloud-check").parse(argv)
    console.quiet = parsed.on("quiet")
    if len(parsed.words) != 1:
        raise UsageError("name a driver or provider: saltlite cloud-check DRIVER")
    with open_client(parsed, console) as client:
        program = app.open_program(config_dir_of(parsed), client, Lines(console.note))
        rows, lines, bad = [], [], 0
        for provider in program.catalogue.matching(parsed.words[0]):
            with printing_to_stderr():
                found = check(program, program.driver(provider))
            for one in found:
                why = program.secrets.text(one.why)
                bad += one.result is Result.BAD
                rows.append({"provider": provider.name, "test": one.test, "result": str(one.result), "why": why})
                lines.append(f"{one.result:<8} {provider.name}: {one.test}{f' - {why}' if why else ''}\n")
        lines += [f"{line}\n" for line in errors_of(program)] if bad else []
        lines.append(f"{len(rows)} test{'' if len(rows) == 1 else 's'}, {bad} bad\n")
    print_answer({"tests": rows, "bad": bad}, "".join(lines), parsed, console)
    return exitcodes.FAILED if bad else exitcodes.OK
