"""The installer that a master offers to new minions, in a tree that has neither saltlite nor an index of packages."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from saltlite.cloud.deploy.offer import NOTHING_CAME
from tests.support.fleet import Fleet, wait_until, write_config
from tests.support.tree import in_tree, is_possible

MISSING = [
    name
    for name, there in {
        "root's rights and overlayfs": is_possible(),
        "curl": shutil.which("curl"),
        # What travels has compiled wheels, of the Python that runs the tests.
        "/usr/bin/python3.11": Path("/usr/bin/python3.11").exists(),
    }.items()
    if not there
]
pytestmark = [
    pytest.mark.e2e,
    pytest.mark.timeout(600),  # of a loaded machine: pip installs, in three trees
    pytest.mark.skipif(bool(MISSING), reason=f"not on this machine: {', '.join(MISSING)}"),
]


INSTALL_S = 400.0
"""Seconds for all that an installer does, pip's work too, beside other tests."""


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    fleet = Fleet(tmp_path_factory.mktemp("fleet"))
    fleet.start_master()
    fleet.start_api()
    yield fleet
    fleet.close()


def offered(fleet: Fleet, *options: str) -> str:
    """The command for a new minion."""
    made = fleet.cli("key", "token", "create", "--install", "--address", "127.0.0.1", *options)
    assert made.code == 0, made
    return made.out.strip()


def offers(fleet: Fleet) -> Path:
    """The folder that the API serves."""
    return fleet.root("master") / "var/lib/saltlite/install"


def tried(folder: Path, command: str, more: str = "") -> str:
    """What the command prints in a new tree, its exit code, and what `more` prints."""
    given = folder / "given"
    given.mkdir(exist_ok=True)
    return in_tree(folder / "tree", given, f"set +e\n{command}\necho code $?\n{more}")


def test_one_command_makes_a_machine_a_minion_that_answers(master: Fleet, tmp_path: Path) -> None:
    looks = """
ls /etc/saltlite/cloud /tmp
stat -c '%a %U %n' /opt/saltlite /etc/saltlite/minion.d/90-cloud.conf
/usr/local/bin/saltlite-call --local test.version
tr '\\0' '\\n' </proc/$(cat /etc/saltlite/cloud/pid)/environ | grep -c slj1
"""
    out = answers(master, tmp_path, tried, "web1", f"{offered(master)} -s -- --id web1", looks)
    assert "saltlite: this machine is a minion of 127.0.0.1:" in out
    lines = out.splitlines()
    assert {"code 0", "755 root /opt/saltlite", "600 root /etc/saltlite/minion.d/90-cloud.conf"} <= set(lines), out
    # The token is used up and gone, and so is the upload; no process of the minion was given it.
    assert "join_token" not in lines, out
    assert not [line for line in lines if line.startswith("tmp.")], out
    assert lines[-1] == "0", out


def answers(
    master: Fleet, folder: Path, typed: Callable[[Path, str, str], str], name: str, line: str, looks: str = ""
) -> str:
    """Type the line in a new tree until the minion that it makes has answered a ping; what the tree printed."""
    # The minion ends with the tree, so the tree waits until the master has asked.
    waits = "touch /tmp/in/installed\nuntil [ -e /tmp/in/done ]; do sleep 0.1; done\n"
    given = folder / "given"
    with ThreadPoolExecutor(1) as pool:
        tree = pool.submit(typed, folder, line, f"{looks}{waits}")
        try:
            wait_until(lambda: (given / "installed").exists() or tree.done(), "the installer ended", INSTALL_S)
            ping = master.cli(name, "test.ping", "--out", "json")
        finally:
            given.mkdir(exist_ok=True)
            (given / "done").touch()
        out = tree.result()
    assert ping.json() == {name: True}, out
    return out


_LEFT = """
find /opt /etc/saltlite /tmp /usr/local/bin/saltlite* -mindepth 1 ! -path '/tmp/in*' -type f 2>/dev/null | sort
id saltlite 2>/dev/null || echo no user
"""


def refuses(folder: Path, command: str, sentence: str, code: int = 1, kept: str = "") -> None:
    """The command fails with the sentence in a new tree, and leaves these files."""
    out = tried(folder, f"find /opt /etc/saltlite -mindepth 1 -delete 2>/dev/null; {command}", _LEFT)
    assert sentence in out, out
    assert out.endswith(f"code {code}\n{kept}no user\n"), out


def test_every_refusal_is_a_sentence_and_leaves_nothing(master: Fleet, tmp_path: Path) -> None:
    line = offered(master, "--uses", "9")
    bundle = max(offers(master).glob("bundle-*.tar"), key=lambda path: path.stat().st_mtime)
    whole = bundle.read_bytes()

    def refused(command: str, sentence: str, code: int = 1) -> None:
        refuses(tmp_path, command, sentence, code)

    refused(line.replace("sha256//", "sha256//AAAA"), "curl: (90)", code=0)
    refused(line.replace("JOIN_TOKEN=slj1.", "JOIN_TOKEN=slj2."), "JOIN_TOKEN is not the join token")
    refused(f"{line} -s -- --name x", "--name is not expected")
    refused(f"mount -t tmpfs -o size=9m tmpfs /opt; {line}", "saltlite: nothing was installed")
    bundle.write_bytes(whole[:-5000] + b"x" * 5000)
    refused(line, "the bundle was altered on its way, or cut off: nothing was installed")
    bundle.write_bytes(whole)
    for offer in offers(master).glob("*.json"):
        offer.write_text(offer.read_text().replace('"expires_at": ', '"expires_at": -'))
    refused(line, "its join token has expired")


