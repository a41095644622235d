"""Managed files: content from the master, this minion, a template or a text; also diff and patch."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from saltlite.errors import CommandExecutionError, SaltInvocationError
from saltlite.plugins.modules._commands import run_needed
from saltlite.plugins.modules._safe_files import (
    Access,
    blocks,
    checked_path,
    read_whole,
    refuse_strange_links,
    regular,
    shown,
    write_whole,
)

from .backups import keep_cached
from .labels import differing_parts, label_parts
from .paths import makedirs as make_folders
from .permissions import check_perms, flag_changes, owner_numbers, read_flags
from .stats import get_hash, get_mode, get_source_sum, octal, octal_text, refuse_unserved, stats
from .text import EDIT_BYTES_MAX, UTF8, diff, is_binary, lines_of, read_text

if TYPE_CHECKING:
    from saltlite.loader.hints import __grains__, __opts__, __pillar__, __salt__


# --- Content of a managed file ---

_RENDERED = "saltlite-rendered-"

OBFUSCATED = "<Obfuscated Template>"


class Content:
    """The file at `path`, or `data` if the path is empty."""

    def __init__(self, path: str = "", data: bytes = b"") -> None:
        self.path = path
        self.data = data

    def size(self) -> int:
        """Return the size in bytes."""
        return os.path.getsize(self.path) if self.path else len(self.data)

    def pieces(self) -> Iterable[bytes]:
        """Iterate over the content in blocks. Raises CommandExecutionError."""
        return blocks(self.path) if self.path else (self.data,)

    def whole(self) -> bytes:
        """Return the whole content. Raises CommandExecutionError."""
        return read_whole(self.path) if self.path else self.data

    def is_in(self, path: str) -> bool:
        """Whether the file at `path` has exactly this content. Raises CommandExecutionError."""
        if os.path.getsize(path) != self.size():
            return False
        return get_hash(path) == get_hash(self.path) if self.path else read_whole(path) == self.data


def of_text(contents: Any, encoding: str | None = None, errors: str = "strict") -> Content:
    """Return the content given as text or bytes."""
    if isinstance(contents, bytes):
        return Content(data=contents)
    text = str(contents)
    return Content(data=text.encode(encoding, errors) if encoding else UTF8.encode(text))


def difference(old: str | None, new: Content) -> str:
    """Return a unified diff of a file (None for an empty one) and its new content, like `file.get_diff`."""
    if __salt__["config.option"]("obfuscate_templates"):
        return OBFUSCATED
    if max(new.size(), os.path.getsize(old) if old else 0) > EDIT_BYTES_MAX:
        return f"(no diff of files of more than {EDIT_BYTES_MAX} bytes)"
    before, after = read_whole(old) if old else b"", new.whole()
    binary = is_binary(before), is_binary(after)
    if any(binary):
        return {
            (True, True): "Replace binary file",
            (True, False): "Replace binary file with text file",
            (False, True): "Replace text file with binary file",
        }[binary]
    old_lines, new_lines = (lines_of(each.decode(UTF8.name, UTF8.errors)) for each in (before, after))
    return diff(old_lines, new_lines)


def keep_rendered(text: str) -> str:
    """Write a rendered template to a private file; return its path for `drop_rendered`."""
    import tempfile

    fd, path = tempfile.mkstemp(prefix=_RENDERED)
    with open(fd, "wb") as stream:
        stream.write(UTF8.encode(text))
    return path


def drop_rendered(path: str) -> None:
    """Remove the file if `keep_rendered` made it."""
    if not os.path.basename(path).startswith(_RENDERED):
        return
    import tempfile

    if os.path.dirname(path) == tempfile.gettempdir():
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)


def content_of(
    sfn: str, source: str | None, source_sum: Mapping[str, str], saltenv: str, present: str, *, verify: bool = True,
    verify_ssl: bool = True,
) -> Content | None:  # fmt: skip
    """Return the content of a source, fetched if needed; None if the file at `present` has its digest.

    `sfn` is the local file if it has been fetched. Raises CommandExecutionError when the source is missing or has
    another digest.
    """
    digest, kind = source_sum.get("hsum", "").lower(), source_sum.get("hash_type", "sha256")
    if digest and present and get_hash(present, kind) == digest:
        return None
    path = sfn
    if not path and source:
        path = __salt__["cp.cache_file"](source, saltenv, verify_ssl=verify_ssl)
    if not path:
        raise CommandExecutionError(f"Source file '{source}' not found")
    # Files of the master are verified when they are fetched.
    if verify and digest and not str(source).startswith("salt://") and (found := get_hash(path, kind)) != digest:
        raise CommandExecutionError(
            f"Specified {kind} checksum for {source} ({digest}) does not match actual checksum ({found})."
        )
    return Content(path)


def mode_of(source: str, saltenv: str) -> str:
    """Return the mode of a source in octal digits. Raises CommandExecutionError."""
    if source.startswith("salt://"):
        return str(__salt__["cp.stat_file"](source, saltenv) or "0644")
    if "://" in source and not source.startswith("file://"):
        raise CommandExecutionError(f"mode=keep does not apply to {source}: an HTTP server tells no mode.")
    return get_mode(source.removeprefix("file://"))


# --- Templates ---

FORMATS = ("jinja",)
"""Supported template formats."""


class _Functions:
    """Functions for templates: `salt["test.ping"]()` and `salt.test.ping()`."""

    def __init__(self, module: str = "") -> None:
        self._module = module

    def __getitem__(self, name: str) -> Any:
        return __salt__[name]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return __salt__[f"{self._module}.{name}"] if self._module else _Functions(name)


def render(text: str, saltenv: str, context: Mapping[str, Any]) -> str:
    """Render a template with the names in `context`. Raises CommandExecutionError."""
    try:
        import jinja2
        from jinja2.sandbox import SandboxedEnvironment
    except ImportError as error:
        raise CommandExecutionError("Templates need jinja2: pip install 'saltlite[jinja]' on this minion.") from error

    def load(name: str) -> str | None:
        found = __salt__["cp.get_file_str"](f"salt://{name}", saltenv)
        return found if isinstance(found, str) else None

    environment = SandboxedEnvironment(
        loader=jinja2.FunctionLoader(load),
        undefined=jinja2.StrictUndefined,
        extensions=["jinja2.ext.do", "jinja2.ext.loopcontrols"],
        keep_trailing_newline=True,
        autoescape=False,  # the output is a file of any kind, not HTML
    )
    environment.filters.update(json=_json, yaml=_json)
    names = {
        "salt": _Functions(),
        "grains": dict(__grains__),
        "pillar": dict(__pillar__),
        "opts": dict(__opts__),
        "saltenv": saltenv,
    }
    try:
        return environment.from_string(text).render({**names, **context})
    except jinja2.TemplateSyntaxError as error:
        raise CommandExecutionError(f"Jinja syntax error: {error.message}; line {error.lineno}") from error
    except jinja2.TemplateError as error:
        raise CommandExecutionError(f"Jinja: {error.message or type(error).__name__}") from error
    except Exception as error:
        raise CommandExecutionError(f"The template failed: {type(error).__name__}: {error}") from error


def _json(value: Any) -> str:
    import json

    return json.dumps(value, ensure_ascii=False, default=str)


_SERVERS = ("http", "https")


def source_list(source: Any, source_hash: Any, saltenv: str) -> tuple[Any, Any]:
    """Return the first source that exists, with its hash. Each source is an address, or a dict of an address and its
    hash.

    CLI Example: ``saltlite '*' file.source_list salt://http/httpd.conf '{hash_type: md5, hsum: 0123}' base``
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
    """Render a template with ``defaults`` and ``context``, which has precedence. The only format is ``jinja``.

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
    """Fetch and render the content of a managed file. Return its local path, its digest, and an error or an empty text.

    The path of a file of the master that is no template is empty, because it is fetched later.

    CLI Example::

        saltlite '*' file.get_managed /etc/httpd.conf jinja salt://http/httpd.conf None None root root 755 None base \\
            None None
    """
    refuse_unserved(locals())
    if not source:
        return "", {}, ""
    scheme = source.partition("://")[0] if "://" in source else "file"
    local = source.removeprefix("file://")
    if problem := _unusable_source(source, scheme, is_checked=bool(source_hash or skip_verify)):
        return "", {}, problem
    try:
        if scheme == "salt":
            found = __salt__["cp.hash_file"](source, saltenv)
        else:
            wanted = None if skip_verify else source_hash
            found = get_source_sum(name, source, wanted, source_hash_name, saltenv, verify_ssl) if wanted else {}
        if scheme in _SERVERS:
            local = _downloaded(source, saltenv, found, verify_ssl=verify_ssl, use_etag=use_etag)
        if scheme != "salt":
            found = found or {"hsum": get_hash(local), "hash_type": "sha256"}
    except (CommandExecutionError, SaltInvocationError) as error:
        return "", {}, f"Unable to manage file: {error}"
    if not found:
        return "", {}, f"Source file {source} not found in saltenv '{saltenv}'"
    # A link to the source may become a file with that content, as in Salt.
    if scheme == "file" and os.path.exists(name) and not os.path.islink(name) and os.path.samefile(local, name):
        raise SaltInvocationError("Source file cannot be the same as destination")
    here = "" if scheme == "salt" else local
    if not template:
        return here, found, ""
    known = {"name": name, "source": source, "user": user, "group": group, "mode": mode, "attrs": attrs}
    return _rendered(here or source, template, saltenv, {**known, **(defaults or {}), **(context or {})})


def check_managed(  # noqa: PLR0913, PLR0917 - Salt's arguments
    name: str, source: str | list[Any] | None, source_hash: str | dict[str, str] | None, source_hash_name: str | None,
    user: str | int | None, group: str | int | None, mode: str | int | None, attrs: str | None, template: str | None,
    context: dict[str, Any] | None, defaults: dict[str, Any] | None, saltenv: str, contents: str | None = None,
    skip_verify: bool = False, seuser: str | None = None, serole: str | None = None, setype: str | None = None,
    serange: str | None = None, follow_symlinks: bool = False,
) -> tuple[bool | None, str]:  # fmt: skip
    """Check a managed file. Return True and a message, None and the changes, or False and an error.

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
    name: str, source: str | list[Any] | None, source_hash: str | dict[str, str] | None, source_hash_name: str | None,
    user: str | int | None, group: str | int | None, mode: str | int | None, attrs: str | None, template: str | None,
    context: dict[str, Any] | None, defaults: dict[str, Any] | None, saltenv: str, contents: str | None = None,
    skip_verify: bool = False, keep_mode: bool = False, seuser: str | None = None, serole: str | None = None,
    setype: str | None = None, serange: str | None = None, verify_ssl: bool = True, follow_symlinks: bool = False,
    ignore_ordering: bool = False, ignore_whitespace: bool = False,
    ignore_comment_characters: str | list[str] | None = None, new_file_diff: bool = False,
) -> dict[str, Any] | tuple[bool, str]:  # fmt: skip
    """Return the changes of a managed file as ``file.check_file_meta`` does; or False and an error.

    CLI Example::

        saltlite '*' file.check_managed_changes /etc/httpd.conf salt://http/httpd.conf None None root root 755 None \\
            jinja None None base
    """
    first, digest = source_list(source, source_hash, saltenv)
    sfn, source_sum = "", dict[str, str]()
    if contents is None:
        sfn, source_sum, wrong = get_managed(
            name, template, first, digest, source_hash_name, user, group, mode, attrs, saltenv, context,
            defaults, skip_verify, verify_ssl=verify_ssl,
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
    name: str, sfn: str, source: str | None, source_sum: dict[str, str] | None, user: str | int | None,
    group: str | int | None, mode: str | int | None, attrs: str | None, saltenv: str, contents: str | None = None,
    seuser: str | None = None, serole: str | None = None, setype: str | None = None, serange: str | None = None,
    verify_ssl: bool = True, follow_symlinks: bool = False, ignore_ordering: bool = False,
    ignore_whitespace: bool = False, ignore_comment_characters: str | list[str] | None = None,
    new_file_diff: bool = False,
) -> dict[str, Any]:  # fmt: skip
    """Return what differs from a managed file: ``newfile``, ``diff``, ``user``, ``group``, ``mode``, ``attrs`` and
    ``selinux``.

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
        content = content_of(sfn, source, source_sum or {}, saltenv, present, verify_ssl=verify_ssl)
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
    label, _now = differing_parts(path, label_parts(seuser, serole, setype, serange))
    return {**changes, "selinux": label} if label else changes


def _is_there(source: str, saltenv: str) -> bool:
    if source.startswith("salt://"):
        folder = source.removeprefix("salt://").partition("?")[0].rstrip("/")
        return bool(__salt__["cp.hash_file"](source, saltenv)) or folder in __salt__["cp.list_master_dirs"](saltenv)
    if source.lower().startswith(("http://", "https://")):
        return "error" not in __salt__["http.query"](source, method="HEAD")
    local = source.removeprefix("file://")
    return os.path.isabs(local) and os.path.exists(local)


def _unusable_source(source: str, scheme: str, *, is_checked: bool) -> str:
    """Why the source cannot be used; empty if it can. `is_checked`: its digest is given, or need not be checked."""
    if scheme not in {"salt", "file", *_SERVERS}:
        return f"Source file {source} has none of the schemes salt, file, http and https."
    if scheme in _SERVERS and not is_checked:
        reason = "please set source_hash or set skip_verify to True"
        return f"Unable to verify upstream hash of source file {source}, {reason}"
    local = source.removeprefix("file://")
    if scheme == "file" and not os.path.exists(local):
        return f"Local file source {shown(local)} does not exist"
    return ""


def _downloaded(source: str, saltenv: str, digest: Mapping[str, str], *, verify_ssl: bool, use_etag: bool) -> str:
    wanted = f"{digest['hash_type']}={digest['hsum']}" if digest else None
    path: str = __salt__["cp.cache_file"](source, saltenv, wanted, verify_ssl=verify_ssl, use_etag=use_etag)
    return path


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


# --- manage_file ---

_PRIVATE = 0o600


class _Wanted:
    """The wanted file; with `content` None the content stays, or a new file is empty."""

    def __init__(  # noqa: PLR0913, PLR0917 - what Salt's function takes
        self, path: str, content: Content | None, user: str | int | None, group: str | int | None,
        mode: str | int | None, attrs: str | None, follow_symlinks: bool, show_changes: bool, backup: bool,
        label: Sequence[str | None],
    ) -> None:  # fmt: skip
        self.path, self.content = path, content
        self.user, self.group, self.mode, self.attrs = user, group, mode, attrs
        self.follow_symlinks, self.show_changes, self.backup = follow_symlinks, show_changes, backup
        self.label = label

    def difference(self, old: str | None) -> str:
        """Return the diff for the return."""
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
    """Bring a file to its content, owner, mode and SELinux label.

    Return ``name``, ``changes``, ``comment`` and ``result``. The content is ``contents``, ``sfn`` as
    ``file.get_managed`` returned it, or ``source``. A missing file is created, and with ``makedirs`` its folders with
    mode ``dir_mode``. ``backup=minion`` keeps the old file in the minion's cache. ``template`` has no effect, because
    ``file.get_managed`` has rendered ``sfn``.

    CLI Example::

        saltlite '*' file.manage_file /etc/httpd.conf '' '{}' salt://http/httpd.conf '{hash_type: md5, hsum: 0123}' \\
            root root 755 '' base ''
    """
    refuse_unserved(locals())
    path = checked_path(name)
    label_parts(seuser, serole, setype, serange)  # refuses a wrong one before anything is written
    report = ret or {"name": name, "changes": {}, "comment": "", "result": True}
    present = path if os.path.isfile(path) and (follow_symlinks or not os.path.islink(path)) else ""
    try:
        content = _new_content(contents, encoding, encoding_errors)
        if content is None and (source or sfn):
            content = content_of(
                sfn, source, source_sum or {}, saltenv, present, verify=not skip_verify, verify_ssl=verify_ssl
            )
            if keep_mode and source:
                mode = mode_of(source, saltenv)
        wanted = _Wanted(
            path, content, user, group, mode, attrs or None, follow_symlinks, show_changes, _keeps_copies(backup),
            (seuser, serole, setype, serange),
        )  # fmt: skip
        if os.path.isdir(path):
            report["result"], report["comment"] = False, f"{shown(path)} is a folder."
        elif not os.path.lexists(path):
            _make(wanted, report, dir_mode if makedirs else None, makedirs=makedirs, diff=new_file_diff, test=test)
        else:
            _change(wanted, report, test=test)
    except (CommandExecutionError, SaltInvocationError) as error:
        report["result"], report["comment"] = False, str(error)
    finally:
        drop_rendered(sfn or "")
    return report


def _new_content(contents: str | bytes | None, encoding: str | None, errors: str) -> Content | None:
    if contents is None:
        return None
    try:
        return of_text(contents, encoding, errors)
    except (LookupError, UnicodeError) as error:
        raise SaltInvocationError(f"The contents cannot be written as {encoding}: {error}.") from error


def _keeps_copies(backup: str | bool | None) -> bool:
    return str(backup or __opts__.get("backup_mode", "")) in {"minion", "both", "True"}


def _make(wanted: _Wanted, report: dict[str, Any], dir_mode: Any, *, makedirs: bool, diff: bool, test: bool) -> None:
    """Create a missing file."""
    folder = os.path.dirname(wanted.path)
    if not os.path.isdir(folder) and not makedirs:
        raise CommandExecutionError("Parent directory not present")
    _, _, wrong = owner_numbers(wanted.user, wanted.group)
    if wrong:
        raise CommandExecutionError(wrong.strip())
    if wanted.content is None:
        report["changes"]["new"] = f"file {shown(wanted.path)} created"
    else:
        report["changes"]["diff"] = wanted.difference(None) if diff else "New file"
    if test:
        report["result"], report["comment"] = None, f"File {shown(wanted.path)} not updated"
        return
    make_folders(wanted.path, wanted.user, wanted.group, dir_mode or _folder_mode(wanted.mode))
    # The file is private until it has its own mode and owner.
    access = Access(mode=_PRIVATE) if wanted.mode not in (None, "") else None
    write_whole(wanted.path, (wanted.content or Content()).pieces(), access=access)
    _permit(wanted, report, test=False)
    report["comment"] = report["comment"] or ("Empty file" if wanted.content is None else _updated(wanted))


def _change(wanted: _Wanted, report: dict[str, Any], *, test: bool) -> None:
    """Update an existing file."""
    itself = os.path.islink(wanted.path) and not wanted.follow_symlinks
    # Permissions first: the new content may be meant for fewer readers than the old.
    if not itself:
        _permit(wanted, report, test=test)
    if wanted.content is not None and (itself or not wanted.content.is_in(wanted.path)):
        difference_text = "Replace symbolic link with regular file" if itself else wanted.difference(wanted.path)
        report["changes"]["diff"] = difference_text
        if not test:
            if wanted.backup and not itself:
                keep_cached(os.path.realpath(wanted.path), __opts__["cachedir"])
            access = Access(mode=_PRIVATE if wanted.mode not in (None, "") else None) if itself else None
            write_whole(wanted.path, wanted.content.pieces(), access=access, follow_symlinks=not itself)
    if itself and not test:
        _permit(wanted, report, test=False)
    if report["result"] is False:
        return
    if not report["changes"]:
        report["comment"] = f"File {shown(wanted.path)} is in the correct state"
    else:
        report["comment"] = f"File {shown(wanted.path)} not updated" if test else _updated(wanted)
        report["result"] = None if test else report["result"]


def _permit(wanted: _Wanted, report: dict[str, Any], *, test: bool) -> None:
    check_perms(
        wanted.path, report, wanted.user, wanted.group, wanted.mode or None, wanted.attrs, wanted.follow_symlinks,
        *wanted.label, test=test,
    )  # fmt: skip


def _updated(wanted: _Wanted) -> str:
    return f"File {shown(wanted.path)} updated"


def _folder_mode(mode: Any) -> str | None:
    """Return the mode of parent folders: those who may read or write the file may enter. None for the default."""
    if mode in (None, ""):
        return None
    bits = octal(mode) & 0o777
    enter = sum(stat.S_IXOTH << shift for shift in (0, 3, 6) if bits >> shift & 0o7)
    return f"{bits | enter:04o}"


# --- Diff and patch ---

_OPTIONS = ("--forward", "-N"), ("--reject-file", "-r"), ("--strip", "-p")


def patch(
    originalfile: str, patchfile: str, options: str = "", dry_run: bool = False, test: bool = False
) -> dict[str, Any]:
    """Apply a patch to a file or folder with the program ``patch``. Return what ``cmd.run_all`` returns.

    If a part does not fit, nothing is applied and the return code is not 0. Names in a patch for a folder are relative
    to it, unless ``options`` has a ``-p``. ``dry_run`` and ``test`` only report.

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
    tried: dict[str, Any] = run_needed(__salt__["cmd.run_all"], [command[0], "--dry-run", *command[1:]])
    if dry_run or test or tried["retcode"]:
        return tried
    done: dict[str, Any] = run_needed(__salt__["cmd.run_all"], command)
    return done


