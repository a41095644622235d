"""The options of Salt's programs: each is taken, is without effect, or is refused with the reason."""

from __future__ import annotations

import io
from typing import Any

import pytest

from saltlite.cli import commands, outcome
from saltlite.cli.console import Console
from saltlite.cli.job_options import JOB, TARGET_AND_FUNCTION, parse_batch
from saltlite.cli.main import main, main_call, main_cp, main_key, main_run
from saltlite.cli.options import HelpAsked, Option, Parsed, Table
from saltlite.cli.output import Outputters
from saltlite.cli.printers import EachBatch, EachReply, OneDocument
from saltlite.cli.salt_options import CALL, CP, KEY, PROGRAMS, RUN, SALT
from saltlite.cli.verbs import call, cp, runner, salt_key
from saltlite.client.arguments import parse_arguments, split_calls
from saltlite.client.follower import Progress, Published
from saltlite.errors import UsageError
from saltlite.platform import logs

TABLES = {
    SALT: JOB,
    CALL: call._table(),
    RUN: runner._table(),
    CP: Table(*commands.COMMANDS["cp"], cp.OPTIONS, salt=CP),
    KEY: salt_key.TABLE,
}
EVERYWHERE = (
    "--version -V --versions-report -h --help --saltfile --hard-crash -c --config-dir --log-level --log-file "
    "--log-file-level --out --output --out-indent --output-indent --out-file --output-file --out-file-append "
    "--output-file-append --no-color --no-colour --force-color --force-colour"
)
LOGIN = "--auth --eauth --external-auth -T --make-token --username --password"
TARGETS = "-H --hosts -E --pcre -L --list -G --grain -P --grain-pcre -N --nodegroup -R --range --delimiter"
OF_SALT = {
    SALT: f"{LOGIN} {TARGETS} -l -a -C --compound -I --pillar -J --pillar-pcre -S --ipcidr -t --timeout --args-stdin "
    "--no-parse --module-executors --executor-opts --state-output --state_output --state-verbose --state_verbose -s "
    "--static -p --progress --failhard --async --subset -v --verbose --hide-timeout --show-timeout --show-jid -b "
    "--batch --batch-size --batch-wait --batch-safe-limit --batch-safe-size --return --return_config --return_kwargs "
    "-d --doc --documentation --args-separator --summary --metadata --start-event --output-diff --out-diff "
    "--config-dump --preview-target --gather-job-timeout",
    CALL: "-l -g --grains -m --module-dirs -d --doc --documentation --master --return --local --file-root "
    "--pillar-root --states-dir --retcode-passthrough --metadata --set-metadata --id --skip-grains "
    "--refresh-grains-cache --no-return-event -t --timeout --output-diff --priv -r --resources --tgt --tgt-type "
    "--proxyid --module-executors --executor-opts --args-stdin --profiling-path --enable-profiling --no-parse "
    "--cachedir --state-output --state-verbose",
    RUN: f"{LOGIN} -a -l -d --doc --documentation --async --skip-grains --quiet -t --timeout --args-stdin "
    "--profiling-path --enable-profiling --no-parse --jid --state-output --state-verbose",
    CP: f"{TARGETS} -l -t --timeout --chunked -n --no-compression --state-output --state-verbose",
    KEY: f"{LOGIN} -l --list -L --list-all -a --accept -A --accept-all -r --reject -R --reject-all --include-all "
    "--include-accepted --include-rejected --include-denied -p --print -P --print-all -d --delete -D --delete-all -f "
    "--finger -F --finger-all -q --quiet -y --yes --rotate-aes-key --preserve-minions --gen-keys --gen-keys-dir "
    "--keysize --gen-signature --priv --signature-path --pub --auto-create -u --user",
}
"""The options that Salt 3008's own programs list in their help."""
MAINS = {SALT: main, CALL: main_call, RUN: main_run, CP: main_cp, KEY: main_key}


def job(*words: str) -> Parsed:
    """A line of `saltlite`."""
    return JOB.parse(words, words_before_arguments=TARGET_AND_FUNCTION)


