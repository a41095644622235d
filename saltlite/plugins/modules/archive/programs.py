"""Archives by the programs tar, gzip, zip, unzip and rar."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from typing import TYPE_CHECKING, Any

from saltlite.errors import CommandExecutionError, CommandNotFoundError, SaltInvocationError
from saltlite.plugins.modules._safe_files import refuse_strange_links

from ._words import expanded, listed, operand, rendered, trimmed

if TYPE_CHECKING:
    from saltlite.loader.hints import __salt__

_TAR_DIFFERS = 1
"""What tar answers when a file changed while it was read, or differs from the one in the archive."""


def tar(
    options: str,
    tarfile: str,
    sources: str | list[str] | None = None,
    dest: str | None = None,
    cwd: str | None = None,
    template: str | None = None,
    runas: str | None = None,
) -> list[str]:
    """
    Run tar with these options, and return the lines that it prints.

    ``sources`` are what is packed or unpacked, ``dest`` is the folder that is unpacked into. ``template=jinja`` renders
    the names. Options that unpack to absolute paths are refused. Links that are in ``dest`` already are followed: into
    the folder of another user unpack as that user, with ``runas``.

    CLI Example::

        saltlite '*' archive.tar cjvf /tmp/tarfile.tar.bz2 /tmp/file_1,/tmp/file_2
        saltlite '*' archive.tar cjvf /tmp/tarfile.tar.bz2 '/tmp/file_*'
        saltlite '*' archive.tar xf /tmp/foo.tar dest=/target/directory
    """
    words = _words(options)
    if not words:
        raise SaltInvocationError("Tar options can not be empty")
    letters = _letters(words)
    long = [word.partition("=")[0] for word in words if word.startswith("--") and len(word) > 4]
    absolute = "P" in letters or any("--absolute-names".startswith(word) for word in long)
    if absolute and ("x" in letters or any(each.startswith(word) for word in long for each in ("--extract", "--get"))):
        raise SaltInvocationError("Absolute names are not kept: what is unpacked stays in its folder.")
    argv = ["tar", *words, _archive(tarfile, template, cwd, runas)]
    if dest:
        argv += ["-C", _target(dest, template, cwd)]
    names = [_source(name) for name in expanded(rendered(sources, template), cwd)]
    return _lines([*argv, *(["--", *names] if names else [])], cwd, runas, fine=(0, _TAR_DIFFERS))


def gzip(
    sourcefile: str, template: str | None = None, runas: str | None = None, options: str | None = None
) -> list[str]:
    """
    Compress a file: it is replaced by one whose name ends with ``.gz``. The lines that gzip prints.

    CLI Example::

        saltlite '*' archive.gzip /tmp/sourcefile.txt
        saltlite '*' archive.gzip /tmp/sourcefile.txt options='-9 --verbose'
    """
    return _lines(["gzip", *_words(options), "--", operand(rendered(sourcefile, template))], None, runas)


def gunzip(
    gzipfile: str, template: str | None = None, runas: str | None = None, options: str | None = None
) -> list[str]:
    """
    Uncompress a file: it is replaced by one without ``.gz``. The lines that gunzip prints.

    CLI Example::

        saltlite '*' archive.gunzip /tmp/sourcefile.txt.gz
        saltlite '*' archive.gunzip /tmp/sourcefile.txt.gz options='--verbose'
    """
    return _lines(["gunzip", *_words(options), "--", operand(rendered(gzipfile, template))], None, runas)


def cmd_zip(
    zip_file: str,
    sources: str | list[str],
    template: str | None = None,
    cwd: str | None = None,
    runas: str | None = None,
) -> list[str]:
    """
    Make a zip file with the program zip; the lines that it prints.

    CLI Example::

        saltlite '*' archive.cmd_zip /tmp/zipfile.zip /tmp/sourcefile1,/tmp/sourcefile2
        saltlite '*' archive.cmd_zip /tmp/baz.zip baz.txt cwd=/foo/bar
    """
    names = [operand(name) for name in expanded(rendered(sources, template), cwd)]
    return _lines(["zip", "-r", _archive(zip_file, template, cwd, runas), "--", *names], cwd, runas)


def cmd_unzip(  # noqa: PLR0913, PLR0917 - Salt's arguments
    zip_file: str,
    dest: str,
    excludes: str | list[str] | None = None,
    options: str | None = None,
    template: str | None = None,
    runas: str | None = None,
    trim_output: bool | int = False,
    password: str | None = None,
) -> list[str]:
    """
    Unpack a zip file with the program unzip; the lines that it prints. ``options=-o`` overwrites files.

    A password is refused: everybody on the machine could read it in the list of processes. ``archive.unzip`` takes one.

    CLI Example::

        saltlite '*' archive.cmd_unzip /tmp/zipfile.zip /srv/target/ excludes=file_1,file_2
    """
    if password:
        raise SaltInvocationError("unzip would show the password to all users of this machine: use archive.unzip.")
    words = _words(options)
    if any(re.match(r"-\w*:", word) for word in words):
        raise SaltInvocationError("Paths with .. are not kept: what is unpacked stays in its folder.")
    argv = ["unzip", *words, operand(rendered(zip_file, template)), "-d", _target(dest, template)]
    left_out = [operand(name) for name in listed(excludes)]
    return trimmed(_lines([*argv, *(["-x", *left_out] if left_out else [])], None, runas), trim_output)


def rar(
    rarfile: str,
    sources: str | list[str],
    template: str | None = None,
    cwd: str | None = None,
    runas: str | None = None,
) -> list[str]:
    """
    Make a rar file; the lines that rar prints.

    CLI Example::

        saltlite '*' archive.rar /tmp/rarfile.rar /tmp/sourcefile1,/tmp/sourcefile2
    """
    names = [operand(name) for name in expanded(rendered(sources, template), cwd)]
    return _lines(["rar", "a", "-idp", "--", _archive(rarfile, template, cwd, runas), *names], cwd, runas)


def unrar(
    rarfile: str,
    dest: str,
    excludes: str | list[str] | None = None,
    template: str | None = None,
    runas: str | None = None,
    trim_output: bool | int = False,
) -> list[str]:
    """
    Unpack a rar file; the lines that unrar prints.

    CLI Example::

        saltlite '*' archive.unrar /tmp/rarfile.rar /srv/target/ excludes=file_1,file_2
    """
    program = next((name for name in ("unrar", "rar") if shutil.which(name)), None)
    if program is None:
        raise CommandNotFoundError("unrar (neither unrar nor rar is installed on this minion)")
    left_out = [f"-x{operand(name)}" for name in listed(excludes)]
    # The slash tells the folder from the name of a member.
    into = _target(dest, template).rstrip("/") + "/"
    argv = [program, "x", "-idp", *left_out, "--", operand(rendered(rarfile, template)), into]
    return trimmed(_lines(argv, None, runas), trim_output)


def _archive(name: Any, template: str | None, cwd: str | None, runas: str | None) -> str:
    """The archive that a program writes; no link of others leads the minion to what is not theirs."""
    path = operand(rendered(name, template))
    if not runas:
        refuse_strange_links(os.path.join(cwd or "", path))
    return path


def _target(dest: Any, template: str | None, cwd: str | None = None) -> str:
    """The folder that a program unpacks into; no link of others leads it to what is not theirs."""
    into = operand(rendered(dest, template))
    refuse_strange_links(os.path.join(cwd or "", into))
    return into


def _lines(argv: list[str], cwd: str | None, runas: str | None, fine: tuple[int, ...] = (0,)) -> list[str]:
    """What the program printed. Raises CommandExecutionError with its words when it failed."""
    done = __salt__["cmd.run_all"](
        argv,
        cwd=cwd,
        runas=runas,
        python_shell=False,
        redirect_stderr=True,
        ignore_retcode=True,
        env={"LC_ALL": "C.UTF-8"},
    )
    lines: list[str] = done["stdout"].splitlines()
    if done["retcode"] not in fine:
        said = "; ".join(line.strip() for line in lines if line.strip())[:500]
        raise CommandExecutionError(f"{argv[0]} failed (return code {done['retcode']}): {said or 'it gave no reason'}")
    return lines


def _words(options: Any) -> list[str]:
    try:
        return shlex.split(str(options or ""))
    except ValueError as error:
        raise SaltInvocationError(f"The options cannot be split into words: {error}.") from error


def _source(name: str) -> str:
    if "\0" in name or "\n" in name:
        raise SaltInvocationError(f"{name!r} has a line break or NUL in it, which no source can be given by.")
    return name


def _letters(words: list[str]) -> str:
    """Short options of tar: the first word needs no hyphen. What follows the letters in a word is an argument."""
    bundles = [word for place, word in enumerate(words) if place == 0 or word.startswith("-")]
    return "".join(letters for word in bundles for letters in re.findall(r"^-?([A-Za-z]+)", word))
