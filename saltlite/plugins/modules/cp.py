"""Copy files from the master to this minion, and from this minion to the master.

Paths are ``salt://path``, or ``salt://path?saltenv=name`` for another environment than ``saltenv``. Files are verified
by SHA-256 and replaced atomically; interrupted transfers resume. The cache is ``<cachedir>/files/<saltenv>``.

``get_url``, ``cache_file``, ``cache_files``, ``cache_dest``, ``is_cached``, ``get_file_str`` and ``hash_file`` take
``http://`` and ``https://`` too. The minion then downloads the file to ``<cachedir>/extrn_files/<saltenv>``, through
the proxy of its options ``proxy_host`` and ``proxy_port``. A file is limited to 16 GiB and an hour.

``get_file``, ``get_template``, ``get_dir`` and ``get_url`` of what does not exist fail with the return code 1.

:maintainer:    The saltlite authors
:maturity:      new
:platform:      Linux
"""

from __future__ import annotations

import fnmatch
import hashlib
import os
import re
import stat
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from saltlite.decorators import note
from saltlite.errors import CommandExecutionError, SaltInvocationError, UsageError
from saltlite.model.files import FileAddress, is_address, is_area, parse_address, parse_env, parse_path
from saltlite.plugins.modules import _safe_files
from saltlite.plugins.modules._safe_files import hold, pinned

if TYPE_CHECKING:
    from saltlite.loader.hints import __context__, __file_client__, __opts__, __salt__


# --- Patterns and destinations ---


def _matcher(patterns: Any) -> Callable[[str], bool]:
    """Return a predicate for paths: a glob on the whole path, or after `E@` a regular expression anywhere in it.

    Raises SaltInvocationError for an invalid expression.
    """
    texts = [str(one) for one in patterns] if isinstance(patterns, list) else [str(patterns)]
    try:
        each = [re.compile(text[2:] if text.startswith("E@") else rf"\A{fnmatch.translate(text)}") for text in texts]
    except re.error as error:
        raise SaltInvocationError(f"{patterns!r} contains an invalid regular expression: {error}.") from error
    return lambda path: any(one.search(path) for one in each)


def _make_folders(folder: str) -> None:
    """Create a folder and its parents; links of other users are refused.

    Raises CommandExecutionError.
    """
    _safe_files.refuse_strange_links(folder)
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise CommandExecutionError(f"{folder} cannot be made: {error.strerror}") from error


def _need_folder(folder: str, *, makedirs: bool) -> None:
    """Ensure that the folder exists, creating it on request. Raises CommandExecutionError."""
    if makedirs:
        _make_folders(folder)
    elif not os.path.isdir(folder):
        raise CommandExecutionError(f"There is no folder {folder}: makedirs=True creates it.")


def _write(dest: str, text: str, *, makedirs: bool) -> None:
    """Replace a file, keeping its mode and owner; a new file is readable only by its owner.

    Raises CommandExecutionError.
    """
    _need_folder(os.path.dirname(dest), makedirs=makedirs)
    _safe_files.write_whole(dest, text.encode(), new_mode=0o600)


_HASH = "sha256"
_TEXT_MAX = 16 * 1024 * 1024
_LOCAL = "localfiles"


def get_file(
    path: str,
    dest: str,
    saltenv: str = "base",
    makedirs: bool = False,
    template: str | None = None,
    gzip: int | None = None,  # noqa: ARG001 - Salt's argument, see below
) -> str:
    """Copy a file of the master to ``dest``; return its path, or an empty text if the master has no such file.

    In an existing folder the file keeps its name. ``makedirs`` creates missing folders. With ``template`` (``jinja``)
    both paths are templates. ``gzip`` has no effect.

    CLI Example::

        saltlite '*' cp.get_file salt://vimrc /etc/vimrc
        saltlite '*' cp.get_file salt://app/big.bin /srv/app/big.bin makedirs=True
        saltlite '*' cp.get_file 'salt://{{ grains.os }}/vimrc' /etc/vimrc template=jinja
    """
    path, dest = _rendered(path, template, saltenv), _rendered(dest, template, saltenv)
    address = _address(path, saltenv)
    dest = _destination(dest, os.path.basename(address.path))
    _need_folder(os.path.dirname(dest), makedirs=makedirs)
    return dest if _fetch(address, dest) else _missing(path)


