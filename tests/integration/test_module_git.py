"""`git` against the real program, in repositories of the test's own."""

from __future__ import annotations

import base64
import http.server
import importlib
import ipaddress
import os
import pwd
import shutil
import ssl
import subprocess
import tarfile
import tempfile
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from saltlite.loader.call import Outcome, call
from saltlite.loader.index import build_index
from saltlite.loader.loader import Loader
from saltlite.loader.search_path import search_layers

INDEX = build_index(search_layers({}))
SECRET = "sesame-git"
SAN = x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])


@pytest.fixture(scope="module", autouse=True)
def _home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    home = tmp_path_factory.mktemp("home")
    (home / ".gitconfig").write_text("[user]\nname = A\nemail = a@example.org\n[init]\ndefaultBranch = main\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(home))
        patch.setenv("GIT_CONFIG_NOSYSTEM", "1")
        yield


def run(fun: str, *args: Any, **kwargs: Any) -> Outcome:
    return call(Loader(INDEX, {}, {}, {}), f"git.{fun}", args, kwargs)


def git(folder: Path, *words: str) -> str:
    return subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture(scope="module")
def untouched(_home: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository that no test changes."""
    folder = tmp_path_factory.mktemp("git") / "a repo; x"
    folder.mkdir()
    git(folder, "init", "-q")
    (folder / "a").write_text("one\n")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "first")
    git(folder, "tag", "v1")
    return folder


@pytest.fixture
def repo(untouched: Path, tmp_path: Path) -> Path:
    """One of the test's own."""
    return Path(shutil.copytree(untouched, tmp_path / untouched.name))


def test_a_checkout_is_made_changed_and_looked_at(tmp_path: Path) -> None:
    where = str(tmp_path / "app")
    assert "Initialized empty Git repository" in run("init", where).value
    (tmp_path / "app/-odd name").write_text("x")
    (tmp_path / "app/two\nlines").write_text("x")
    assert run("status", where) == Outcome({"untracked": ["-odd name", "two\nlines"]}, 0)
    assert run("add", where, "-odd name").value == "add '-odd name'"
    assert run("status", where).value == {"new": ["-odd name"], "untracked": ["two\nlines"]}
    assert "1 file changed" in run("commit", where, "-a message\nwith a line").value
    assert git(tmp_path / "app", "log", "-1", "--format=%B") == "-a message\nwith a line"
    assert run("rm", where, "-odd name").value == "rm '-odd name'"
    assert run("status", where).value == {"deleted": ["-odd name"], "untracked": ["two\nlines"]}


def test_a_renamed_file_is_one_entry(repo: Path) -> None:
    git(repo, "mv", "a", "b")
    assert run("status", str(repo)).value == {"R": ["b"]}


def test_questions_have_the_answers_of_git(repo: Path) -> None:
    where, head = str(repo), git(repo, "rev-parse", "HEAD")
    git(repo, "branch", "develop")
    git(repo, "tag", "-m", "second", "v2")
    asked = {
        "revision": run("revision", where).value,
        "short": run("revision", where, "v1", short=True).value,
        "rev_parse": run("rev_parse", where, "HEAD").value,
        "inside": run("rev_parse", where, opts="--is-inside-work-tree").value,
        "current_branch": run("current_branch", where).value,
        "branches": run("list_branches", where).value,
        "tags": run("list_tags", where).value,
        "describe": run("describe", where).value,
        "ref": run("symbolic_ref", where, "HEAD").value,
        "base": run("merge_base", where, "HEAD,develop").value,
        "bases": run("merge_base", where, ["HEAD", "develop"], all=True).value,
        "ancestor": run("merge_base", where, "HEAD,develop", is_ancestor=True).value,
        "version": run("version").value,
        "versioninfo": run("version", versioninfo=True).value[:2],
    }
    installed = git(repo, "--version").split()[2]
    assert asked == {
        "revision": head, "short": head[: len(asked["short"])], "rev_parse": head, "inside": "true",
        "current_branch": "main", "branches": ["develop", "main"], "tags": ["v1", "v2"], "describe": "v2",
        "ref": "refs/heads/main", "base": head, "bases": [head], "ancestor": True, "version": installed,
        "versioninfo": [int(part) for part in installed.split(".")[:2]],
    }  # fmt: skip


def test_branches_tags_merges_and_resets(repo: Path) -> None:
    where = str(repo)
    assert run("branch", where, "develop") == Outcome(True, 0)
    assert "Switched to branch 'develop'" in run("checkout", where, "develop").value
    (repo / "b").write_text("b")
    run("add", where, "b")
    run("commit", where, "second", filename="b")
    assert run("tag", where, "v2", message="two words").retcode == 0
    assert git(repo, "cat-file", "-t", "v2") == "tag"
    run("checkout", where, "main")
    assert "Fast-forward" in run("merge", where, "develop", opts="--ff-only").value
    assert (repo / "b").exists()
    assert run("reset", where, opts=["--hard", "v1"]).value.startswith("HEAD is now at")
    assert not (repo / "b").exists()
    assert "Successfully rebased" in run("rebase", where, "develop").value
    assert run("branch", where, "develop", opts="-d").value is True
    assert run("tag", where, "v2", opts="--delete").value.startswith("Deleted tag")
    assert run("list_branches", where).value == ["main"]


def test_local_changes_are_shown_put_away_and_discarded(repo: Path) -> None:
    where = str(repo)
    (repo / "a").write_text("two\n")
    assert "-one\n+two" in run("diff", where).value
    assert "-one\n+two" in run("diff", where, "v1", paths="a").value
    assert run("diff", where, cached=True).value == ""
    assert "Saved working directory" in run("stash", where).value
    assert (repo / "a").read_text() == "one\n"
    run("stash", where, "pop")
    assert run("discard_local_changes", where).retcode == 0
    assert (repo / "a").read_text() == "one\n"
    other = repo.parent / "other"
    other.write_text("three\n")
    assert "+three" in run("diff", where, no_index=True, paths=[str(repo / "a"), str(other)]).value


def test_an_archive_has_the_folder_that_is_asked_for(repo: Path, tmp_path: Path) -> None:
    target = tmp_path / "-out.tar"
    assert run("archive", str(repo), str(target)) == Outcome(True, 0)
    with tarfile.open(target) as archive:
        assert "a repo; x/a" in archive.getnames()
    run("archive", str(repo), str(target), "v1", prefix="", format="tar")
    with tarfile.open(target) as archive:
        assert archive.getnames() == ["a"]


def test_a_clone_fetches_pulls_and_pushes(repo: Path, tmp_path: Path) -> None:
    bare = tmp_path / "bare.git"
    git(tmp_path, "clone", "-q", "--bare", str(repo), str(bare))
    where = str(tmp_path / "mine")
    assert run("clone", where, str(bare)) == Outcome(True, 0)
    assert run("clone", str(tmp_path / "under"), str(bare), name="inner").value is True
    assert (tmp_path / "under/inner/a").exists()
    assert run("remotes", where).value == {"origin": {"fetch": str(bare), "push": str(bare)}}
    assert "origin/main" in run("list_branches", where, remote=True).value
    assert run("ls_remote", where, ref="main").value == {"refs/heads/main": git(repo, "rev-parse", "HEAD")}
    assert set(run("remote_refs", str(bare), tags=True).value) == {"refs/tags/v1"}

    old = git(repo, "rev-parse", "--short", "HEAD")
    (repo / "a").write_text("two\n")
    git(repo, "commit", "-qam", "second")
    git(repo, "tag", "v2")
    git(repo, "push", "-q", "--tags", str(bare), "main", "main:develop")
    new = git(repo, "rev-parse", "--short", "HEAD")
    assert run("fetch", where).value == {
        "updated branches": {"main": {"old": old, "new": new}}, "new branches": ["develop"], "new tags": ["v2"],
    }  # fmt: skip
    assert run("fetch", where).value == {}
    assert "Fast-forward" in run("pull", where).value
    (tmp_path / "mine/c").write_text("c")
    run("add", where, "c")
    run("commit", where, "third")
    assert run("push", where, "origin", "main").retcode == 0
    assert git(bare, "rev-parse", "main") == run("revision", where).value


def test_submodules_are_added_and_updated(repo: Path, tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    git(tmp_path, "clone", "-q", str(repo), str(inner))
    allowed = ["-c", "protocol.file.allow=always"]
    assert run("submodule", str(repo), "add", opts=[str(inner), "lib"], git_opts=allowed).retcode == 0
    assert (repo / "lib/a").exists()
    assert "lib" in run("submodule", str(repo), "status").value


def test_worktrees_are_told_from_checkouts(repo: Path, tmp_path: Path) -> None:
    git(repo, "worktree", "add", "-q", str(tmp_path / "tree"))
    places = (tmp_path / "tree", repo, tmp_path, tmp_path / "nosuch")
    assert [run("is_worktree", str(place)).value for place in places] == [True, False, False, False]


def test_settings_are_read_set_and_removed(repo: Path) -> None:
    where = str(repo)
    assert run("config_set", "a.b", "-x y", cwd=where) == Outcome(["-x y"], 0)
    assert run("config_set", "a.b", "two\nlines", cwd=where, add=True).value == ["-x y", "two\nlines"]
    assert run("config_get", "a.b", cwd=where).value == "two\nlines"
    assert run("config_get_regexp", "a\\..*", cwd=where).value == {"a.b": ["-x y", "two\nlines"]}
    assert "Multiple values exist" in run("config_unset", "a.b", cwd=where).value
    assert run("config_unset", "a.b", "^-x", cwd=where).value is True
    assert run("config_set", "a.b", multivar="1,2", cwd=where).value == ["1", "2"]
    assert run("config_unset", "a.b", cwd=where, all=True).value is True
    assert run("config_get", "a.b", cwd=where).value is None
    assert "does not exist" in run("config_unset", "a.b", cwd=where).value
    assert run("config_set", "user.name", "B", **{"global": True}).value == ["B"]
    assert run("config_get", "user.name", **{"global": True}).value == "B"
    assert "cwd" in run("config_get", "user.name").value


def test_remotes_are_set_and_passwords_of_urls_are_not_shown(repo: Path) -> None:
    where, open_url = str(repo), f"https://me:{SECRET}@git.example.org/a.git"
    hidden = "https://<redacted>@git.example.org/a.git"
    assert run("remote_set", where, open_url).value == {"fetch": hidden, "push": hidden}
    assert run("remote_get", where, redact_auth=False).value["fetch"] == open_url
    changed = run("remote_set", where, "/srv/a.git", push_url="/srv/b.git").value
    assert changed == {"fetch": "/srv/a.git", "push": "/srv/b.git"}
    assert run("remote_set", where, "/srv/c.git").value == {"fetch": "/srv/c.git", "push": "/srv/c.git"}
    assert "not present" in run("remote_get", where, "upstream").value


def test_a_login_is_kept_for_its_owner_alone_and_in_no_url(repo: Path) -> None:
    shown = run("remote_set", str(repo), "https://git.example.org/a.git", https_user="me", https_pass=SECRET).value
    assert shown == {"fetch": "https://git.example.org/a.git", "push": "https://git.example.org/a.git"}
    assert SECRET not in (repo / ".git/config").read_text()
    kept = repo / ".git/saltlite-credentials"
    assert kept.stat().st_mode & 0o777 == 0o600
    asked = subprocess.run(
        ["git", "credential", "fill"], cwd=repo, input="protocol=https\nhost=git.example.org\n\n",
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert f"password={SECRET}" in asked.stdout


class Served(http.server.SimpleHTTPRequestHandler):
    """Files, for who knows the password."""

    told: ClassVar[set[str]] = set()
    """Hosts that a password was told."""

    def do_GET(self) -> None:
        if "Authorization" in self.headers:
            self.told.add(self.headers["Host"].partition(":")[0])
        wanted = "Basic " + base64.b64encode(f"me:{SECRET}".encode()).decode()
        if self.headers.get("Authorization") == wanted:
            super().do_GET()
            return
        self.send_response(401)
        self.send_header("WWW-Authenticate", 'Basic realm="git"')
        self.end_headers()

    def log_message(self, *args: Any) -> None:
        pass


@pytest.fixture
def served(repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The URL of the repository on an HTTPS server that wants a password."""
    import datetime

    git(tmp_path, "clone", "-q", "--bare", str(repo), str(tmp_path / "web/app.git"))
    git(tmp_path / "web/app.git", "update-server-info")
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([])
    now = datetime.datetime.now(datetime.UTC)
    made = x509.CertificateBuilder(name, name, key.public_key(), 1, now, now + datetime.timedelta(days=1))
    made = made.add_extension(SAN, critical=True)
    pem = tmp_path / "tls.pem"
    pem.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        + made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    )
    monkeypatch.setenv("GIT_SSL_CAINFO", str(pem))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Served, directory=str(tmp_path / "web")))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"https://localhost:{server.server_address[1]}/app.git"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_clone_with_a_login_is_fetched_later_without_telling_it_again(served: str, tmp_path: Path) -> None:
    where = str(tmp_path / "mine")
    refused = run("clone", where, served, https_user="me", https_pass="wrong-sesame")
    assert (refused.retcode, "wrong-sesame" in refused.value) == (1, False)
    assert "Authentication failed" in refused.value
    assert run("clone", where, served, https_user="me", https_pass=SECRET) == Outcome(True, 0)
    assert run("fetch", where) == Outcome({}, 0)
    assert "refs/heads/main" in run("ls_remote", remote=served, https_user="me", https_pass=SECRET).value


def test_a_repository_does_not_get_the_password_for_another_host(served: str, repo: Path, tmp_path: Path) -> None:
    other = served.replace("localhost", "127.0.0.1")
    (repo / ".gitmodules").write_text(f'[submodule "lib"]\npath = lib\nurl = {other}\n')
    git(repo, "update-index", "--add", "--cacheinfo", f"160000,{git(repo, 'rev-parse', 'HEAD')},lib")
    git(repo, "add", ".gitmodules")
    git(repo, "commit", "-q", "-m", "theirs")
    git(tmp_path, "clone", "-q", "--bare", str(repo), str(tmp_path / "web/theirs.git"))
    git(tmp_path / "web/theirs.git", "update-server-info")
    Served.told.clear()
    url, where = served.replace("app.git", "theirs.git"), str(tmp_path / "mine")
    outcome = run("clone", where, url, opts="--recurse-submodules", https_user="me", https_pass=SECRET)
    assert outcome.retcode == 1
    assert Served.told == {"localhost"}


def test_a_host_of_a_login_is_no_setting_of_git(tmp_path: Path) -> None:
    outcome = run(
        "ls_remote", str(tmp_path), "https://h.helper=!touch pwned;x.y/a.git", https_user="me", https_pass=SECRET
    )
    assert "is not the name of a host" in outcome.value
    assert not (tmp_path / "pwned").exists()


@pytest.mark.parametrize("url", ["https://me:pa@ss@x.invalid/a.git", "https://me:pass@x.invalid/a.git"])
def test_no_part_of_a_password_in_an_url_is_shown(url: str, repo: Path) -> None:
    shown = run("remote_set", str(repo), url).value
    assert shown["fetch"] == "https://<redacted>@x.invalid/a.git"


def test_no_secret_of_a_setting_or_of_what_is_refused_is_told(repo: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    assert run("config_set", "http.extraHeader", f"Authorization: {SECRET}", cwd=str(repo)).retcode == 0
    assert "git config --local" in caplog.text
    assert SECRET not in caplog.text
    assert SECRET not in run("ls_remote", str(repo), f"-https://me:{SECRET}@x.invalid/a.git").value


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to others")
def test_a_key_is_in_a_folder_in_which_its_user_can_put_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fetched(_source: str, place: str, **_kwargs: Any) -> str:
        Path(place).write_text("key")
        return place

    remotes = importlib.import_module("saltlite.plugins.modules.git.remotes")

    monkeypatch.setattr(remotes, "__salt__", {"cp.get_file": fetched}, raising=False)
    key, _ = remotes._key("salt://key", str(tmp_path), {"user": "nobody"})
    status = Path(key).stat()
    assert (status.st_uid, status.st_mode & 0o777) == (pwd.getpwnam("nobody").pw_uid, 0o600)
    assert (tmp_path.stat().st_uid, tmp_path.stat().st_mode & 0o777) == (0, 0o711)


@pytest.mark.parametrize("kind", ["pipe", "endless"])
def test_what_somebody_calls_git_is_not_read_for_ever(kind: str, repo: Path, tmp_path: Path) -> None:
    trap = tmp_path / "tree"
    trap.mkdir()
    if kind == "pipe":
        os.mkfifo(trap / ".git")
    else:
        (trap / ".git").symlink_to("/dev/zero")
    git(repo, "config", "core.worktree", str(trap))
    assert run("is_worktree", str(repo)) == Outcome(False, 0)


NASTY = ["-x", "--upload-pack=touch pwned", "", "a\nb", "a\0b"]


@pytest.mark.parametrize("name", NASTY)
@pytest.mark.parametrize(
    ("fun", "before"),
    [("revision", ()), ("rev_parse", ()), ("branch", ()), ("checkout", ()), ("describe", ()), ("merge_base", ()),
     ("tag", ()), ("stash", ()), ("symbolic_ref", ()), ("fetch", ()), ("push", ()), ("push", ("origin",)),
     ("clone", ()), ("ls_remote", ()), ("ls_remote", ("origin",)), ("remote_set", ()), ("submodule", ()),
     ("remote_set", ("/srv/x",)), ("diff", ())],
)  # fmt: skip
def test_a_name_that_is_none_is_refused_before_git_runs(untouched: Path, fun: str, before: Any, name: str) -> None:
    if name == "" and (fun, before) in {
        ("fetch", ()), ("push", ()), ("push", ("origin",)), ("ls_remote", ("origin",)), ("diff", ()),
        ("merge_base", ()),
    }:  # fmt: skip
        return  # nothing is named
    outcome = run(fun, str(untouched), *before, name)
    assert outcome.retcode == 1
    assert " is not " in outcome.value
    assert not (untouched / "pwned").exists()


@pytest.mark.parametrize(
    ("fun", "args", "kwargs", "words"),
    [
        ("clone", ("ext::sh -c id",), {}, "helpers of git"),
        ("clone", ("/srv/x",), {"https_user": "me", "https_pass": "x"}, "begin with https://"),
        ("clone", ("https://x",), {"https_pass": "x"}, "needs the https_user"),
        ("clone", ("https://x",), {"https_user": "a\nb", "https_pass": "x"}, "one line"),
        ("clone", ("/srv/x",), {"identity": "/nosuch/key"}, "/nosuch/key was not found"),
        ("clone", ("/srv/x",), {"user": "nosuchuser"}, "nosuchuser"),
        ("checkout", (), {}, "'rev' argument is required"),
        ("checkout", ("nosuch",), {}, "did not match any file"),
        ("rebase", ("x",), {"opts": "-i"}, "Interactive"),
        ("tag", ("x",), {"opts": "-m y"}, '"message" argument'),
        ("diff", (), {"cached": True, "no_index": True}, "cannot be used together"),
        ("status", (), {"nosuch": 1}, "nosuch"),
        ("add", ("nosuch",), {}, "did not match any files"),
        ("commit", ("message",), {}, "nothing to commit"),
        ("branch", ("x",), {"opts": "'"}, "cannot be split"),
        ("fetch", (), {"refspecs": "main"}, "need the remote"),
    ],
)
def test_what_cannot_be_done_is_a_sentence(untouched: Path, fun: str, args: Any, kwargs: Any, words: str) -> None:
    outcome = run(fun, str(untouched), *args, **kwargs)
    assert outcome.retcode == 1
    assert words in outcome.value
    assert "Traceback" not in outcome.value


def test_a_key_is_used_alone_and_its_name_is_no_code(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = tmp_path / "a key; touch pwned"
    key.write_text("no key")
    ssh = tmp_path / "bin/ssh"
    ssh.parent.mkdir()
    ssh.write_text('#!/bin/sh\nprintf "%s\\n" "$@" >"$0.said"\nexit 255\n')
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", f"{ssh.parent}:{os.environ['PATH']}")
    outcome = run("clone", str(tmp_path / "mine"), "git@git.example.org:app.git", identity=[str(key)])
    assert "Unable to authenticate using identity file" in outcome.value
    said = (tmp_path / "bin/ssh.said").read_text().split("\n")
    assert str(key) in said
    assert "BatchMode=yes" in said


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
def test_somebody_else_owns_what_git_makes_for_him() -> None:
    with tempfile.TemporaryDirectory() as folder:  # those of pytest are closed to others
        shutil.chown(folder, "nobody")
        outcome = run("init", f"{folder}/app", user="nobody")
        assert outcome.retcode == 0, outcome
        assert Path(f"{folder}/app/.git").stat().st_uid == pwd.getpwnam("nobody").pw_uid


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make links of other users")
@pytest.mark.parametrize(
    "words",
    [
        ("init", "{link}"),
        ("clone", "{link}", "{repo}"),
        ("clone", "{link}/new", "{repo}"),
        ("clone", "{link}", "{repo}", "new"),
    ],
)
def test_the_minion_makes_no_repository_behind_a_link_that_a_user_has_put_there(
    repo: Path, tmp_path: Path, words: tuple[str, ...]
) -> None:
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    theirs.mkdir()
    ours.mkdir()
    link = theirs / "link"
    link.symlink_to(ours)
    for each in (theirs, link):
        os.chown(each, 65534, 65534, follow_symlinks=False)
    fun, *args = (word.format(link=link, repo=repo) for word in words)
    said = run(fun, *args)
    assert (said.retcode, "to what is not theirs" in str(said.value)) == (1, True), said
    assert list(ours.iterdir()) == []


# -- worktrees


def test_worktrees_are_added_listed_removed_and_forgotten(repo: Path, tmp_path: Path) -> None:
    where, head = str(repo), git(repo, "rev-parse", "HEAD")
    assert "Preparing worktree (new branch 'hotfix')" in run("worktree_add", where, "../hotfix").value
    run("worktree_add", where, f"{tmp_path}/second", branch="other", ref="v1")
    run("worktree_add", where, f"{tmp_path}/loose", detach=True)
    row = {"stale": False, "HEAD": head, "detached": False}
    listed = run("list_worktrees", where).value
    assert listed == {
        where: {**row, "branch": "main"},
        f"{tmp_path}/hotfix": {**row, "branch": "hotfix"},
        f"{tmp_path}/second": {**row, "branch": "other"},
        f"{tmp_path}/loose": {**row, "branch": None, "detached": True, "tags": ["v1"]},
    }
    assert run("worktree_rm", f"{tmp_path}/hotfix").value is True
    assert not (tmp_path / "hotfix").exists()
    assert set(run("list_worktrees", where).value) == set(listed) - {f"{tmp_path}/hotfix"}
    assert set(run("list_worktrees", where, stale=True).value) == {f"{tmp_path}/hotfix"}
    assert set(run("list_worktrees", where, all=True).value) == set(listed)
    assert "Removing worktrees/hotfix" in run("worktree_prune", where, dry_run=True).value
    run("worktree_prune", where)
    assert run("list_worktrees", where, stale=True).value == {}


def test_a_branch_of_a_worktree_is_taken_again_only_on_request(repo: Path, tmp_path: Path) -> None:
    git(repo, "branch", "hotfix")
    assert run("worktree_add", str(repo), "../hotfix").retcode == 1
    assert run("worktree_add", str(repo), "../hotfix", reset_branch=True).retcode == 0
    assert run("worktree_add", str(repo), "../again", branch="x", detach=True).retcode == 1


def test_only_a_worktree_is_removed_as_one(repo: Path, tmp_path: Path) -> None:
    assert "is not a git worktree" in run("worktree_rm", str(repo)).value
    assert "does not exist" in run("worktree_rm", f"{tmp_path}/gone").value
    assert (repo / "a").exists()


def test_a_submodule_is_not_removed_as_a_worktree(repo: Path, tmp_path: Path) -> None:
    for name in ("plain", "worktrees/x"):
        words = ("-c", "protocol.file.allow=always", "submodule", "add", "-q", "--name", name, str(repo))
        git(repo, *words, place := name.replace("/", "-"))
        assert "is not a git worktree" in run("worktree_rm", f"{repo}/{place}").value
        assert (repo / place / "a").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
def test_a_worktree_is_removed_with_the_rights_of_the_user() -> None:
    with tempfile.TemporaryDirectory() as folder:  # those of pytest are closed to others
        shutil.chown(folder, "nobody")
        for name, owner in (("ours", "root"), ("theirs", "nobody")):
            parent = Path(folder, name)
            (parent / "tree").mkdir(parents=True)
            (parent / "tree/.git").write_text("gitdir: /gone/.git/worktrees/tree\n")
            for each in (parent, parent / "tree"):
                shutil.chown(each, owner)
        assert "could not be deleted" in run("worktree_rm", f"{folder}/ours/tree", user="nobody").value
        assert Path(folder, "ours/tree/.git").exists()
        assert run("worktree_rm", f"{folder}/theirs/tree", user="nobody").value is True
        assert not Path(folder, "theirs/tree").exists()


def test_a_merge_can_be_looked_at_before(repo: Path) -> None:
    git(repo, "checkout", "-q", "-b", "one")
    (repo / "a").write_text("changed\n")
    git(repo, "commit", "-qam", "one")
    git(repo, "checkout", "-q", "-b", "two", "v1")
    (repo / "b").write_text("b\n")
    git(repo, "add", "b")
    git(repo, "commit", "-qm", "two")
    seen = run("merge_tree", str(repo), "two", "one").value
    assert "+changed" in seen
    assert run("merge_tree", str(repo), "two", "one", base="v1").value == seen
    assert git(repo, "status", "--porcelain") == ""