def get_diff(  # noqa: PLR0913, PLR0917 - Salt's signature
    file1: str, file2: str, saltenv: str = "base", show_filenames: bool = True, show_changes: bool = True,
    template: bool = False, source_hash_file1: str | None = None, source_hash_file2: str | None = None,
    ignore_ordering: bool = False, ignore_whitespace: bool = False,
    ignore_comment_characters: str | list[str] | None = None,
) -> str | tuple[bool, str]:  # fmt: skip
    """Return a unified diff of two files, each on this minion or ``salt://``; empty if they are equal.

    ``show_filenames=False`` omits the names, ``show_changes=False`` only reports that there are differences. With
    ``ignore_ordering``, ``ignore_whitespace`` (around lines) or ``ignore_comment_characters`` (and the text after
    them), the answer is whether other differences remain, and the diff. ``template=True`` hides the diff if the option
    ``obfuscate_templates`` is set. ``source_hash_file1`` and ``source_hash_file2`` are refused, because they are for
    files from the web.

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
    """Return the default options of patch: no questions, and no reject file."""
    defaults = ["--forward", "--reject-file=-", *(["--strip=0"] if folder else [])]
    return [
        default
        for default, (long, short) in zip(defaults, _OPTIONS, strict=False)
        if not any(word.startswith((long, short)) for word in given)
    ]


def _local(name: str, saltenv: str) -> str:
    """Return the path of a file on this minion."""
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
    """Whether lines exist on one side only, regardless of order and of text after a mark."""
    return _significant(old, marks, strip=strip) != _significant(new, marks, strip=strip)


def _significant(lines: list[str], marks: list[str], *, strip: bool) -> list[str]:
    kept = []
    for line in lines:
        text = line
        for mark in filter(None, marks):
            text = text.partition(str(mark))[0]
        kept.append(text.strip() if strip else text)
    return sorted(filter(None, kept))