def _missing(path: str) -> str:
    """Let the call fail although its value is Salt's for a missing file: an empty text."""
    __context__["retcode"] = 1
    note(f"there is no file {path}")
    return ""


def get_template(
    path: str, dest: str, template: str = "jinja", saltenv: str = "base", makedirs: bool = False, **kwargs: Any
) -> str:
    """Render a template of the master to ``dest``; return its path, or an empty text if the master has no such file.

    The template has the variables of ``file.managed``, ``context`` over ``defaults``, and other keyword arguments.

    CLI Example::

        saltlite '*' cp.get_template salt://path/to/template /minion/dest
        saltlite '*' cp.get_template salt://app.conf /etc/app.conf port=8080 makedirs=True
    """
    known = {name: value for name, value in kwargs.items() if not name.startswith("__pub_")}
    context, defaults = known.pop("context", None) or {}, known.pop("defaults", None)
    if not isinstance(context, Mapping):
        raise SaltInvocationError(f"context is a map of names to values, not {context!r}.")
    text = get_file_str(path, saltenv)
    if not isinstance(text, str):
        return _missing(path)
    found = _rendered(text, template, saltenv, {**context, **known}, defaults)
    dest = _destination(dest, os.path.basename(_address(path, saltenv).path))
    _write(dest, found, makedirs=makedirs)
    return dest


def get_dir(
    path: str,
    dest: str,
    saltenv: str = "base",
    template: str | None = None,
    gzip: int | None = None,  # noqa: ARG001 - as in get_file
) -> list[str]:
    """Copy a folder of the master with its content into the folder ``dest``; return the paths of its files.

    With a slash at the end of ``path`` only the content is copied. ``template`` and ``gzip`` are as in ``get_file``.

    CLI Example: ``saltlite '*' cp.get_dir salt://etc/apache2 /etc``
    """
    path, dest = _rendered(path, template, saltenv), _rendered(dest, template, saltenv)
    address = _address(path, saltenv)
    root = _absolute(dest)
    above = address.path if str(path).endswith("/") else os.path.dirname(address.path)
    fetched = []
    for name in _client().files(address.env, address.path):
        place = os.path.join(root, os.path.relpath(name, above or "."))
        _make_folders(os.path.dirname(place))
        if _fetch(FileAddress(name, address.env), place):
            fetched.append(place)
    if not fetched:
        _missing(path)
    return fetched


def get_url(
    path: str, dest: str | None = "", saltenv: str = "base", makedirs: bool = False, source_hash: str | None = None,
    verify_ssl: bool = True, use_etag: bool = False,
) -> str | bool:  # fmt: skip
    """Copy a file of the master or of an HTTP server like ``get_file``, or return the path of a local file.

    Without ``dest`` the file goes to the cache; with ``dest=None`` its content is returned. The other arguments are
    those of ``cache_file``.

    CLI Example::

        saltlite '*' cp.get_url salt://my/file /tmp/mine
        saltlite '*' cp.get_url https://example.org/app.tar.gz /srv/app.tar.gz source_hash=sha256=0123...
    """
    how: dict[str, Any] = {"verify_ssl": verify_ssl, "use_etag": use_etag}
    if not is_address(path) and not _is_url(path):
        local = str(path).removeprefix("file://")
        if not local.startswith("/"):
            raise SaltInvocationError(f"{path!r} is neither salt://path, a URL of HTTP, nor a path on this minion.")
        if dest is None and os.path.isfile(local):
            return _text_of(path, local)
        return local if os.path.isfile(local) else _missing(path)
    if dest is None:
        return _text_of(path, cache_file(path, saltenv, source_hash, **how))
    if not dest:
        return cache_file(path, saltenv, source_hash, **how) or _missing(path)
    if is_address(path):
        return get_file(path, dest, saltenv, makedirs)
    copy = str(cache_file(path, saltenv, source_hash, **how))
    place = _destination(dest, os.path.basename(copy))
    _need_folder(os.path.dirname(place), makedirs=makedirs)
    _safe_files.write_whole(place, _safe_files.blocks(copy))
    return place


