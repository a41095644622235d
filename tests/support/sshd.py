"""A real sshd on a port of this machine, with keys, a configuration and users' keys of its own.

Started as root it also has users of its own: in its own mount namespace the files of users, passwords and sudo are
others. Nothing on the machine changes. Such users have to get at `folder`, which pytest's folders do not allow.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.fleet import free_port
from tests.support.own_etc import own_etc

SSHD = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
"""The daemon of Debian's `openssh-server`; None where it is not installed."""

USER, PASSWORD = "salty", "correct horse ä"
"""Who may log in beside root, with the key or the password; may use sudo as root and as `daemon`."""

_STARTED_WITHIN_S = 60.0


@dataclass
class Sshd:
    """A running daemon; who has the key in `key` may log in."""

    folder: Path
    port: int
    key: Path
    known_hosts: Path
    process: subprocess.Popen[bytes]

    def pillar(self, **more: Any) -> dict[str, Any]:
        """The pillar of a host that reaches it, with a key and a known host key."""
        return {
            "host": "127.0.0.1",
            "port": self.port,
            "user": pwd.getpwuid(os.geteuid()).pw_name,
            "priv": str(self.key),
            "identities_only": True,
            "known_hosts_file": str(self.known_hosts),
            "timeout": 10,
            **more,
        }

    def log(self) -> str:
        """What the daemon wrote."""
        return (self.folder / "log").read_text()

    def logins(self) -> int:
        """How many connections have been let in."""
        return self.log().count("Accepted ")

    def signal_all(self, number: int) -> None:
        """Send a signal to the daemon and everything that it started."""
        below = [self.process.pid]
        for pid in below:
            below.extend(children(pid))
        for pid in below:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def stop(self) -> None:
        """End it and everything that it started."""
        self.signal_all(signal.SIGCONT)
        self.signal_all(signal.SIGKILL)
        self.process.wait()


def children(pid: int) -> list[int]:
    """The processes that a process has started."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdecimal():
            try:
                stat = Path(f"/proc/{name}/stat").read_text()
            except OSError:
                continue
            if int(stat.rpartition(")")[2].split()[1]) == pid:
                found.append(int(name))
    return found


def make_key(path: Path, passphrase: str = "") -> Path:
    """A new key pair at `path` and `path`.pub."""
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", passphrase, "-f", str(path)], check=True)
    return path


def start_sshd(folder: Path, *, settings: str = "", systemd: bool = False) -> Sshd:
    """A daemon with everything below `folder`; `settings` are lines of sshd_config, which come before the others.

    With `systemd`, started as root, the host looks as if systemd ran on it; otherwise as if it did not.
    """
    assert SSHD is not None
    folder.mkdir(exist_ok=True)
    key, host_key, port = make_key(folder / "key"), make_key(folder / "host_key"), free_port()
    authorized = folder / "authorized_keys"
    authorized.write_text((folder / "key.pub").read_text())
    known_hosts = folder / "known_hosts"
    known_hosts.write_text(f"[127.0.0.1]:{port} {host_key.with_suffix('.pub').read_text()}")
    config, log = folder / "sshd_config", folder / "log"
    config.write_text(
        f"{settings}\nPort {port}\nListenAddress 127.0.0.1\nHostKey {host_key}\nPidFile none\nUsePAM no\n"
        f"AuthorizedKeysFile {authorized}\nPermitRootLogin yes\nStrictModes no\nLogLevel INFO\n"
    )
    argv = [SSHD, "-D", "-f", str(config), "-E", str(log)]
    if os.geteuid() == 0:
        argv = [
            "unshare",
            "--mount",
            "--propagation",
            "private",
            "sh",
            "-ec",
            _surroundings(folder, systemd=systemd),
            "sh",
            *argv,
        ]
    server = Sshd(folder, port, key, known_hosts, subprocess.Popen(argv))
    until = time.monotonic() + _STARTED_WITHIN_S
    while "Server listening" not in (log.read_text() if log.exists() else ""):
        assert server.process.poll() is None, f"sshd ended: {log.read_text() if log.exists() else ''}"
        assert time.monotonic() < until, "sshd does not listen"
        time.sleep(0.02)
    return server


def _surroundings(folder: Path, *, systemd: bool) -> str:
    """A shell script that puts other files in the place of the machine's, and then runs its arguments."""
    users = [line.split(":") for line in Path("/etc/passwd").read_text().splitlines()]
    plain = [[*line[:-1], "/bin/sh"] if line[0] == "root" else line for line in users]
    home = folder / "home"
    home.mkdir()
    os.chown(home, 61_000, 61_000)
    digest = subprocess.run(
        ["openssl", "passwd", "-6", "-stdin"], input=PASSWORD, capture_output=True, text=True, check=True
    ).stdout.strip()
    files = {
        "passwd": "".join(f"{':'.join(line)}\n" for line in plain) + f"{USER}:x:61000:61000::{home}:/bin/sh\n",
        "group": Path("/etc/group").read_text() + f"{USER}:x:61000:\n",
        "shadow": f"root:*:19000::::::\nsshd:*:19000::::::\ndaemon:*:19000::::::\n{USER}:{digest}:19000::::::\n",
        "sudoers": f"Defaults !use_pty\nroot ALL=(ALL) NOPASSWD: ALL\n{USER} ALL=(root, daemon) NOPASSWD: ALL\n",
    }
    # Debian's sshd wants the first folder, which only its unit makes; the other says that systemd runs.
    run = "/run/sshd /run/systemd/system" if systemd else "/run/sshd"
    commands = [f"mount -t tmpfs -o mode=755 tmpfs /run; mkdir -p -m 755 {run}", own_etc(folder / "etc", files)]
    return "\n".join([*commands, 'exec "$@"'])