@pytest.mark.parametrize("program", OF_SALT)
def test_every_option_of_salt_is_known(program: str) -> None:
    names = f"{EVERYWHERE} {OF_SALT[program]}".split()
    assert [name for name in names if TABLES[program].find(name) is None] == []


@pytest.mark.parametrize("program", PROGRAMS)
def test_no_option_is_taken_and_without_effect(program: str) -> None:
    own = {name for option in TABLES[program].options for name in option.names}
    assert [name for option in PROGRAMS[program] for name in option.names if name in own] == []


REFUSED = [(program, option) for program, options in PROGRAMS.items() for option in options if option.refusal]


@pytest.mark.parametrize(("program", "option"), REFUSED, ids=lambda one: one if isinstance(one, str) else one.key)
def test_what_cannot_be_obeyed_is_refused_with_the_reason(
    program: str, option: Option, capsys: pytest.CaptureFixture[str]
) -> None:
    value = ["x"] if option.metavar else []
    assert MAINS[program]([*option.names[-1:], *value, "a", "test.ping", "/b"]) == 2
    printed = capsys.readouterr()
    assert printed.err.endswith(f"{option.names[-1]} is refused: {option.refusal}\n")
    assert not printed.out


def test_what_has_no_effect_is_a_note_of_the_line_except_where_it_always_is_so() -> None:
    parsed = job("--gather-job-timeout=5", "--progress", "*", "test.ping", "--show-timeout")
    assert parsed.words == ["*", "test.ping"]
    why = "minions acknowledge a job, so none is asked whether it still runs one"
    assert parsed.notes == [
        f"saltlite: --gather-job-timeout has no effect: {why}",
    ]


