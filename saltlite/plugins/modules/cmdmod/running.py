"""Commands: run to their end, in the background, and in another root."""

from __future__ import annotations

import os
import shlex
from typing import Any

from saltlite.errors import CommandExecutionError, SaltInvocationError

from ._execution import DEFAULT_SHELL, circumstances, execute, execute_in_background, rendered

_IN_CHROOT = """
root=$1 spec=$2 cwd=$3 shell=$4 text=$5
shift 5
for each in /dev /proc /sys; do
    if [ -d "$root$each" ]; then mount --rbind "$each" "$root$each"; fi
done
for each in "$@"; do
    mkdir -p "$root$each"
    mount --bind "$each" "$root$each"
done
exec chroot ${spec:+"--userspec=$spec"} "$root" "$shell" -c 'cd -- "$1" && exec "$2" -c "$3"' sh "$cwd" "$shell" "$text"
"""


def run(
    cmd: str | list[str],
    cwd: str | None = None,
    stdin: str | None = None,
    runas: str | None = None,
    group: str | None = None,
    **kwargs: Any,
) -> str:
    """
    Run a command and return its output, error output included; with ``bg=True`` it is started as ``run_bg`` does.

    CLI Example::

        saltlite '*' cmd.run "ls -l | awk '/foo/{print \\$2}'"
        saltlite '*' cmd.run 'id' runas=www-data
        saltlite '*' cmd.run 'sleep 60' timeout=5
    """
    if kwargs.pop("bg", False):
        if stdin is not None:
            raise SaltInvocationError("What runs in the background reads nothing: stdin does not go with bg=True.")
        run_bg(cmd, cwd, runas, group, **kwargs)
        return ""
    kwargs.setdefault("redirect_stderr", True)
    result: str = execute(cmd, stdin, circumstances(cwd, runas, group), kwargs)["stdout"]
    return result


def run_stdout(
    cmd: str | list[str],
    cwd: str | None = None,
    stdin: str | None = None,
    runas: str | None = None,
    group: str | None = None,
    **kwargs: Any,
) -> str:
    """
    Run a command and return its standard output only.

    CLI Example::

        saltlite '*' cmd.run_stdout "ls -l | awk '/foo/{print \\$2}'"
    """
    result: str = run_all(cmd, cwd, stdin, runas, group, **kwargs)["stdout"]
    return result


def run_stderr(
    cmd: str | list[str],
    cwd: str | None = None,
    stdin: str | None = None,
    runas: str | None = None,
    group: str | None = None,
    **kwargs: Any,
) -> str:
    """
    Run a command and return its error output only.

    CLI Example::

        saltlite '*' cmd.run_stderr 'ls /nowhere'
    """
    result: str = run_all(cmd, cwd, stdin, runas, group, **kwargs)["stderr"]
    return result


def run_all(
    cmd: str | list[str],
    cwd: str | None = None,
    stdin: str | None = None,
    runas: str | None = None,
    group: str | None = None,
    **kwargs: Any,
) -> dict[str, Any]:
    """
    Run a command and return ``pid``, ``retcode``, ``stdout`` and ``stderr``.

    CLI Example::

        saltlite '*' cmd.run_all 'ls -l /etc/hosts'
    """
    kwargs.setdefault("redirect_stderr", False)
    return execute(cmd, stdin, circumstances(cwd, runas, group), kwargs)


def retcode(
    cmd: str | list[str],
    cwd: str | None = None,
    stdin: str | None = None,
    runas: str | None = None,
    group: str | None = None,
    **kwargs: Any,
) -> int:
    """
    Run a command and return its return code.

    CLI Example::

        saltlite '*' cmd.retcode 'test -e /etc/hosts'
    """
    result: int = run_all(cmd, cwd, stdin, runas, group, **kwargs)["retcode"]
    return result


def shell(
    cmd: str | list[str],
    cwd: str | None = None,
    stdin: str | None = None,
    runas: str | None = None,
    group: str | None = None,
    **kwargs: Any,
) -> str:
    """
    Run a command through the shell, also when another module calls, and return its output.

    CLI Example::

        saltlite '*' cmd.shell 'echo $HOME | wc -c'
    """
    return run(cmd, cwd, stdin, runas, group, **{**kwargs, "python_shell": True})


def run_bg(
    cmd: str | list[str],
    cwd: str | None = None,
    runas: str | None = None,
    group: str | None = None,
    **kwargs: Any,
) -> dict[str, int]:
    """
    Start a command, and do not wait for it: its ``pid``.

    It goes on when the job has ended and is no part of it, so neither a time limit nor ``saltutil.kill_job`` ends it.
    It reads nothing, and what it says is dropped.

    CLI Example::

        saltlite '*' cmd.run_bg 'sleep 10; systemctl restart saltlite-minion'
    """
    if kwargs.get("timeout") is not None:
        raise SaltInvocationError("What runs in the background has no time limit: put `timeout 60` before the command.")
    return {"pid": execute_in_background(cmd, circumstances(cwd, runas, group), kwargs)}


def run_chroot(  # noqa: PLR0913 - Salt's arguments
    root: str,
    cmd: str | list[str],
    cwd: str | None = None,
    stdin: str | None = None,
    runas: str | None = None,
    group: str | None = None,
    shell: str = DEFAULT_SHELL,
    *,
    binds: list[str] | None = None,
    **kwargs: Any,
) -> dict[str, Any]:
    """
    Run a command through the shell of a system in another folder, and return what ``run_all`` returns.

    ``/dev``, ``/proc`` and ``/sys`` of this machine are there, where the system has these folders, and so are the
    folders ``binds``. Nobody else sees these mounts, and they are gone when the command has ended. ``runas``,
    ``group``, ``cwd`` and ``shell`` are those of that system.

    CLI Example::

        saltlite '*' cmd.run_chroot /var/lib/lxc/container_name/rootfs 'sh /tmp/bootstrap.sh'
    """
    if not os.path.isabs(root) or not os.path.isdir(root):
        raise CommandExecutionError(f"There is no folder {root!r} to run a command in: give its absolute path.")
    folders = [str(path) for path in binds or []]
    if wrong := [path for path in folders if not os.path.isdir(path) or not os.path.isabs(path)]:
        raise SaltInvocationError(f"binds are absolute paths of folders, and {wrong[0]!r} is none.")
    text = shlex.join(map(str, cmd)) if isinstance(cmd, list | tuple) else str(cmd)
    spec = f"{runas or ''}:{group or ''}" if group else runas or ""
    argv = ["unshare", "--mount", "--propagation", "private", "--", DEFAULT_SHELL, "-ec", _IN_CHROOT, "sh"]
    argv += [root, spec, cwd or "/", shell, rendered(text, kwargs.pop("template", None), "base"), *folders]
    return run_all(argv, "/", stdin, **{**kwargs, "python_shell": False})
