"""The packages that .ci/packages builds: installed, used, upgraded and purged by the real dpkg and dnf."""

from __future__ import annotations

import json
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.tree import in_tree, is_possible

ROOT = Path(__file__).resolve().parents[2]
PYTHON = "/usr/bin/python3.11"
MISSING = [
    name
    for name, there in {
        "root's rights and overlayfs": is_possible(),
        PYTHON: Path(PYTHON).exists(),
        "dnf": shutil.which("dnf"),
        "createrepo_c": shutil.which("createrepo_c"),
        "nfpm": shutil.which("nfpm") or (Path(sys.executable).parent / "nfpm").exists(),
    }.items()
    if not there
]
pytestmark = [
    pytest.mark.skipif(bool(MISSING), reason=f"not on this machine: {', '.join(MISSING)}"),
    pytest.mark.timeout(600),
]

LEFT = """
find /etc /opt /run /usr/bin /usr/lib/systemd /usr/lib/sysusers.d /usr/lib/tmpfiles.d /usr/share/doc /usr/share/man \
    /usr/share/zsh /var/cache/saltlite* /var/lib/saltlite /var/log/saltlite -newer /tmp/before -iname '*saltlite*' \
    2>/dev/null | grep ."""
# Debian's dpkg, and the files of this machine, have no package for rpm to depend on.
STAND_IN = {"name": "stand-in", "arch": "all", "version": "1", "provides": [PYTHON, "systemd"]}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the packages of two releases, `1` and `2`, each of both formats, and repositories for dnf."""
    folder = tmp_path_factory.mktemp("packages")
    program = runpy.run_path(str(ROOT / ".ci/packages"))
    (folder / "staged").mkdir()
    program["staged"](folder / "staged", PYTHON)
    for release in ("1", "2"):
        program["build"](folder / "staged", PYTHON, folder / release, ("deb", "rpm"), release)
        subprocess.run(["createrepo_c", "-q", folder / release], check=True)
    return folder


INSTALLED = """
saltlite --version
saltlite-minion --version
id -un saltlite saltlite-link saltlite-api
stat -c '%a %U %n' /etc/saltlite/master /etc/saltlite/minion /etc/saltlite/api /run/saltlite
grep -h ^ExecStart= /usr/lib/systemd/system/saltlite-*.service | sort
ls /usr/share/man/man1 /usr/share/man/man8 | grep saltlite
bash -n /usr/share/bash-completion/completions/saltlite
grep -c '' /etc/logrotate.d/saltlite
cd /tmp && saltlite demo -- '*' test.ping
find /opt/saltlite -name '*.pyc' | wc -l
"""


def check_installed(out: str) -> None:
    from saltlite import __version__

    for line in (
        f"saltlite {__version__}",
        f"saltlite-minion {__version__}",
        "600 root /etc/saltlite/minion",
        "755 root /run/saltlite",
        "ExecStart=/opt/saltlite/bin/saltlite-api",
        "saltlite.1",
        "saltlite-minion.8",
        "demo-3:",
    ):
        assert line in out.splitlines(), (line, out)


def test_debian_packages_are_installed_used_upgraded_and_purged(built: Path, tmp_path: Path) -> None:
    out = in_tree(
        tmp_path / "tree",
        built,
        f"""
touch -d '-1 second' /tmp/before
dpkg -i --force-unsafe-io /tmp/in/1/*.deb
{INSTALLED}
echo 'master: master.example.org' >>/etc/saltlite/minion
mkdir -p /etc/saltlite/pki/minion && touch /etc/saltlite/pki/minion/minion.key
dpkg -i --force-unsafe-io /tmp/in/2/*.deb
dpkg-query -W -f '${{Package}} ${{Version}}\\n' 'saltlite-*'
tail -n 1 /etc/saltlite/minion
saltlite --version
dpkg --purge saltlite-api saltlite-master saltlite-minion saltlite-common
echo left:
{LEFT} || echo nothing
""",
    )
    check_installed(out)
    assert "master: master.example.org" in out, out
    assert "saltlite-common 0.1.0-2" in out, out
    assert out.rpartition("left:\n")[2] == "nothing\n"


def test_rpm_packages_are_installed_used_upgraded_and_removed_by_dnf(built: Path, tmp_path: Path) -> None:
    description = tmp_path / "stand-in.json"
    description.write_text(json.dumps(STAND_IN))
    nfpm = shutil.which("nfpm") or str(Path(sys.executable).parent / "nfpm")
    subprocess.run([nfpm, "package", "-f", description, "-p", "rpm", "-t", built / "1"], check=True)
    subprocess.run(["createrepo_c", "-q", built / "1"], check=True)
    dnf = "dnf -q -y --releasever=1 --disablerepo='*' --nogpgcheck --setopt=install_weak_deps=0 --setopt=reposdir=/none"
    repositories = " ".join(f"--repofrompath=r{n},file:///tmp/in/{n} --enablerepo=r{n}" for n in (1, 2))
    out = in_tree(
        tmp_path / "tree",
        built,
        f"""
touch -d '-1 second' /tmp/before
{dnf} --repofrompath=r1,file:///tmp/in/1 --enablerepo=r1 install saltlite-master saltlite-minion saltlite-api
{INSTALLED}
echo 'master: master.example.org' >>/etc/saltlite/minion
{dnf} {repositories} upgrade
rpm -qa 'saltlite-*'
tail -n 1 /etc/saltlite/minion
saltlite --version
{dnf} {repositories} remove saltlite-api saltlite-master saltlite-minion saltlite-common
ls /etc/saltlite
echo left:
{LEFT} || echo nothing
""",
    )
    check_installed(out)
    assert "master: master.example.org" in out, out
    assert "saltlite-common-0.1.0-2.x86_64" in out, out
    # What an administrator changed stays, as rpm's users expect.
    assert out.rpartition("left:\n")[2].split() == ["/etc/saltlite"], out
    assert "minion.rpmsave" in out, out
