"""What hands that know Salt, and hands that mistype, are told: one sentence with the way out."""

from __future__ import annotations

import subprocess

import pytest

from tests.support.fleet import BIN, Fleet

pytestmark = pytest.mark.e2e


@pytest.mark.parametrize(
    ("function", "words"),
    [
        ("state.highstate", "saltlite has no states without Salt installed beside"),
        ("state.highstat", "saltlite has no states without Salt installed beside"),
        ("alternatives.auto", "it loads where Salt is installed beside the minion"),
    ],
)
def test_a_function_of_salt_that_is_not_there_has_its_reason_and_no_wrong_hint(
    shared: Fleet, function: str, words: str
) -> None:
    before = shared.jobs_published()
    said = shared.cli("*", function)
    assert (said.code, said.out, shared.jobs_published()) == (2, "", before)
    assert words in said.err
    assert "see `saltlite help from-salt`" in said.err
    assert "did you mean" not in said.err


@pytest.mark.parametrize(
    ("function", "words"),
    [
        ("state.orchestrate", "saltlite has no orchestration"),
        ("reactor.list", "saltlite has no reactor"),
        ("git_pillar.update", "pillar_roots"),
    ],
)
def test_a_runner_of_salt_that_is_not_there_has_its_reason(shared: Fleet, function: str, words: str) -> None:
    said = shared.cli("runner", function, "x")
    assert (said.code, words in said.out) == (4, True), said
    assert "Did you mean" not in said.err


def test_an_empty_list_of_keys_says_so_and_succeeds(shared: Fleet) -> None:
    said = shared.cli("key", "list", "pending", "conflict")
    assert (said.code, said.out, said.err) == (0, "", "saltlite: no key is in conflict or pending\n")


@pytest.mark.parametrize(
    ("words", "code", "hint"),
    [
        (("-G", "oss:Debian", "test.ping"), 3, "no minion has the grain 'oss'; did you mean os?"),
        (("-C", "G@oss:Debian", "test.ping"), 3, "did you mean os?"),
        (("keys", "list"), 2, "did you mean saltlite key list?"),
        (("key", "lst"), 2, "did you mean saltlite key list?"),
        (("key", "tokn", "create"), 2, "did you mean saltlite key token?"),
        (("job", "lsit"), 2, "did you mean saltlite job list?"),
    ],
)
def test_a_mistyped_word_is_answered_with_the_nearest(
    shared: Fleet, words: tuple[str, ...], code: int, hint: str
) -> None:
    said = shared.cli(*words)
    assert (said.code, said.out) == (code, "")
    assert said.err.rstrip().endswith(hint)


def test_a_mistyped_id_is_answered_with_the_one_that_was_meant(fleet: Fleet) -> None:
    fleet.start_master()
    fleet.join("web1", "web10", "web2")
    assert fleet.cli("wbe1", "test.ping").err.rstrip().endswith("did you mean web1?")
    said = fleet.cli("-L", "web1,wbe2", "test.ping", "--out", "json")
    assert (said.code, said.json()) == (5, {"web1": True})
    assert said.err.rstrip().endswith(
        "wbe2: neither an accepted minion nor a resource has this name; did you mean web2?"
    )

    listed = [line.split()[0] for line in fleet.cli("key", "list").out.splitlines()[1:]]
    assert listed == ["web1", "web2", "web10"]
    rows = fleet.cli("*", "grains.item", "id", "kernel", "--out", "table").out.splitlines()
    assert [row.split() for row in rows if "---" not in row] == [
        ["target", "id", "kernel"],
        ["web1", "web1", "Linux"],
        ["web2", "web2", "Linux"],
        ["web10", "web10", "Linux"],
    ]
    grouped = fleet.cli("*", "test.ping", "--out", "table").out.splitlines()
    assert grouped[2].split() == ["web[1-2,10]", "True"]
    fleet.daemons["web10"].stop()
    fleet.daemons["web2"].stop()
    away = [line.partition(":")[0] for line in fleet.cli("web*", "test.ping", "-t", "1").err.splitlines()]
    assert away[:2] == ["web2", "web10"]


def test_a_mistyped_keyword_is_answered_with_the_nearest(shared: Fleet) -> None:
    said = shared.cli("a", "cmd.run", "ls", "cwdd=/")
    assert said.code == 4
    assert "not valid: cwdd (did you mean cwd?)" in said.out


@pytest.mark.parametrize("function", ["cp.get_file", "cp.get_template", "cp.get_url", "cp.get_dir"])
def test_a_file_that_the_master_does_not_have_is_a_failure(shared: Fleet, function: str) -> None:
    said = shared.cli("a", function, "salt://not-there", str(shared.folder / "not-there"))
    assert said.code == 4
    assert "a: there is no file salt://not-there\n" in said.err
    assert not (shared.folder / "not-there").exists()


def test_an_install_without_a_name_is_refused(shared: Fleet) -> None:
    said = shared.cli("a", "pkg.install")
    assert (said.code, "give a name, pkgs or sources" in said.out) == (4, True), said


def test_help_and_version_are_words() -> None:
    def out(*words: str) -> str:
        return subprocess.run([BIN / "saltlite", *words], capture_output=True, text=True, check=True).stdout

    assert out("version") == out("--version")
    assert out("help").startswith("pages, ")
    assert out("help", "key", "list") == out("key", "list", "--help")


def test_a_reader_that_has_seen_enough_is_no_defect(shared: Fleet) -> None:
    command = f"'{BIN}/saltlite' -c '{shared.folder}/master' '*' sys.doc | head -1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] in ("0", "141")
    assert done.stderr == ""


def test_every_option_of_salt_is_named_when_the_master_starts(fleet: Fleet) -> None:
    fleet.start_master()
    fleet.daemons["master"].stop()
    file = fleet.folder / "master" / "master"
    with file.open("a") as config:
        config.write("publish_port: 4505\nhash_type: md5\ngitfs_remotes: []\nreactor: []\n")
    done = subprocess.run([BIN / "saltlite-master", "-c", file.parent], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    for words in (
        "renamed: publish_port",
        "no meaning here: hash_type",
        "gitfs_remotes",
        "reactor",
        "are read: root_dir",
    ):
        assert words in done.stderr
    checked = fleet.cli("config", "check")
    assert (checked.code, checked.out.count("options of Salt")) == (2, 3)


def test_the_audit_log_has_who_did_what_without_secrets(shared: Fleet) -> None:
    assert shared.cli("*", "test.arg", "plain", "password=hunter2").code == 0
    shared.cli("key", "token", "create", "--uses", "3")
    entries = shared.cli("audit", "list", "--out", "json").json()["entries"]
    published = [entry for entry in entries if entry["did"] == "publish"][-1]
    assert published["calls"] == [["test.arg", ["plain"], {"password": "***"}]]
    assert (published["tgt"], published["who"].endswith("(uid 0)")) == ("*", True)
    assert [entry["uses"] for entry in entries if entry["did"] == "token_create"][-1] == 3
    assert "hunter2" not in str(entries)
    # Other tests have used this master too: what it did first may not be among the last entries.
    own = shared.cli("audit", "list", "--who", "MWorker*", "--out", "json").json()["entries"]
    assert {entry["did"] for entry in own} == {"start"}
    verified = shared.cli("audit", "verify")
    assert (verified.code, verified.out.endswith("no problem\n")) == (0, True), verified
