"""Bringing one file to the content, owner and mode that it should have."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, Any, NamedTuple

from saltlite.errors import CommandExecutionError, SaltInvocationError
from saltlite.plugins.modules._safe_files import Access, checked_path, shown, write_whole

from ._backups import keep_cached
from ._content import Content, content_of, difference, drop_rendered, mode_of, of_text
from ._paths import octal
from ._unserved import refuse_unserved
from .owning import check_perms, owner_numbers
from .placing import makedirs as make_folders

if TYPE_CHECKING:
    from saltlite.loader.hints import __opts__

_PRIVATE = 0o600


class _Wanted(NamedTuple):
    """What the file is to be; `content` None leaves what is there, or makes an empty file."""

    path: str
    content: Content | None
    user: str | int | None
    group: str | int | None
    mode: str | int | None
    attrs: str | None
    follow_symlinks: bool
    show_changes: bool
    backup: bool

    def difference(self, old: str | None) -> str:
        """What a person is told of the change."""
        if not self.show_changes:
            return "<show_changes=False>"
        return difference(old, self.content or Content())


def manage_file(  # noqa: PLR0913, PLR0917 - Salt's arguments
    name: str, sfn: str, ret: dict[str, Any] | None, source: str | None, source_sum: dict[str, str] | None,
    user: str | int | None, group: str | int | None, mode: str | int | None, attrs: str | None, saltenv: str,
    backup: str | bool | None, makedirs: bool = False, template: str | None = None, show_changes: bool = True,
    contents: str | None = None, dir_mode: str | int | None = None, follow_symlinks: bool = True,
    skip_verify: bool = False, keep_mode: bool = False, encoding: str | None = None, encoding_errors: str = "strict",
    seuser: str | None = None, serole: str | None = None, setype: str | None = None, serange: str | None = None,
    verify_ssl: bool = True, use_etag: bool = False, signature: str | None = None, source_hash_sig: str | None = None,
    signed_by_any: str | list[str] | None = None, signed_by_all: str | list[str] | None = None,
    keyring: str | None = None, gnupghome: str | None = None, ignore_ordering: bool = False,
    ignore_whitespace: bool = False, ignore_comment_characters: str | list[str] | None = None,
    new_file_diff: bool = False, sig_backend: str = "gpg", *, test: bool = False,
) -> dict[str, Any]:  # fmt: skip
    """
    Bring a file to its content, owner and mode: ``name``, ``changes``, ``comment`` and ``result``.

    The content is ``contents``, or ``sfn`` as ``file.get_managed`` gave it, or ``source``. The file is made where it is
    not there, with ``makedirs`` also the folders above it, of mode ``dir_mode``. ``backup=minion`` keeps a copy of the
    old file in the minion's cache. ``template`` is of no effect: ``file.get_managed`` has rendered ``sfn``.

    CLI Example::

        saltlite '*' file.manage_file /etc/httpd.conf '' '{}' salt://http/httpd.conf '{hash_type: md5, hsum: 0123}' \\
            root root 755 '' base ''
    """
    refuse_unserved(locals())
    path = checked_path(name)
    told = ret or {"name": name, "changes": {}, "comment": "", "result": True}
    present = path if os.path.isfile(path) and (follow_symlinks or not os.path.islink(path)) else ""
    try:
        content = _new_content(contents, encoding, encoding_errors)
        if content is None and (source or sfn):
            content = content_of(sfn, source, source_sum or {}, saltenv, present, verify=not skip_verify)
            if keep_mode and source:
                mode = mode_of(source, saltenv)
        wanted = _Wanted(
            path, content, user, group, mode, attrs or None, follow_symlinks, show_changes, _keeps_copies(backup)
        )
        if os.path.isdir(path):
            told["result"], told["comment"] = False, f"{shown(path)} is a folder."
        elif not os.path.lexists(path):
            _make(wanted, told, dir_mode if makedirs else None, makedirs=makedirs, diff=new_file_diff, test=test)
        else:
            _change(wanted, told, test=test)
    except (CommandExecutionError, SaltInvocationError) as error:
        told["result"], told["comment"] = False, str(error)
    finally:
        drop_rendered(sfn or "")
    return told


def _new_content(contents: str | bytes | None, encoding: str | None, errors: str) -> Content | None:
    if contents is None:
        return None
    try:
        return of_text(contents, encoding, errors)
    except (LookupError, UnicodeError) as error:
        raise SaltInvocationError(f"The contents cannot be written as {encoding}: {error}.") from error


def _keeps_copies(backup: str | bool | None) -> bool:
    return str(backup or __opts__.get("backup_mode", "")) in {"minion", "both", "True"}


def _make(wanted: _Wanted, told: dict[str, Any], dir_mode: Any, *, makedirs: bool, diff: bool, test: bool) -> None:
    """Make a file that is not there."""
    folder = os.path.dirname(wanted.path)
    if not os.path.isdir(folder) and not makedirs:
        raise CommandExecutionError("Parent directory not present")
    _, _, wrong = owner_numbers(wanted.user, wanted.group)
    if wrong:
        raise CommandExecutionError(wrong.strip())
    if wanted.content is None:
        told["changes"]["new"] = f"file {shown(wanted.path)} created"
    else:
        told["changes"]["diff"] = wanted.difference(None) if diff else "New file"
    if test:
        told["result"], told["comment"] = None, f"File {shown(wanted.path)} not updated"
        return
    make_folders(wanted.path, wanted.user, wanted.group, dir_mode or _folder_mode(wanted.mode))
    # Nobody reads it before it has its own mode and owner.
    access = Access(mode=_PRIVATE) if wanted.mode not in (None, "") else None
    write_whole(wanted.path, (wanted.content or Content()).pieces(), access=access)
    _permit(wanted, told, test=False)
    told["comment"] = told["comment"] or ("Empty file" if wanted.content is None else _updated(wanted))


def _change(wanted: _Wanted, told: dict[str, Any], *, test: bool) -> None:
    """Bring a file that is there to what it should be."""
    itself = os.path.islink(wanted.path) and not wanted.follow_symlinks
    # Before the content, which may be for less eyes than the old one.
    if not itself:
        _permit(wanted, told, test=test)
    if wanted.content is not None and (itself or not wanted.content.is_in(wanted.path)):
        said = "Replace symbolic link with regular file" if itself else wanted.difference(wanted.path)
        told["changes"]["diff"] = said
        if not test:
            if wanted.backup and not itself:
                keep_cached(os.path.realpath(wanted.path), __opts__["cachedir"])
            access = Access(mode=_PRIVATE if wanted.mode not in (None, "") else None) if itself else None
            write_whole(wanted.path, wanted.content.pieces(), access=access, follow_symlinks=not itself)
    if itself and not test:
        _permit(wanted, told, test=False)
    if told["result"] is False:
        return
    if not told["changes"]:
        told["comment"] = f"File {shown(wanted.path)} is in the correct state"
    else:
        told["comment"] = f"File {shown(wanted.path)} not updated" if test else _updated(wanted)
        told["result"] = None if test else told["result"]


def _permit(wanted: _Wanted, told: dict[str, Any], *, test: bool) -> None:
    check_perms(
        wanted.path, told, wanted.user, wanted.group, wanted.mode or None, wanted.attrs, wanted.follow_symlinks,
        test=test,
    )  # fmt: skip


def _updated(wanted: _Wanted) -> str:
    return f"File {shown(wanted.path)} updated"


def _folder_mode(mode: Any) -> str | None:
    """The mode of folders above a file of this mode: who may read or write there may enter. None for the default."""
    if mode in (None, ""):
        return None
    bits = octal(mode) & 0o777
    enter = sum(stat.S_IXOTH << shift for shift in (0, 3, 6) if bits >> shift & 0o7)
    return f"{bits | enter:04o}"