def test_only_the_delimiter_of_targets_is_one() -> None:
    assert job("--delimiter", ":", "-G", "os:x", "test.ping").notes == []
    with pytest.raises(UsageError, match=r"targets are written with ':' between their names, not with '\|'"):
        job("--delimiter", "|", "-G", "os|x", "test.ping")


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_help_lists_them_apart(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert MAINS[program](["--help"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert f"Options of {program} without effect here: --hard-crash" in shown
    assert f"Options of {program} that are refused, with the reason: --saltfile" in shown


@pytest.mark.parametrize("program", MAINS)
def test_versions_are_shown(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert MAINS[program](["-V"]) == 0
    assert "saltlite" in capsys.readouterr().out.lower()
    assert MAINS[program](["--version"]) == 0
    name = "saltlite" if program == SALT else program.replace("salt-", "saltlite-")
    assert capsys.readouterr().out.startswith(f"{name} ")


def test_the_levels_of_logging_are_those_that_exist() -> None:
    assert set(commands.LOG_LEVELS) == set(logs.LEVELS)


@pytest.mark.parametrize(
    ("text", "batch"), [("2", (2, False)), (" 50%", (50, True)), ("%25", (25, True)), ("\t1 ", (1, False))]
)
def test_a_batch_may_be_written_as_salt_lets_it(text: str, batch: tuple[int, bool]) -> None:
    assert parse_batch(text) == batch
    assert job(f"-b{text}", "*", "test.ping").options["batch"] == batch
    assert job(f"--batch-size={text}", "*", "test.ping").options["batch"] == batch


@pytest.mark.parametrize("text", ["0", "%", "%%5", "101%", "-1", "x"])
def test_what_is_not_a_batch_is_an_error(text: str) -> None:
    with pytest.raises(UsageError):
        parse_batch(text)


def test_words_are_read_from_stdin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("test.arg\n-q\na b\nc=1\n"))
    parsed = job("--args-stdin", "*")
    assert (parsed.words, parsed.on("quiet")) == (["*", "test.arg", "a b", "c=1"], True)


def test_keywords_that_are_not_to_be_parsed_stay_text() -> None:
    assert job("--no-parse=a,b", "*", "test.arg").options["no_parse"] == {"a", "b"}
    assert parse_arguments(["1", "a=1", "c=1"], as_text={"a"}) == ([1], {"a": "1", "c": 1})


def test_the_separator_of_compound_jobs_can_be_another() -> None:
    words = ["a,b", ",", "--", "c"]
    assert split_calls("test.arg,test.ping", words, "--") == [("test.arg", ["a,b", ","]), ("test.ping", ["c"])]
    assert job("--args-separator", ";", "*", "test.ping").options["args_separator"] == ";"
    with pytest.raises(UsageError, match="at least one character"):
        job("--args-separator=", "*", "test.ping")


@pytest.mark.parametrize("text", ["x", "[1]", "1"])
def test_metadata_is_a_map(text: str) -> None:
    assert job("--metadata", "{ticket: OPS-1}", "*", "test.ping").options["metadata"] == {"ticket": "OPS-1"}
    with pytest.raises(UsageError, match="is not a map: write --metadata"):
        job("--metadata", text, "*", "test.ping")


def progress_of(*minions: str) -> Progress:
    """A job on these minions."""
    answer: dict[str, Any] = {"jid": "20261123030000000000", "minions": list(minions), "resources": {}, "away": {}}
    return Progress(Published({**answer, "unknown": {}, "skipped": [], "timeout_s": 5, "deliver_ms": 0}), now=0.0)


def returned(minion: str, retcode: int, body: bytes = b"") -> dict[str, Any]:
    """A row of `returns`."""
    return {"id": minion, "state": "returned", "retcode": retcode, "body": body}


@pytest.mark.parametrize(
    ("retcodes", "code"), [((0, 0), 0), ((0, 23), 23), ((7, 23), 23), ((1, 300), 255), ((-1, 0), 255)]
)
def test_the_highest_return_code_can_be_the_exit_code(retcodes: tuple[int, int], code: int) -> None:
    progress = progress_of("a", "b")
    rows = [returned(minion, retcode) for minion, retcode in zip("ab", retcodes, strict=True)]
    progress.apply({"returns": rows, "end": True}, now=1.0)
    assert outcome.exit_code(progress, passthrough=True) == code
    assert outcome.exit_code(progress) == (4 if any(retcodes) else 0)


def test_a_target_without_a_return_is_not_hidden_by_a_return_code() -> None:
    progress = progress_of("a", "b")
    progress.apply({"returns": [returned("a", 0)], "states": [{"id": "b", "state": "expired"}]}, now=1.0)
    assert outcome.exit_code(progress, passthrough=True) == 5


def test_targets_that_begin_together_are_named_once() -> None:
    progress, told, out = progress_of("c", "a", "b"), list[str](), io.StringIO()
    console = Console(None, out, None)
    outputters = Outputters(dict)
    printer = EachBatch(EachReply(console, "txt", outputters, outputters_style()), progress, told.append)
    printer.start()
    for message in (
        {"states": [{"id": "a", "state": "planned"}, {"id": "b", "state": "received"}]},
        {"states": [{"id": "b", "state": "running"}]},
        {"states": [{"id": "a", "state": "queued"}], "returns": [returned("b", 0)]},
        {"states": [{"id": "a", "state": "cancelled"}]},
    ):
        printer.take(progress.apply(message, now=1.0))
    printer.finish([], 0)
    assert told == ["Executing run on ['b', 'c']", "Executing run on ['a']"]


def outputters_style() -> Any:
    """How everything is printed where nothing says otherwise."""
    from saltlite.cli.output import PLAIN

    return PLAIN


def test_documentation_of_many_targets_is_one_map() -> None:
    from saltlite.wire.codec import encode_document

    progress, out, err = progress_of("a", "b", "c"), io.StringIO(), io.StringIO()
    printer = OneDocument(Console(None, out, err), "json", Outputters(dict), outputters_style())
    printer.start()
    bodies: tuple[Any, ...] = ({"test.ping": "of a"}, {"test.ping": "of b", "test.echo": "too"}, "no such module")
    rows = [returned(name, 0, encode_document(body)) for name, body in zip("abc", bodies, strict=True)]
    printer.take(progress.apply({"returns": rows}, now=1.0))
    printer.finish([], 0)
    assert out.getvalue() == '{\n    "test.echo": "too",\n    "test.ping": "of a"\n}\n'
    assert err.getvalue() == "c: no such module\n"


def test_help_wins_over_an_option_that_is_refused_behind_it() -> None:
    with pytest.raises(HelpAsked):
        job("--help", "--password", "x")