def get_file_str(path: str, saltenv: str = "base") -> str | bool:
    """Return the content of a file of the master or of an HTTP server, or False if the master has no such file.

    CLI Example: ``saltlite '*' cp.get_file_str salt://my/file``
    """
    return _text_of(path, cache_file(path, saltenv))


def _text_of(path: str, copy: str | bool) -> str | bool:
    if not isinstance(copy, str):
        return False
    if os.path.getsize(copy) > _TEXT_MAX:
        raise CommandExecutionError(f"{path} is larger than {_TEXT_MAX} bytes: fetch it with cp.get_file.")
    with open(copy, encoding="utf-8", errors="replace") as file:
        return file.read()


def cache_file(
    path: str, saltenv: str = "base", source_hash: str | None = None, verify_ssl: bool = True, use_etag: bool = False
) -> str | bool:
    """Cache a file of the master or of an HTTP server; return its local path, or False if the master has no such file.

    The other arguments are for HTTP servers. A file with another digest than ``source_hash``, which is as in
    ``file.get_source_sum``, is an error, and one that is here with this digest is not downloaded again.
    ``verify_ssl=False`` accepts any certificate. ``use_etag`` keeps a copy of which the server says that it has not
    changed.

    CLI Example::

        saltlite '*' cp.cache_file salt://path/to/file
        saltlite '*' cp.cache_file https://example.org/app.tar.gz source_hash=https://example.org/SHA256SUMS
    """
    if str(path).startswith("/"):
        return str(path) if os.path.isfile(path) else False
    if _is_url(path):
        return _downloaded(path, saltenv, source_hash, verify_ssl=verify_ssl, use_etag=use_etag)
    address = _address(path, saltenv)
    try:
        copy: str = _client().cache(address)
    except OSError as error:
        raise CommandExecutionError(f"{path} cannot be kept here: {error.strerror} ({error.filename})") from error
    return copy or False


def _is_url(path: str) -> bool:
    return str(path).lower().startswith(("http://", "https://"))


def _downloaded(url: str, saltenv: str, source_hash: str | None, *, verify_ssl: bool, use_etag: bool) -> str:
    from saltlite.plugins.modules import _downloads

    place = _downloads.cached_path(_cachedir(), url, _env(saltenv))
    expected: Mapping[str, str] = {}
    if source_hash:
        get_source_sum = __salt__["file.get_source_sum"]
        expected = get_source_sum(source=url, source_hash=source_hash, saltenv=saltenv, verify_ssl=verify_ssl)
        if os.path.isfile(place) and __salt__["file.get_hash"](place, expected["hash_type"]) == expected["hsum"]:
            return place
    _downloads.fetch(url, place, __opts__, _downloads.Wanted(expected, verify_ssl=verify_ssl, use_etag=use_etag))
    return place


def cache_dest(path: str, saltenv: str = "base") -> str:
    """Return the cache path of a file, whether it exists or not.

    CLI Example: ``saltlite '*' cp.cache_dest salt://path/to/file``
    """
    if _is_url(path):
        from saltlite.plugins.modules import _downloads

        return _downloads.cached_path(_cachedir(), path, _env(saltenv))
    place: str = _client().cached_path(_address(path, saltenv))
    return place


