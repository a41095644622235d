"""Differences between files: telling them, and applying them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from saltlite.errors import CommandExecutionError, SaltInvocationError
from saltlite.plugins.modules._safe_files import checked_path, refuse_strange_links, regular, shown

from ._text import diff, is_binary, lines_of, read_text

if TYPE_CHECKING:
    from saltlite.loader.hints import __salt__

_OPTIONS = ("--forward", "-N"), ("--reject-file", "-r"), ("--strip", "-p")


def patch(
    originalfile: str, patchfile: str, options: str = "", dry_run: bool = False, test: bool = False
) -> dict[str, Any]:
    """
    Apply a patch to a file, or to the files of a folder: what the program ``patch`` said, as ``cmd.run_all`` does.

    A patch of which a part does not fit is not applied at all; the return code is then not 0. The names in a patch for
    a folder count below that folder, unless ``options`` has a ``-p``. ``dry_run`` and ``test`` only tell.

    CLI Example::

        saltlite '*' file.patch /opt/file.txt /tmp/file.txt.patch
        saltlite '*' file.patch /srv/app /tmp/app.patch options=-p1
    """
    place, source = (os.path.abspath(checked_path(path)) for path in (originalfile, patchfile))
    refuse_strange_links(place)
    folder = os.path.isdir(place)
    if not folder:
        regular(place)
    if regular(source) is None:
        raise CommandExecutionError(f"There is no file {shown(source)}.")
    given = _words(options)
    command = ["patch", *given, *_unless_given(given, folder=folder), "-i", source]
    command += ["-d", place] if folder else ["--", place]
    tried: dict[str, Any] = __salt__["cmd.run_all"]([command[0], "--dry-run", *command[1:]], python_shell=False)
    if dry_run or test or tried["retcode"]:
        return tried
    done: dict[str, Any] = __salt__["cmd.run_all"](command, python_shell=False)
    return done


def get_diff(  # noqa: PLR0913, PLR0917 - Salt's signature
    file1: str,
    file2: str,
    saltenv: str = "base",
    show_filenames: bool = True,
    show_changes: bool = True,
    template: bool = False,
    source_hash_file1: str | None = None,
    source_hash_file2: str | None = None,
    ignore_ordering: bool = False,
    ignore_whitespace: bool = False,
    ignore_comment_characters: str | list[str] | None = None,
) -> str | tuple[bool, str]:
    """
    A unified diff of two files, each on this minion or ``salt://``; an empty text for equal ones.

    ``show_filenames=False`` leaves the names out, ``show_changes=False`` says only that there are differences. With
    ``ignore_ordering``, ``ignore_whitespace`` (around lines) or ``ignore_comment_characters`` (what stands behind one
    of them) the answer is whether differences are left then, and the diff. With ``template=True`` the differences are
    not told where the option ``obfuscate_templates`` is set. ``source_hash_file1`` and ``source_hash_file2`` are for
    files from the web, which are not fetched here: giving one is an error.

    CLI Example::

        saltlite '*' file.get_diff /etc/vim/vimrc salt://vimrc
        saltlite '*' file.get_diff /tmp/foo.txt /tmp/bar.txt
    """
    if source_hash_file1 or source_hash_file2:
        raise SaltInvocationError("A source_hash is for files from the web, and those are not fetched here.")
    marks = [ignore_comment_characters] if isinstance(ignore_comment_characters, str) else ignore_comment_characters
    conditional = bool(ignore_ordering or ignore_whitespace or marks)
    places = [_local(each, saltenv) for each in (file1, file2)]
    old, new = (read_text(place, binary_too=True)[0] for place in places)
    if old == new:
        return (False, "") if conditional else ""
    if template and __salt__["config.option"]("obfuscate_templates"):
        return "<Obfuscated Template>"
    if not show_changes:
        return "<show_changes=False>"
    kinds = _binary_change(old, new)
    if kinds:
        return kinds
    names = [shown(place) for place in places] if show_filenames else ["", ""]
    text = diff(lines_of(old), lines_of(new), *names)
    if not conditional:
        return text
    return _differ(lines_of(old), lines_of(new), marks or [], strip=ignore_whitespace), text


def _words(options: str) -> list[str]:
    from shlex import split

    try:
        return split(str(options))
    except ValueError as error:
        raise SaltInvocationError(f"options={options!r} cannot be split into words: {error}.") from error


def _unless_given(given: list[str], *, folder: bool) -> list[str]:
    """What patch gets besides the options of the caller: no questions, and no file of what did not fit."""
    defaults = ["--forward", "--reject-file=-", *(["--strip=0"] if folder else [])]
    return [
        default
        for default, (long, short) in zip(defaults, _OPTIONS, strict=False)
        if not any(word.startswith((long, short)) for word in given)
    ]


def _local(name: str, saltenv: str) -> str:
    """The path on this minion of a file of either side."""
    if not str(name).startswith("salt://"):
        place = checked_path(str(name).removeprefix("file://"))
    else:
        place = __salt__["cp.cache_file"](name, saltenv)
    if not place or regular(place) is None:
        raise CommandExecutionError(f"File {shown(str(name))} not found")
    return place


def _binary_change(old: str, new: str) -> str:
    was, will = (is_binary(text.encode(errors="surrogateescape")) for text in (old, new))
    if was and will:
        return "Replace binary file"
    if was:
        return "Replace binary file with text file"
    return "Replace text file with binary file" if will else ""


def _differ(old: list[str], new: list[str], marks: list[str], *, strip: bool) -> bool:
    """Whether lines are on one side only, in any order, when what stands behind a mark does not count."""
    return _significant(old, marks, strip=strip) != _significant(new, marks, strip=strip)


def _significant(lines: list[str], marks: list[str], *, strip: bool) -> list[str]:
    kept = []
    for line in lines:
        text = line
        for mark in filter(None, marks):
            text = text.partition(str(mark))[0]
        kept.append(text.strip() if strip else text)
    return sorted(filter(None, kept))
