"""Files with a content that comes from elsewhere: from the master, from this minion, from a template or a text."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from saltlite.errors import CommandExecutionError, SaltInvocationError
from saltlite.plugins.modules._safe_files import checked_path, shown

from ._content import content_of, difference, drop_rendered, keep_rendered, mode_of, of_text
from ._flags import read_flags
from ._paths import octal, octal_text
from ._templates import FORMATS, render
from ._text import read_text
from ._unserved import refuse_unserved
from .hashing import get_hash, get_source_sum
from .owning import flag_changes
from .stats import stats

if TYPE_CHECKING:
    from saltlite.loader.hints import __salt__

_NO_HTTP = "is on another machine: files are fetched from the master only. Put it below the master's file_roots."


def source_list(source: Any, source_hash: Any, saltenv: str) -> tuple[Any, Any]:
    """
    The first of several sources that is there, and its hash: each is an address, or a dict of an address and its hash.

    CLI Example::

        saltlite '*' file.source_list salt://http/httpd.conf '{hash_type: md5, hsum: 0123}' base
    """
    if not isinstance(source, list | tuple):
        return source, source_hash
    for each in source:
        pairs = list(each.items()) if isinstance(each, Mapping) else [(each, None)]
        if len(pairs) == 1 and _is_there(str(pairs[0][0]), saltenv):
            return pairs[0][0], pairs[0][1] or source_hash
    raise CommandExecutionError("none of the specified sources were found")


def apply_template_on_contents(
    contents: str, template: str, context: dict[str, Any] | None, defaults: dict[str, Any] | None, saltenv: str
) -> str | dict[str, Any]:
    """
    What a template makes of ``defaults`` and, before them, ``context``; the only format is ``jinja``.

    CLI Example::

        saltlite '*' file.apply_template_on_contents contents='This is a {{ template }} string.' template=jinja \\
            context='{}' defaults='{template: cool}' saltenv=base
    """
    if template not in FORMATS:
        return {"result": False, "comment": f"Specified template format {template} is not supported"}
    return render(str(contents), saltenv, {**(defaults or {}), **(context or {})})


def get_managed(  # noqa: PLR0913, PLR0917 - Salt's arguments
    name: str, template: str | None, source: str | None, source_hash: str | None, source_hash_name: str | None,
    user: str | int | None, group: str | int | None, mode: str | int | None, attrs: str | None, saltenv: str,
    context: dict[str, Any] | None, defaults: dict[str, Any] | None, skip_verify: bool = False,
    verify_ssl: bool = True, use_etag: bool = False, source_hash_sig: str | None = None,
    signed_by_any: str | list[str] | None = None, signed_by_all: str | list[str] | None = None,
    keyring: str | None = None, gnupghome: str | None = None, ignore_ordering: bool = False,
    ignore_whitespace: bool = False, ignore_comment_characters: str | list[str] | None = None,
    sig_backend: str = "gpg",
) -> tuple[str, dict[str, str], str]:  # fmt: skip
    """
    Fetch and render what a managed file is to contain: its path here, its digest, and what went wrong or an empty text.

    A file of the master that is no template is not fetched yet: its path is empty.

    CLI Example::

        saltlite '*' file.get_managed /etc/httpd.conf jinja salt://http/httpd.conf None None root root 755 None base \\
            None None
    """
    refuse_unserved(locals())
    if not source:
        return "", {}, ""
    scheme = source.partition("://")[0] if "://" in source else "file"
    local = source.removeprefix("file://")
    if scheme not in {"salt", "file"}:
        return "", {}, f"Source file {source} {_NO_HTTP}"
    if scheme == "file" and not os.path.exists(local):
        return "", {}, f"Local file source {shown(local)} does not exist"
    try:
        if scheme == "salt":
            found = __salt__["cp.hash_file"](source, saltenv)
        elif source_hash and not skip_verify:
            found = get_source_sum(name, source, source_hash, source_hash_name, saltenv)
        else:
            found = {"hsum": get_hash(local), "hash_type": "sha256"}
    except (CommandExecutionError, SaltInvocationError) as error:
        return "", {}, f"Unable to manage file: {error}"
    if not found:
        return "", {}, f"Source file {source} not found in saltenv '{saltenv}'"
    if scheme == "file" and os.path.exists(name) and os.path.samefile(local, name):
        raise SaltInvocationError("Source file cannot be the same as destination")
    here = local if scheme == "file" else ""
    if not template:
        return here, found, ""
    known = {"name": name, "source": source, "user": user, "group": group, "mode": mode, "attrs": attrs}
    return _rendered(here or source, template, saltenv, {**known, **(defaults or {}), **(context or {})})


def check_managed(  # noqa: PLR0913, PLR0917 - Salt's arguments
    name: str,
    source: str | list[Any] | None,
    source_hash: str | dict[str, str] | None,
    source_hash_name: str | None,
    user: str | int | None,
    group: str | int | None,
    mode: str | int | None,
    attrs: str | None,
    template: str | None,
    context: dict[str, Any] | None,
    defaults: dict[str, Any] | None,
    saltenv: str,
    contents: str | None = None,
    skip_verify: bool = False,
    seuser: str | None = None,
    serole: str | None = None,
    setype: str | None = None,
    serange: str | None = None,
    follow_symlinks: bool = False,
) -> tuple[bool | None, str]:
    """
    Whether a managed file is as it should be: True and a sentence; None and what would change; False and what is wrong.

    CLI Example::

        saltlite '*' file.check_managed /etc/httpd.conf salt://http/httpd.conf None None root root 755 None jinja \\
            None None base
    """
    changes = check_managed_changes(
        name, source, source_hash, source_hash_name, user, group, mode, attrs, template, context, defaults, saltenv,
        contents, skip_verify, False, seuser, serole, setype, serange, follow_symlinks=follow_symlinks,
    )  # fmt: skip
    if isinstance(changes, tuple):
        return changes
    if changes:
        lines = "".join(f"{key}: {value}\n" for key, value in changes.items())
        return None, f"The following values are set to be changed:\n{lines}"
    return True, f"The file {shown(name)} is in the correct state"


def check_managed_changes(  # noqa: PLR0913, PLR0917 - Salt's arguments
    name: str,
    source: str | list[Any] | None,
    source_hash: str | dict[str, str] | None,
    source_hash_name: str | None,
    user: str | int | None,
    group: str | int | None,
    mode: str | int | None,
    attrs: str | None,
    template: str | None,
    context: dict[str, Any] | None,
    defaults: dict[str, Any] | None,
    saltenv: str,
    contents: str | None = None,
    skip_verify: bool = False,
    keep_mode: bool = False,
    seuser: str | None = None,
    serole: str | None = None,
    setype: str | None = None,
    serange: str | None = None,
    verify_ssl: bool = True,
    follow_symlinks: bool = False,
    ignore_ordering: bool = False,
    ignore_whitespace: bool = False,
    ignore_comment_characters: str | list[str] | None = None,
    new_file_diff: bool = False,
) -> dict[str, Any] | tuple[bool, str]:
    """
    What would change of a managed file: as ``file.check_file_meta``; or False and a sentence of what is wrong.

    CLI Example::

        saltlite '*' file.check_managed_changes /etc/httpd.conf salt://http/httpd.conf None None root root 755 None \\
            jinja None None base
    """
    first, digest = source_list(source, source_hash, saltenv)
    sfn, source_sum = "", dict[str, str]()
    if contents is None:
        sfn, source_sum, wrong = get_managed(
            name, template, first, digest, source_hash_name, user, group, mode, attrs, saltenv, context,
            defaults, skip_verify,
        )  # fmt: skip
        if wrong:
            return False, wrong
        if keep_mode and first:
            mode = mode_of(first, saltenv)
    try:
        return check_file_meta(
            name, sfn, first, source_sum, user, group, mode, attrs, saltenv, contents, seuser, serole, setype, serange,
            verify_ssl, follow_symlinks, ignore_ordering, ignore_whitespace, ignore_comment_characters, new_file_diff,
        )  # fmt: skip
    finally:
        drop_rendered(sfn)


def check_file_meta(  # noqa: PLR0913, PLR0917 - Salt's arguments
    name: str,
    sfn: str,
    source: str | None,
    source_sum: dict[str, str] | None,
    user: str | int | None,
    group: str | int | None,
    mode: str | int | None,
    attrs: str | None,
    saltenv: str,
    contents: str | None = None,
    seuser: str | None = None,
    serole: str | None = None,
    setype: str | None = None,
    serange: str | None = None,
    verify_ssl: bool = True,
    follow_symlinks: bool = False,
    ignore_ordering: bool = False,
    ignore_whitespace: bool = False,
    ignore_comment_characters: str | list[str] | None = None,
    new_file_diff: bool = False,
) -> dict[str, Any]:
    """
    What of a file is not as it should be: ``newfile``, ``diff``, ``user``, ``group``, ``mode`` and ``attrs``.

    CLI Example::

        saltlite '*' file.check_file_meta /etc/httpd.conf None salt://http/httpd.conf '{hash_type: md5, hsum: 0123}' \\
            root root 755 None base
    """
    refuse_unserved(locals())
    path = checked_path(name)
    there = os.path.lexists(path)
    if not there and not new_file_diff:
        return {"newfile": name}
    changes: dict[str, Any] = {}
    present = path if os.path.isfile(path) else ""
    content = of_text(contents) if contents is not None else None
    if content is None and (sfn or source):
        content = content_of(sfn, source, source_sum or {}, saltenv, present)
    if content is not None and not (present and content.is_in(present)):
        changes["diff"] = difference(present or None, content)
    if not there:
        return changes
    found = stats(path, follow_symlinks=follow_symlinks)
    for key, wanted, has in (("user", user, "uid"), ("group", group, "gid")):
        if wanted not in (None, "", found[key], found[has]):
            changes[key] = wanted
    if mode not in (None, "") and octal_text(octal(mode)) != found["mode"]:
        changes["mode"] = octal_text(octal(mode))
    flags = read_flags(path) if attrs else None
    if attrs and flags is not None and any(flag_changes(flags, attrs)):
        changes["attrs"] = attrs
    return changes


def _is_there(source: str, saltenv: str) -> bool:
    if source.startswith("salt://"):
        folder = source.removeprefix("salt://").partition("?")[0].rstrip("/")
        return bool(__salt__["cp.hash_file"](source, saltenv)) or folder in __salt__["cp.list_master_dirs"](saltenv)
    local = source.removeprefix("file://")
    return os.path.isabs(local) and os.path.exists(local)


def _rendered(place: str, template: str, saltenv: str, context: dict[str, Any]) -> tuple[str, dict[str, str], str]:
    if template not in FORMATS:
        return "", {}, f"Specified template format {template} is not supported"
    sfn = __salt__["cp.cache_file"](place, saltenv)
    if not sfn:
        return "", {}, f"Source file '{place}' not found"
    try:
        path = keep_rendered(render(read_text(sfn)[0], saltenv, context))
    except (CommandExecutionError, SaltInvocationError) as error:
        return "", {}, f"{place} cannot be rendered: {error}"
    return path, {"hash_type": "sha256", "hsum": get_hash(path)}, ""