def cache_local_file(path: str) -> str:
    """Cache a local file in ``<cachedir>/localfiles``; return its path, or an empty text.

    CLI Example: ``saltlite '*' cp.cache_local_file /etc/hosts``
    """
    import shutil

    source = _absolute(path)
    if not os.path.isfile(source):
        return ""
    place = os.path.join(_cachedir(), _LOCAL, os.path.normpath(source).lstrip("/"))
    try:
        os.makedirs(os.path.dirname(place), mode=0o700, exist_ok=True)
        shutil.copyfile(source, place)
        os.chmod(place, stat.S_IMODE(os.stat(source).st_mode))
    except OSError as error:
        raise CommandExecutionError(f"{source} cannot be kept here: {error.strerror} ({error.filename})") from error
    return place


def cache_files(paths: list[str] | str, saltenv: str = "base") -> list[str | bool]:
    """Cache several files, given as a list or with commas; return their local paths, and False for
    missing files.

    CLI Example: ``saltlite '*' cp.cache_files salt://pathto/file1,salt://pathto/file1``
    """
    listed = paths.split(",") if isinstance(paths, str) else paths
    return [cache_file(path, saltenv) for path in listed]


def cache_dir(
    path: str,
    saltenv: str = "base",
    include_empty: bool = False,
    include_pat: str | list[str] | None = None,
    exclude_pat: str | list[str] | None = None,
) -> list[str]:
    """Cache all files in a folder of the master; return their local paths.

    ``include_pat`` and ``exclude_pat`` select by globs on the path on the master; a pattern after ``E@`` is a regular
    expression, found anywhere in the path. ``include_empty`` also creates all empty folders.

    CLI Example::

        saltlite '*' cp.cache_dir salt://path/to/dir
        saltlite '*' cp.cache_dir salt://path/to/dir include_pat='*.conf' exclude_pat='E@/(old|tmp)/'
    """
    address = _address(path, saltenv)
    wanted = _matcher(include_pat) if include_pat else None
    unwanted = _matcher(exclude_pat) if exclude_pat else None
    found = _client().files(address.env, address.path)
    names = [name for name in found if (not wanted or wanted(name)) and not (unwanted and unwanted(name))]
    kept = [str(copy) for name in names if (copy := cache_file(f"salt://{name}", address.env))]
    if include_empty:
        folders = _client().folders(address.env, address.path)
        filled = {os.path.dirname(name) for name in [*found, *folders]}
        places = [_client().cached_path(FileAddress(name, address.env)) for name in folders if name not in filled]
        for place in places:
            os.makedirs(place, mode=0o700, exist_ok=True)
        kept += places
    return kept


def cache_master(saltenv: str = "base") -> list[str]:
    """Cache all files of an environment; return their local paths.

    CLI Example: ``saltlite '*' cp.cache_master``
    """
    return cache_dir("salt://", saltenv)


def is_cached(path: str, saltenv: str = "base") -> str:
    """Return the path of the cached copy of a file, or an empty text. No server is asked.

    CLI Example: ``saltlite '*' cp.is_cached salt://path/to/file``
    """
    copy = cache_dest(path, saltenv)
    return copy if os.path.isfile(copy) else ""


def list_master(saltenv: str = "base", prefix: str = "") -> list[str]:
    """Return the files of an environment of the master, optionally those whose path begins with ``prefix``.

    CLI Example::

        saltlite '*' cp.list_master
        saltlite '*' cp.list_master prefix=app/
    """
    return [name for name in _client().files(_env(saltenv)) if name.startswith(prefix)]


def list_master_dirs(saltenv: str = "base", prefix: str = "") -> list[str]:
    """Return the folders of an environment of the master, like ``list_master``.

    CLI Example: ``saltlite '*' cp.list_master_dirs``
    """
    return [name for name in _client().folders(_env(saltenv)) if name.startswith(prefix)]