def test_a_token_that_is_used_up_or_revoked_is_said_at_once(master: Fleet, tmp_path: Path) -> None:
    once = offered(master)
    master.start_minion("first", join_token=once.partition("JOIN_TOKEN=")[2].split()[0])
    master.wait_up("first")
    # The master knows the key now, so a later try has the same.
    kept = "".join(f"/etc/saltlite/pki/minion/{name}\n" for name in ("fleet.pin", "minion.key", "minion_id"))
    refuses(tmp_path, once, "the join token: it is used up, was revoked, has expired, or is not for the id ", kept=kept)
    others = f"{offered(master, '--id', 'web*')} -s -- --id db1"
    kept = kept.rpartition("/etc")[0]  # the id is in the configuration
    refuses(tmp_path, others, "was revoked, has expired, or is not for the id db1\n", kept=kept)
    leaked = offered(master, "--uses", "9")
    assert master.cli("key", "token", "revoke", leaked.partition("/install/")[2].split()[0]).code == 0
    refuses(tmp_path, leaked, "its join token has expired, was revoked,")


_ONLY_BUSYBOX = """
cp /bin/busybox /tmp/busybox
/tmp/busybox find /usr/bin /usr/sbin /usr/local/bin /usr/local/sbin ! -type d \
    ! -name 'python3*' ! -name 'user*' ! -name nologin ! -name openssl -exec /tmp/busybox rm -f {} +
/tmp/busybox cp /tmp/busybox /bin/busybox
for applet in $(/bin/busybox --list); do
    /bin/busybox ln -s /bin/busybox "/bin/$applet"
done
"""
"""All programs are BusyBox's, but for what Debian's build of it lacks: useradd, and TLS (it asks openssl)."""


def only_busybox(folder: Path, command: str, more: str = "") -> str:
    """As `tried`, where all programs are BusyBox's, the shell as well."""
    given = folder / "given"
    given.mkdir(exist_ok=True)
    (given / "typed").write_text(f"{command}\necho code $?\n{more}")
    return in_tree(folder / "tree", given, f"{_ONLY_BUSYBOX}\nexec sh /tmp/in/typed")


@pytest.mark.skipif(shutil.which("busybox") is None, reason="not on this machine: busybox")
def test_the_command_for_wget_makes_a_machine_with_busybox_a_minion(master: Fleet, tmp_path: Path) -> None:
    line = f"{offered(master, '--wget')} -s -- --id alpine1"
    out = answers(master, tmp_path, only_busybox, "alpine1", line)
    assert "saltlite: this machine is a minion of 127.0.0.1:" in out
    assert "code 0" in out.splitlines(), out


@pytest.mark.skipif(shutil.which("busybox") is None, reason="not on this machine: busybox")
def test_the_command_for_wget_runs_nothing_but_the_installer_that_was_offered(master: Fleet, tmp_path: Path) -> None:
    line = offered(master, "--wget")
    (offer,) = offers(master).glob(f"{line.partition('/install/')[2].split()[0]}.json")
    whole = offer.read_text()
    altered = whole.replace("umask 022", "umask 023")
    assert altered != whole
    offer.write_text(altered)
    gone = line.replace(f"/install/{offer.stem}", "/install/aaaaaaaa")
    looks = "\nls -d /opt/saltlite /etc/saltlite 2>/dev/null; echo"
    out = only_busybox(tmp_path, f"{line}{looks} altered\n{gone}{looks} gone")
    assert out == (
        f"{NOTHING_CAME}\naltered\nwget: server returned error: HTTP/1.1 403 Forbidden\n{NOTHING_CAME}\ngone\ncode 0\n"
    )


def test_what_the_master_serves_has_no_secret_and_does_not_outlive_its_token(master: Fleet) -> None:
    line = offered(master)
    assert line.startswith("curl -sSk --connect-timeout 10 --pinnedpubkey sha256//")
    secret = line.partition("JOIN_TOKEN=")[2].split()[0].rpartition(".")[2]
    for path in offers(master).iterdir():
        assert secret.encode() not in path.read_bytes(), path
    for offer in offers(master).glob("*.json"):
        offer.write_text(offer.read_text().replace('"expires_at": ', '"expires_at": -'))
    offered(master)
    assert [path.suffix for path in sorted(offers(master).iterdir())] in ([".json", ".tar"], [".tar", ".json"])


def test_without_the_api_nothing_is_offered_and_no_token_is_made(fleet: Fleet) -> None:
    fleet.start_master()
    write_config(fleet.folder / "master", "api", {"root_dir": str(fleet.root("master"))})
    said = fleet.cli("key", "token", "create", "--install", "--address", "127.0.0.1")
    assert (said.code, said.out) == (1, ""), said
    assert "start saltlite-api, which serves the installer" in said.err
    wrong = {
        "--address x": "--address is for --install",
        "--wget": "--wget is for --install",
        "--install --address a/b": "is not the name",
    }
    for options, sentence in wrong.items():
        said = fleet.cli("key", "token", "create", *options.split())
        assert sentence in said.err, said
    assert fleet.cli("key", "token", "list", "--out", "json").json() == {"tokens": []}
