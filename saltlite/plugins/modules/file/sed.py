"""What the programs sed and grep do, for one file."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

from saltlite.errors import CommandExecutionError, SaltInvocationError
from saltlite.plugins.modules._safe_files import checked_path, refuse_strange_links, regular

from ._backups import suffix_of, write_keeping
from ._text import as_text, compiled, lines_of, read_text

if TYPE_CHECKING:
    from saltlite.loader.hints import __salt__

_SED_FLAGS = re.compile(r"[gpiImM0-9]*")
"""Flags of a substitution that only change the text; `e` and `w` would run commands and write other files."""

_PYTHON_FLAGS = {"I": re.I, "L": re.L, "M": re.M, "S": re.S, "U": re.U, "X": re.X}


def sed(  # noqa: PLR0913, PLR0917 - Salt's signature
    path: str,
    before: str,
    after: str,
    limit: str = "",
    backup: str | bool | None = ".bak",
    options: str = "-r -e",
    flags: str = "g",
    escape_all: bool = False,
    negate_match: bool = False,
    test: bool = False,
) -> dict[str, Any] | bool:
    """
    Substitute with the program sed: what it said, as ``cmd.run_all`` does, or False where there is no file.

    ``before`` is a regular expression of sed, ``after`` the text for it; ``limit`` another expression, for the lines
    that are looked at, or with ``negate_match`` for those that are not. ``escape_all`` takes all three literally.
    ``flags`` are those of sed's ``s`` but for ``e`` and ``w``. ``backup`` is what the name of a copy of the old file
    ends in, ``False`` for no copy. With ``test=True`` the content that the file would have stands in ``stdout``.

    Rather use ``file.replace``.

    CLI Example::

        saltlite '*' file.sed /etc/httpd/httpd.conf 'LogLevel warn' 'LogLevel info'
    """
    refuse_strange_links(checked_path(path))
    place = os.path.realpath(checked_path(path))
    if regular(place) is None:
        return False
    suffix = suffix_of(backup)
    if not re.fullmatch(r"[\w.~-]*", suffix):
        raise SaltInvocationError(f"backup={suffix!r} cannot be the end of a file name that sed makes.")
    aim = f"/{_expression(limit, escape_all)}/ " if limit else ""
    script = (
        f"{aim}{'!' if negate_match else ''}"
        f"s/{_expression(before, escape_all)}/{_replacement(after, escape_all)}/{_checked_flags(flags)}"
    )
    in_place = [] if test else [f"-i{suffix}"]
    done: dict[str, Any] = __salt__["cmd.run_all"](
        ["sed", *in_place, *options.split(), script, "--", place], python_shell=False
    )
    return done


def sed_contains(path: str, text: str, limit: str = "", flags: str = "g") -> bool:
    """
    Whether sed finds a regular expression in a line of a file; False where there is none.

    CLI Example::

        saltlite '*' file.sed_contains /etc/crontab 'mymaintenance.sh'
    """
    place = os.path.realpath(checked_path(path))
    if regular(place) is None:
        return False
    aim = f"/{_expression(limit, False)}/ " if limit else ""
    script = f"{aim}s/{_expression(text, False)}/$/p{_checked_flags(flags)}"
    done = __salt__["cmd.run_all"](
        ["sed", "-n", "-r", "-e", script, "--", place], python_shell=False, ignore_retcode=True
    )
    if done["retcode"]:
        raise CommandExecutionError(f"sed failed: {done['stderr']}")
    return bool(done["stdout"])


def psed(  # noqa: PLR0913, PLR0917 - Salt's signature
    path: str,
    before: str,
    after: str,
    limit: str = "",
    backup: str | bool | None = ".bak",
    flags: str = "gMS",
    escape_all: bool = False,
    multi: bool = False,
    test: bool = False,
) -> None:
    """
    Substitute as ``file.sed`` does, with the regular expressions of Python and without a program.

    ``flags`` are letters: ``g`` replaces all matches instead of the first, ``I`` ignores case, ``M`` lets ``^`` and
    ``$`` match at every line, ``S`` lets ``.`` match line breaks, ``U`` is always so, ``X`` allows white space in the
    expression. Lines are looked at together, or with ``limit`` one by one; ``multi`` looks at all together even then,
    if ``limit`` matches anywhere. ``test=True`` checks the call, and changes nothing.

    Rather use ``file.replace``.

    CLI Example::

        saltlite '*' file.psed /etc/httpd/httpd.conf 'LogLevel warn' 'LogLevel info'
    """
    place, suffix = checked_path(path), suffix_of(backup)
    unknown = sorted(set(flags) - {"g", *_PYTHON_FLAGS})
    if unknown:
        raise SaltInvocationError(f"flags={flags!r}: {', '.join(unknown)} is none of g, I, L, M, S, U, X.")
    wanted = re.RegexFlag(0)
    for letter in set(flags) - {"g"}:
        wanted |= _PYTHON_FLAGS[letter]
    expression = compiled(re.escape(as_text(before)) if escape_all else before, wanted)
    only = compiled(re.escape(as_text(limit)) if escape_all else limit) if limit else None
    old, way = read_text(place, to_edit=True)
    count = 0 if "g" in flags else 1
    parts = [old] if only is None or multi else lines_of(old)
    try:
        new = "".join(
            expression.sub(as_text(after), part, count=count) if only is None or only.search(part) else part
            for part in parts
        )
    except (re.error, IndexError) as error:
        raise SaltInvocationError(f"after={after!r} cannot replace a match: {error}.") from error
    if new != old and not test:
        write_keeping(place, way.encode(new), suffix=suffix)


def grep(path: str, pattern: str, *opts: str) -> dict[str, Any]:
    """
    Search with the program grep: what it said, as ``cmd.run_all`` does; the return code is 1 where nothing matches.

    ``path`` may be a glob. Options are given one by one, behind ``--`` on the command line.

    CLI Example::

        saltlite '*' file.grep /etc/passwd nobody
        saltlite '*' file.grep '/etc/sysconfig/network-scripts/*' ipaddr -- -i -l
    """
    from glob import glob

    place = os.path.abspath(checked_path(path))
    options = [as_text(each) for each in opts]
    for option in options:
        if len(option.split()) != 1:
            raise SaltInvocationError(
                "Passing multiple command line arguments in a single string is not supported, please pass the "
                f"following arguments separately: {option}"
            )
    # A pipe would keep grep waiting.
    found = [each for each in sorted(glob(place)) if os.path.isfile(each) or os.path.isdir(each)]
    if not found:
        regular(place)
    done: dict[str, Any] = __salt__["cmd.run_all"](
        ["grep", *options, "-e", as_text(pattern), "--", *(found or [place])], python_shell=False
    )
    return done


def _checked_flags(flags: Any) -> str:
    if not _SED_FLAGS.fullmatch(str(flags)):
        raise SaltInvocationError(f"flags={flags!r} holds more than the flags g, p, i, I, m, M and a number.")
    return str(flags)


def _expression(value: Any, literally: bool) -> str:
    """The regular expression between the slashes of a sed command."""
    text = _without_nul(value)
    if literally:
        text = re.sub(r"[][\\^.$()|*+?{}]", r"\\\g<0>", text)
    return _slashes(text).replace("\n", "\\n")


def _replacement(value: Any, literally: bool) -> str:
    text = _without_nul(value)
    if literally:
        text = re.sub(r"[\\&]", r"\\\g<0>", text)
    return _slashes(text).replace("\n", "\\\n")


def _slashes(text: str) -> str:
    """The text with the slashes escaped that are not."""
    return re.sub(r"(\\.)|/", lambda found: found[1] or "\\/", text, flags=re.DOTALL)


def _without_nul(value: Any) -> str:
    text = as_text(value)
    if "\0" in text:
        raise SaltInvocationError(f"{text!r} holds a NUL, and no program takes one.")
    return text