def list_states(saltenv: str = "base") -> list[str]:
    """Return the names of the ``.sls`` files of an environment of the master, which run nowhere here: ``web.ssl`` for
    ``web/ssl.sls``, ``web`` for ``web/init.sls``.

    CLI Example: ``saltlite '*' cp.list_states``
    """
    stems = [name.removesuffix(".sls") for name in list_master(saltenv) if name.endswith(".sls")]
    return sorted({stem.removesuffix("/init").replace("/", ".") for stem in stems})


def envs() -> list[str]:
    """Return the environments of the master's file server.

    CLI Example: ``saltlite '*' cp.envs``
    """
    found: list[str] = _client().envs()
    return found


def list_minion(saltenv: str = "base") -> list[str]:
    """Return the paths of all cached files of the master and of this minion, sorted.

    CLI Example: ``saltlite '*' cp.list_minion``
    """
    folders = [os.path.dirname(_client().cached_path(_address("salt://x", saltenv))), os.path.join(_cachedir(), _LOCAL)]
    return sorted(os.path.join(top, name) for folder in folders for top, _, names in os.walk(folder) for name in names)


def hash_file(path: str, saltenv: str = "base") -> dict[str, str] | str:
    """Return the digest of a file as ``hsum`` and ``hash_type``; an empty text if the master has no such file.

    A file of an HTTP server is downloaded for that.

    CLI Example: ``saltlite '*' cp.hash_file salt://path/to/file``
    """
    if _is_url(path):
        path = str(cache_file(path, saltenv))
    if str(path).startswith("/"):
        if not os.path.isfile(path):
            return {}
        with open(path, "rb") as file:
            return {"hsum": hashlib.file_digest(file, _HASH).hexdigest(), "hash_type": _HASH}
    found = _client().stat(_address(path, saltenv))
    return "" if found is None else {"hsum": found.sha256.hex(), "hash_type": _HASH}


def stat_file(path: str, saltenv: str = "base", octal: bool = True) -> str | int | None:
    """Return the mode of a file of the master in octal digits, or as a number; None if it does not exist.

    CLI Example: ``saltlite '*' cp.stat_file salt://path/to/file``
    """
    found = _client().stat(_address(path, saltenv))
    if found is None:
        return None
    return f"0{found.mode:o}" if octal else int(stat.S_IFREG | found.mode)


def push(path: str, keep_symlinks: bool = False, upload_path: str | None = None, remove_source: bool = False) -> bool:
    """Send a file of this minion to the master, which stores it as ``<cachedir>/minions/<id>/files/<path>``.

    The master's options ``file_recv`` and ``file_recv_max_size`` permit and limit it. Symbolic links in the path are
    resolved, unless ``keep_symlinks`` is set. ``upload_path`` sets another path on the master. ``remove_source``
    removes the file after it has arrived, or with ``keep_symlinks`` the link to it.

    CLI Example::

        saltlite '*' cp.push /etc/fstab
        saltlite '*' cp.push /etc/system-release keep_symlinks=True
        saltlite '*' cp.push /srv/app/core upload_path=/cores/app remove_source=True
    """
    local = _absolute(path) if keep_symlinks else os.path.realpath(_absolute(path))
    if not os.path.isfile(local):
        raise CommandExecutionError(f"There is no file {local} to send.")
    try:
        name = parse_path((upload_path or local).lstrip("/"))
        sent: bool = _client().push(local, name)
    except UsageError as error:
        raise SaltInvocationError(str(error)) from error
    except OSError as error:
        raise CommandExecutionError(f"{local} cannot be read: {error.strerror}") from error
    if not sent:
        raise CommandExecutionError(
            f"The master does not take {local}: its options file_recv (off by default) and file_recv_max_size decide, "
            "and its log says when its disk is full."
        )
    if remove_source:
        os.unlink(local)
    return True


