"""The locales of this machine: list, set and generate them.

:maintainer:    The saltlite authors
:maturity:      new
:depends:       locale; locale-gen or localedef, to make one
:platform:      Linux
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from saltlite.errors import CommandNotFoundError, SaltInvocationError
from saltlite.plugins.modules import _machinefiles, _programs

if TYPE_CHECKING:
    from saltlite.loader.hints import __grains__

__virtualname__ = "locale"

_LOCALE = re.compile(
    r"(?P<language>[A-Za-z]+)(?:_(?P<territory>[A-Za-z0-9]+))?"
    r"(?:\.(?P<codeset>[A-Za-z0-9-]+))?(?:@(?P<modifier>[A-Za-z0-9]+))?(?: (?P<charmap>[A-Za-z0-9-]+))?"
)
_SETTINGS = (
    ("/etc/locale.conf", "LANG"),
    ("/etc/default/locale", "LANG"),
    ("/etc/sysconfig/i18n", "LANG"),
    ("/etc/sysconfig/language", "RC_LANG"),
)
"""Files in which distributions store the locale of the machine, and the name of the setting."""


def __virtual__() -> str:  # noqa: N807 - the name that the loader asks for
    return __virtualname__


class _Making(TypedDict, total=False):
    verbose: bool


def list_avail() -> list[str]:
    """The available locales, as ``locale -a`` lists them.

    CLI Example: ``saltlite '*' locale.list_avail``
    """
    return _programs.output(["locale", "-a"]).splitlines()


def get_locale() -> str:
    """The locale of this machine; an empty string if none is set.

    CLI Example: ``saltlite '*' locale.get_locale``
    """
    for path, name in _order():
        found = re.search(rf"""^\s*(?:export\s+)?{name}=["']?([^"'\s#]*)""", _machinefiles.read_if_there(path), re.M)
        if found and found[1]:
            return found[1]
    return ""


def set_locale(locale: str, test: bool = False) -> bool:
    """Set the locale of this machine, which takes effect at the next login.

    CLI Example: ``saltlite '*' locale.set_locale en_US.UTF-8``
    """
    text, parts = _checked(locale)
    if parts["charmap"]:
        raise SaltInvocationError(f"{locale!r} cannot be the locale of a machine: write it as en_US.UTF-8.")
    there = [(path, name) for path, name in _order() if os.path.exists(_machinefiles.place(path))]
    path, name = (there or list(_order()))[0]
    before = _machinefiles.read_if_there(path)
    expression = re.compile(rf"^(\s*(?:export\s+)?){name}=.*$", re.MULTILINE)
    value = f'"{text}"' if path.startswith("/etc/sysconfig") else text
    if expression.search(before):
        after = expression.sub(lambda found: f"{found[1]}{name}={value}", before)
    else:
        after = before + ("\n" if before and not before.endswith("\n") else "") + f"{name}={value}\n"
    if after != before and not test:
        _machinefiles.replace(path, after)
    return True


def avail(locale: str) -> bool:
    """Whether a locale is available, whatever the spelling of its code.

    CLI Example: ``saltlite '*' locale.avail en_US.UTF-8``
    """
    wanted = _normal(locale)
    return wanted is not None and wanted in map(_normal, list_avail())


def gen_locale(locale: str, test: bool = False, **kwargs: Unpack[_Making]) -> bool | dict[str, Any]:
    """Generate a locale: whether that succeeded, False if this machine does not know it.

    ``verbose=True`` returns the output of the program, in the format of ``cmd.run_all``.

    CLI Example::

        saltlite '*' locale.gen_locale en_US.UTF-8
        saltlite '*' locale.gen_locale 'en_IE.UTF-8 UTF-8'
    """
    text, parts = _checked(locale)
    name = text.partition(" ")[0]
    source = parts["language"] + (f"_{parts['territory']}" if parts["territory"] else "")
    charmap = parts["charmap"] or parts["codeset"] or "ISO-8859-1"
    if not _known(name, source + (f"@{parts['modifier']}" if parts["modifier"] else "")):
        return False
    if test:
        return True
    if os.path.exists(_machinefiles.place("/etc/locale.gen")):
        _uncomment(f"{name} {charmap}")
    if _programs.find("locale-gen"):
        argv = ["locale-gen", *([name] if __grains__.get("os") == "Ubuntu" else [])]
    elif _programs.find("localedef"):
        argv = ["localedef", "--force", "-i", source, "-f", charmap, name]
    else:
        raise CommandNotFoundError("locale-gen")
    done = _programs.run(argv)
    if kwargs.get("verbose"):
        return {"retcode": done.retcode, "stdout": done.stdout.strip(), "stderr": done.stderr.strip()}
    return done.retcode == 0


def _order() -> list[tuple[str, str]]:
    """The files in order of precedence on this system."""
    if __grains__.get("os_family") == "Debian":
        return [_SETTINGS[1], _SETTINGS[0]]
    return [_SETTINGS[0], _SETTINGS[2], _SETTINGS[3], _SETTINGS[1]]


def _checked(locale: Any) -> tuple[str, dict[str, str]]:
    match = _LOCALE.fullmatch(str(locale))
    if match is None:
        raise SaltInvocationError(f"{locale!r} cannot be a locale: write it as en_US.UTF-8.")
    return str(locale), {key: value or "" for key, value in match.groupdict().items()}


def _normal(locale: Any) -> str | None:
    match = _LOCALE.fullmatch(str(locale).strip())
    if match is None:
        return None
    code = (match["codeset"] or "").lower().replace("-", "")
    return f"{match['language']}_{(match['territory'] or '').upper()}.{code}@{match['modifier'] or ''}"


def _known(name: str, source: str) -> bool:
    supported = _machinefiles.read_if_there("/usr/share/i18n/SUPPORTED")
    if supported:
        wanted = _normal(name)
        return any(_normal(line.split()[0]) == wanted for line in supported.splitlines() if line.split())
    return source in _machinefiles.names_in("/usr/share/i18n/locales")


def _uncomment(line: str) -> None:
    """Enable a locale in /etc/locale.gen."""
    text = _machinefiles.read("/etc/locale.gen")
    lines, done = [], False
    for each in text.splitlines():
        same = each.lstrip("# \t").split() == line.split()
        if same and not done:
            done = True
            lines.append(line)
        else:
            lines.append(each)
    after = "".join(f"{each}\n" for each in (lines if done else [*lines, line]))
    if after != text:
        _machinefiles.replace("/etc/locale.gen", after)
