"""Services of hosts with systemd, OpenRC, or scripts in /etc/init.d.

:maintainer:    The saltlite authors
:maturity:      new
:platform:      Linux
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from saltlite.errors import CommandExecutionError, SaltInvocationError

if TYPE_CHECKING:
    from saltlite.loader.hints import __resource_funcs__

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@:-]{0,254}", re.ASCII)

_CHANGE = """
if [ -d /run/systemd/system ]; then systemctl {verb} -- {name}
elif command -v rc-service >/dev/null; then rc-service {name} {verb}
elif [ -x /etc/init.d/{name} ]; then /etc/init.d/{name} {verb}
else echo 'There is no service {name}.' >&2; exit 5
fi
"""
_STATUS = """
if [ -d /run/systemd/system ]; then systemctl is-active -- {name}
elif command -v rc-service >/dev/null; then rc-service {name} status
elif [ -x /etc/init.d/{name} ]; then /etc/init.d/{name} status
else exit 3
fi
"""
_AT_BOOT = """
if [ -d /run/systemd/system ]; then systemctl {verb} -- {name}
elif command -v rc-update >/dev/null; then rc-update {openrc} {name} default
elif command -v update-rc.d >/dev/null; then update-rc.d {name} {debian}
else chkconfig {name} {redhat}
fi
"""
_ENABLED = """
if [ -d /run/systemd/system ]; then systemctl is-enabled -- {name}
elif command -v rc-update >/dev/null; then rc-update show default | grep -q '^ *{name} '
else for link in /etc/rc[2345].d/S[0-9][0-9]{name}; do [ -e "$link" ] && exit 0; done; exit 1
fi
"""
_ALL = """
if [ -d /run/systemd/system ]; then
  systemctl list-unit-files --type=service --no-legend --no-pager | sed 's/[.]service .*//'
else ls /etc/init.d
fi
"""


def get_all() -> list[str]:
    """
    The names of all services, sorted.

    CLI Example: ``saltlite web-1 service.get_all``
    """
    return sorted(set(_checked(_ALL).split()))


def status(name: str) -> bool:
    """
    Whether a service runs.

    CLI Example: ``saltlite web-1 service.status sshd``
    """
    return _holds(_STATUS, name)


def start(name: str) -> bool:
    """
    Start a service.

    CLI Example: ``saltlite web-1 service.start nginx``
    """
    return _change("start", name)


def stop(name: str) -> bool:
    """
    Stop a service.

    CLI Example: ``saltlite web-1 service.stop nginx``
    """
    return _change("stop", name)


def restart(name: str) -> bool:
    """
    Stop a service if it runs, and start it.

    CLI Example: ``saltlite web-1 service.restart nginx``
    """
    return _change("restart", name)


def reload(name: str) -> bool:
    """
    Have a service read its configuration.

    CLI Example: ``saltlite web-1 service.reload nginx``
    """
    return _change("reload", name)


def enable(name: str) -> bool:
    """
    Have a service start when the host does.

    CLI Example: ``saltlite web-1 service.enable nginx``
    """
    return _at_boot(name, enabled=True)


def disable(name: str) -> bool:
    """
    Have a service not start when the host does.

    CLI Example: ``saltlite web-1 service.disable nginx``
    """
    return _at_boot(name, enabled=False)


def enabled(name: str) -> bool:
    """
    Whether a service starts when the host does.

    CLI Example: ``saltlite web-1 service.enabled nginx``
    """
    return _holds(_ENABLED, name)


def _change(verb: str, name: str) -> bool:
    _checked(_CHANGE.format(verb=verb, name=_checked_name(name)))
    return True


def _at_boot(name: str, *, enabled: bool) -> bool:
    words = ("enable", "add", "defaults", "on") if enabled else ("disable", "delete", "disable", "off")
    verb, openrc, debian, redhat = words
    _checked(_AT_BOOT.format(verb=verb, openrc=openrc, debian=debian, redhat=redhat, name=_checked_name(name)))
    return True


def _checked(script: str) -> str:
    output: bytes = __resource_funcs__["ssh.checked"](_with_path(script))
    return output.decode(errors="replace")


def _holds(script: str, name: str) -> bool:
    """Whether a test of a service succeeds. Raises CommandExecutionError when a program for it is missing."""
    done = __resource_funcs__["ssh.run"](_with_path(script.format(name=_checked_name(name))))
    if done.retcode in {126, 127}:
        raise CommandExecutionError(done.stderr.decode(errors="replace").strip())
    return bool(done.retcode == 0)


def _with_path(script: str) -> str:
    """What root's tools need is not in the path of every login."""
    return f"PATH=$PATH:/usr/sbin:/sbin\n{script}"


def _checked_name(name: str) -> str:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise SaltInvocationError(f"{name!r} is not the name of a service.")
    return name