def push_dir(path: str, glob: str | None = None, upload_path: str | None = None) -> bool:
    """Send all files in a folder to the master like ``push``, optionally those whose name matches ``glob``; False if
    there are none.

    CLI Example: ``saltlite '*' cp.push_dir /etc/modprobe.d/ glob='*.conf'``
    """
    import fnmatch

    root, sent = os.path.realpath(_absolute(path)), False
    if os.path.isfile(root):
        return push(root, upload_path=upload_path)
    if not os.path.isdir(root):
        raise CommandExecutionError(f"There is no folder {root} to send.")
    for above, _folders, names in os.walk(root):
        for name in sorted(names):
            local = os.path.join(above, name)
            if os.path.isfile(local) and (glob is None or fnmatch.fnmatch(name, glob)):
                place = os.path.join(upload_path, os.path.relpath(local, root)) if upload_path else None
                sent = push(local, upload_path=place)
    return sent


def recv(area: str, dest: str) -> dict[str, bool]:
    """Receive the files that ``saltlite cp`` sends in an environment that only the command knows; path -> True.

    ``dest`` is a folder if it exists as one, ends with a slash, or there are several files.

    CLI Example::

        saltlite cp '*' ./motd /etc/motd
        saltlite '*' cp.recv copy-0123456789abcdef0123456789abcdef /etc/motd
    """
    if not is_area(area):
        raise SaltInvocationError("This function is called by `saltlite cp`.")
    client = _client()
    names: list[str] = client.files(area)
    if not names:
        raise CommandExecutionError("The files are gone from the master: copy them again.")
    into_folder = len(names) > 1 or "/" in names[0] or dest.endswith("/") or os.path.isdir(dest)
    done = {}
    for name in names:
        place = os.path.join(_absolute(dest), name) if into_folder else _absolute(dest)
        _make_folders(os.path.dirname(place))
        address = FileAddress(name, area)
        found = client.stat(address)
        done[place] = _fetch(address, place, None if found is None else found.mode & 0o777)
    return done


def _rendered(text: str, template: str | None, saltenv: str, context: Any = None, defaults: Any = None) -> str:
    """Render a text, or return it unchanged without a `template`."""
    apply = __salt__["file.apply_template_on_contents"]
    found = apply(text, template, context, defaults, saltenv) if template else text
    if not isinstance(found, str):
        raise SaltInvocationError(f"The template format {template!r} is not supported; use jinja.")
    return found


def _client() -> Any:
    if not hasattr(__file_client__, "fetch"):
        raise CommandExecutionError("This call has no file server behind it.")
    return __file_client__


def _cachedir() -> str:
    if "cachedir" not in __opts__:
        raise CommandExecutionError("This call runs without a minion, so there is no folder for copies.")
    return str(__opts__["cachedir"])


def _fetch(address: FileAddress, dest: str, mode: int | None = None) -> bool:
    """Fetch a file and set its mode, holding its folder open so that it cannot be replaced."""
    try:
        with pinned(dest) as place:
            done = bool(_client().fetch(address, place.name, place.folder))
            if done and mode is not None:
                with hold(place, follow_symlinks=True) as same:
                    os.chmod(same, mode)
    except OSError as error:
        raise CommandExecutionError(f"{dest} cannot be written: {error.strerror}") from error
    return done


def _address(path: str, saltenv: str) -> FileAddress:
    try:
        return parse_address(path, _env(saltenv))
    except UsageError as error:
        raise SaltInvocationError(str(error)) from error


def _env(saltenv: str) -> str:
    try:
        return parse_env(saltenv)
    except UsageError as error:
        raise SaltInvocationError(str(error)) from error


def _absolute(path: str) -> str:
    if not os.path.isabs(str(path)):
        raise SaltInvocationError(f"{path!r} is not an absolute path.")
    return str(path)


def _destination(dest: str, name: str) -> str:
    return os.path.join(_absolute(dest), name) if dest.endswith("/") or os.path.isdir(dest) else _absolute(dest)
