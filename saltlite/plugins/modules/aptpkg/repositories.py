"""The sources that apt fetches packages from, and the keys that sign them.

Sources are read from and written to `sources.list` and the files next to it, one-line and deb822. Keys are files in a
keyring folder; the program apt-key, which apt has dropped, is not needed.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from saltlite.errors import CommandExecutionError, SaltInvocationError
from saltlite.plugins.modules import _packages

from . import packages
from .packages import refresh_db

# The parser of sources and what writes files are imported where they are used: most jobs of `pkg` need neither.
if TYPE_CHECKING:
    from saltlite.loader.hints import __grains__, __salt__

    from .source_lists import Document, Source


NEW_MODE = 0o644
"""apt reads its sources, and checks signatures, as a user without rights."""


def _write_file(path: str, data: bytes) -> None:
    """Write a file atomically; owner and mode are kept, symbolic links are followed. Raises CommandExecutionError."""
    from saltlite.plugins.modules._safe_files import write_whole

    write_whole(path, data, new_mode=NEW_MODE)


def _remove_file(path: str) -> None:
    """Remove a file. Raises CommandExecutionError."""
    try:
        os.unlink(path)
    except OSError as error:
        raise CommandExecutionError(f"{path} cannot be removed: {error.strerror}.") from error


# --- keys


KEYRINGS = "/etc/apt/keyrings"
"""Where keys of single sources are kept, which name them with signed-by."""

_ARMOR = b"-----BEGIN PGP PUBLIC KEY BLOCK-----"
_ENDINGS = (".gpg", ".asc")
_SHORT_ID, _LONG_ID = 8, 16


class _Place(TypedDict, total=False):
    aptkey: bool
    keydir: str | None
    keyfile: str


def get_repo_keys(aptkey: bool = True, keydir: str | None = None) -> dict[str, dict[str, Any]]:
    """The keys that sign repositories, by id: ``{id: {fingerprint, uid, algorithm, bits, date_creation, …}}``.

    With ``aptkey`` these are the keys trusted for all sources, otherwise those in ``keydir`` (``/etc/apt/keyrings``).
    ``subkey`` describes the last subkey, ``file`` is the file of the key.

    CLI Example::

        saltlite '*' pkg.get_repo_keys
        saltlite '*' pkg.get_repo_keys aptkey=False
    """
    return {row["keyid"]: row for row in _keys(aptkey=aptkey, keydir=keydir)}


def _keys(*, aptkey: bool, keydir: str | None) -> list[dict[str, Any]]:
    """The keys of every file, so that one in two files is there twice."""
    import tempfile

    folder = _folder(aptkey=aptkey, keydir=keydir)
    found: list[dict[str, Any]] = []
    # gpg creates files in its home folder.
    with tempfile.TemporaryDirectory() as home:
        gpg = ["gpg", "--batch", "--no-options", "--homedir", home, "--show-keys", "--with-colons", "--"]
        for path in [*_key_files(folder), *([] if keydir or not aptkey else _one_file())]:
            done = _packages.run([*gpg, path])
            # apt warns about a file without a key, and ignores it.
            if "no valid OpenPGP data found" not in done.stderr:
                packages.checked(done)
            found += [{**row, "file": path} for row in _parsed(done.stdout)]
    return found


def add_repo_key(
    path: str | None = None, text: str | None = None, keyserver: str | None = None, keyid: str | None = None,
    saltenv: str = "base", **kwargs: Unpack[_Place],
) -> bool:  # fmt: skip
    """Trust a key that signs repositories: the file at ``path``, ``text``, or the key ``keyid`` of ``keyserver``.

    With ``aptkey`` the key is trusted for all sources. Otherwise it is stored in ``keydir`` (``/etc/apt/keyrings``),
    and sources must refer to it with ``signed-by``. ``keyfile`` is the name of the file.

    CLI Example::

        saltlite '*' pkg.add_repo_key salt://apt/example.asc
        saltlite '*' pkg.add_repo_key salt://apt/example.asc aptkey=False keyfile=example.asc
    """
    if sum(bool(given) for given in (path, text, keyserver)) != 1:
        raise SaltInvocationError("Say where the key comes from, once: path, text, or keyserver and keyid.")
    given = _packages.take(kwargs, *_Place.__annotations__)
    folder = _folder(aptkey=given["aptkey"] is not False, keydir=given["keydir"])
    if keyserver:
        data, name = _received(str(keyserver), str(keyid or "")), f"{keyid}.gpg"
    elif path:
        data, name = _fetched(str(path), saltenv), os.path.basename(str(path))
    else:
        data, name = str(text).strip().encode() + b"\n", f"{keyid or 'key'}.asc"
    _store(data, folder, str(given["keyfile"] or name), named=bool(given["keyfile"]))
    return True


def del_repo_key(
    name: str | None = None, aptkey: bool = True, keydir: str | None = None, keyid: str | None = None
) -> str:
    """Stop trusting a key: remove the files that contain it. ``keyid`` has 8 or 16 digits. Returns the id.

    CLI Example: ``saltlite '*' pkg.del_repo_key keyid=0123ABCD``
    """
    wanted = _key_id(keyid or name)
    keys = [(row["keyid"], row["file"]) for row in _keys(aptkey=aptkey, keydir=keydir)]
    files = sorted({file for key, file in keys if key.endswith(wanted)})
    if not files:
        raise CommandExecutionError(f"There is no key {wanted} in {_folder(aptkey=aptkey, keydir=keydir)}.")
    for path in files:
        others = [key for key, file in keys if file == path and not key.endswith(wanted)]
        if others:
            raise CommandExecutionError(f"{path} also holds {', '.join(others)}: remove the file, if that is intended.")
    for path in files:
        _remove_file(path)
    return wanted


def _folder(*, aptkey: bool, keydir: str | None) -> str:
    folder = str(keydir) if keydir else packages.places().trusted.rstrip("/") if aptkey else KEYRINGS
    if not os.path.isabs(folder):
        raise SaltInvocationError(f"{folder} is not the absolute path of a folder.")
    return folder


def _key_files(folder: str) -> list[str]:
    with contextlib.suppress(FileNotFoundError):
        return [os.path.join(folder, name) for name in sorted(os.listdir(folder)) if name.endswith(_ENDINGS)]
    return []


def _one_file() -> list[str]:
    """The file in which `apt-key` kept all keys; apt still trusts them."""
    path = packages.places().trusted_file
    return [path] if os.path.isfile(path) else []


def _key_id(text: str | None) -> str:
    digits = str(text or "").upper().removeprefix("0X")
    if len(digits) not in (_SHORT_ID, _LONG_ID) or not set(digits) <= set("0123456789ABCDEF"):
        raise SaltInvocationError(f"{text!r} is not the id of a key: that has {_SHORT_ID} or {_LONG_ID} digits.")
    return digits


def _fetched(path: str, saltenv: str) -> bytes:
    cached = __salt__["cp.cache_file"](path, saltenv)
    if not cached:
        raise CommandExecutionError(f"There is no file {path}.")
    with open(cached, "rb") as stream:
        return stream.read()


def _received(keyserver: str, keyid: str) -> bytes:
    """A key from a key server, fetched with a temporary keyring."""
    import tempfile

    with tempfile.TemporaryDirectory() as home:
        gpg = ["gpg", "--batch", "--no-options", "--homedir", home]
        for step in (["--keyserver", _packages.path(keyserver), "--recv-keys"], ["--armor", "--export"]):
            done = packages.checked(_packages.run([*gpg, *step, "--", _key_id(keyid)]))
        return done.stdout.encode()


def _store(data: bytes, folder: str, name: str, *, named: bool) -> None:
    armored = data.lstrip().startswith(_ARMOR)
    # apt reads .asc files as text and .gpg files as binary, and ignores all others.
    if not named:
        name = os.path.splitext(name)[0] + (".asc" if armored else ".gpg")
    if not name.endswith(_ENDINGS) or os.path.basename(name) != name or not name.isprintable():
        raise SaltInvocationError(f"{name!r} is not the name of a file of keys: it ends with .asc or .gpg.")
    if armored and name.endswith(".gpg"):
        data = _dearmored(data)
    elif not armored and (name.endswith(".asc") or not data[:1] or not data[0] & 0x80):
        raise CommandExecutionError(f"What was given for {name} is not a key.")
    try:
        os.makedirs(folder, mode=0o755, exist_ok=True)
    except OSError as error:
        raise CommandExecutionError(f"The folder {folder} cannot be made: {error.strerror}.") from error
    _write_file(os.path.join(folder, name), data)


def _dearmored(data: bytes) -> bytes:
    """The packets in the text form of a key (RFC 9580, section 6)."""
    import binascii

    _, _, body = data.replace(b"\r\n", b"\n").partition(b"\n\n")
    lines = body.partition(b"\n-----END")[0].split(b"\n")
    try:
        return binascii.a2b_base64(b"".join(line for line in lines if not line.startswith(b"=")), strict_mode=True)
    except ValueError as error:
        raise CommandExecutionError("What was given is not a key: its text form is damaged.") from error


def _parsed(colons: str) -> list[dict[str, Any]]:
    """The keys in the output of gpg --with-colons."""
    keys: list[dict[str, Any]] = []
    last: dict[str, Any] = {}
    for line in colons.splitlines():
        items = [int(item) if item.isdigit() and len(item) < _LONG_ID else item or None for item in line.split(":")]
        if items[0] in ("pub", "sub") and len(items) > 11:
            last = {
                "algorithm": items[3],
                "bits": items[2],
                "capability": items[11],
                "date_creation": items[5],
                "date_expiration": items[6],
                "keyid": str(line.split(":")[4]),
                "validity": items[1],
            }
            if items[0] == "pub":
                keys.append(last)
            elif keys:
                keys[-1]["subkey"] = last
        elif items[0] == "fpr" and last:
            last["fingerprint"] = line.split(":")[9]
        elif items[0] == "uid" and keys and "uid" not in keys[-1]:
            keys[-1].update(uid=items[9], uid_hash=items[7])
    return keys


# --- sources


_PPA_SYSTEMS = ("Ubuntu", "Mint", "neon")
_PPA = "deb https://ppa.launchpadcontent.net/{}/{}/ubuntu {} main"


class _ListingSources(TypedDict, total=False):
    disabled: bool


class _RemovingSource(TypedDict, total=False):
    refresh: bool
    test: bool


class _Modifying(TypedDict, total=False):
    architectures: str | list[str]
    comments: str | list[str]
    comps: str | list[str]
    disabled: bool
    dist: str
    enabled: bool
    file: str
    key_text: str
    key_url: str
    keyid: str
    keyserver: str
    refresh: bool
    signedby: str
    test: bool
    trusted: bool
    type: str
    uri: str


def list_repos(**kwargs: Unpack[_ListingSources]) -> dict[str, list[dict[str, Any]]]:
    """The sources by address: ``{address: [{file, type, uri, dist, comps, architectures, signedby, disabled, line,
    …}]}``.

    A stanza with several addresses, suites or types gives a row for each. ``disabled`` selects sources by their state.

    CLI Example::

        saltlite '*' pkg.list_repos
        saltlite '*' pkg.list_repos disabled=True
    """
    given = _packages.take(kwargs, *_ListingSources.__annotations__)
    found: dict[str, list[dict[str, Any]]] = {}
    for document in _source_lists():
        for source in document.sources:
            if given["disabled"] is None or source.disabled == bool(given["disabled"]):
                for row in _rows(document.path, source):
                    found.setdefault(row["uri"], []).append(row)
    return found


def get_repo(repo: str) -> dict[str, Any]:
    """The configuration of a source, as a row of ``list_repos``; an empty dict if there is none.

    ``repo`` has the format of ``sources.list``. Type, address and suite must be equal, and if ``repo`` has components,
    the source must have one of them.

    CLI Example: ``saltlite '*' pkg.get_repo 'deb http://deb.debian.org/debian bookworm main'``
    """
    wanted = _asked(repo)
    for document in _source_lists():
        for source in document.sources:
            if _is_meant(source, wanted):
                return next(row for row in _rows(document.path, source) if _is_row(row, wanted))
    return {}


def del_repo(repo: str, **kwargs: Unpack[_RemovingSource]) -> str:
    """Remove a source, or only the named components of it. Returns a message for each changed file.

    A file below ``sources.list.d`` is removed with its last source. A stanza for several sources is kept for the
    others. ``refresh=False`` does not fetch the package lists afterwards. ``test=True`` reports what would change, and
    changes nothing.

    CLI Example: ``saltlite '*' pkg.del_repo 'deb http://deb.debian.org/debian bookworm contrib'``
    """
    given = _packages.take(kwargs, *_RemovingSource.__annotations__)
    wanted = _asked(repo)
    messages = []
    for document in _source_lists():
        touched = [source for source in document.sources if _is_meant(source, wanted)]
        for source in touched:
            uri = next(each for each in source.uris if _same_address(each, wanted.uris[0]))
            document.replace(source, source.without(wanted.types[0], uri, wanted.suites[0], wanted.comps))
        if not touched:
            continue
        folder = packages.places().source_parts.rstrip("/")
        gone = not document.sources and os.path.dirname(document.path) == folder
        if not given["test"]:
            _save(document, remove=gone)
        messages.append(
            f"File {document.path} held no source but {repo} and has been removed."
            if gone
            else f"Repo {repo} has been removed from {document.path}."
        )
    if not messages:
        raise CommandExecutionError(f"Repo {repo} is in none of the source lists of this minion.")
    if given["refresh"] is not False and not given["test"]:
        _refresh()
    return "\n".join(messages)


def mod_repo(
    repo: str, saltenv: str = "base", aptkey: bool = True, **kwargs: Unpack[_Modifying]
) -> dict[str, dict[str, Any]]:
    """Change or add a source: ``{repo: row}``, with the row that ``get_repo`` returns.

    ``repo`` has the format of ``sources.list``. A source of the same type, address and suite that has one of its
    components, or none, is changed: it gets the components and options of ``repo``. A stanza for several sources is
    changed for all of them. Keyword arguments override ``repo``: ``uri``, ``dist``, ``type``, ``comps``,
    ``architectures``, ``signedby``, ``trusted``, ``disabled`` or ``enabled``, ``comments``. ``file`` is the file for a
    new source, deb822 if it ends with ``.sources``.

    The key that signs the source comes from ``key_url``, ``key_text``, or ``keyid`` and ``keyserver``. It is stored in
    the file that ``signedby`` names; without that it is trusted for all sources. ``refresh=False`` does not fetch the
    package lists afterwards. ``test=True`` reports what would be configured, and changes nothing.

    CLI Example::

        saltlite '*' pkg.mod_repo 'deb http://deb.debian.org/debian bookworm main' comps=main,contrib
        saltlite '*' pkg.mod_repo 'deb https://x.org/apt x main' signedby=/etc/apt/keyrings/x.asc key_url=salt://x.asc
    """
    given = _packages.take(kwargs, *_Modifying.__annotations__)
    wanted = _asked(repo)
    _refuse_control_characters(given)
    after = _wanted(wanted, given)
    found = next(
        (
            (document, source)
            for document in _source_lists()
            for source in document.sources
            if _may_become(source, wanted)
        ),
        None,
    )
    if found is None:
        document = _source_list(str(given["file"] or packages.places().source_list))
        document.add(after)
    else:
        document, source = found
        _become(source, after, wanted, given)
        after = source
    if not given["test"]:
        _add_keys(given, saltenv=saltenv, everywhere=aptkey, signed_by=after.options.get("signed-by", ""))
        _save(document)
        if given["refresh"] is not False:
            _refresh()
    dist = str(given["dist"] or wanted.suites[0])
    return {repo: next(row for row in _rows(document.path, after) if row["dist"] == dist)}


def _asked(repo: str) -> Source:
    from .source_lists import of_text

    text = str(repo)
    if not text.startswith("ppa:") or __grains__.get("os") not in _PPA_SYSTEMS:
        return of_text(text)
    owner, slash, name = text.removeprefix("ppa:").partition("/")
    codename = str(__grains__.get("oscodename") or "")
    if not slash or not codename:
        raise SaltInvocationError(
            f"{text} is not a source: write it as in ppa:owner/name, on a minion with a codename."
        )
    return of_text(_PPA.format(owner, name, codename))


def _wanted(asked: Source, given: Mapping[str, Any]) -> Source:
    after = asked.copy()
    for attribute, key in (("types", "type"), ("uris", "uri"), ("suites", "dist")):
        if given[key]:
            setattr(after, attribute, [str(given[key])])
    if given["comps"] is not None:
        after.comps = _words(given["comps"])
    if given["architectures"] is not None:
        after.options["arch"] = ",".join(_words(given["architectures"]))
    if given["signedby"]:
        after.options["signed-by"] = str(given["signedby"])
    if given["trusted"] is not None:
        after.options["trusted"] = "yes" if given["trusted"] else "no"
    if given["disabled"] is not None or given["enabled"] is not None:
        after.disabled = bool(given["disabled"]) if given["disabled"] is not None else not given["enabled"]
    if given["comments"]:
        comments = given["comments"]
        after.comment = comments if isinstance(comments, str) else " ".join(map(str, comments))
    after.options = {key: value for key, value in after.options.items() if value}
    return after


def _become(source: Source, after: Source, asked: Source, given: Mapping[str, Any]) -> None:
    """Change `source`, which contains the type, address and suite of `asked`, to `after` in these."""
    for attribute in ("types", "uris", "suites"):
        (old,), new = getattr(asked, attribute), getattr(after, attribute)
        if new != [old]:
            setattr(
                source,
                attribute,
                [new[0] if each.rstrip("/") == old.rstrip("/") else each for each in getattr(source, attribute)],
            )
    source.comps = after.comps
    source.options = {**source.options, **after.options}
    if given["architectures"] is not None and not after.architectures:
        source.options.pop("arch", None)
    if given["disabled"] is not None or given["enabled"] is not None:
        source.disabled = after.disabled
    source.comment = after.comment or source.comment


def _add_keys(given: Mapping[str, Any], *, saltenv: str, everywhere: bool, signed_by: str) -> None:
    ids = given["keyid"] or []
    for keyid in ids if isinstance(ids, list | tuple) else [each.strip() for each in str(ids).split(",")]:
        if not given["keyserver"]:
            raise SaltInvocationError("A keyid needs the keyserver that has it.")
        add_repo_key(keyserver=given["keyserver"], keyid=keyid, **_key_place(signed_by, everywhere=everywhere))
    if given["key_url"] or given["key_text"]:
        place = _key_place(signed_by, everywhere=everywhere)
        add_repo_key(path=given["key_url"], text=given["key_text"], saltenv=saltenv, **place)


def _key_place(signed_by: str, *, everywhere: bool) -> dict[str, Any]:
    if not signed_by.startswith("/"):
        return {"aptkey": everywhere}
    folder, name = os.path.split(signed_by.partition(",")[0])
    return {"aptkey": False, "keydir": folder, "keyfile": name}


def _is_meant(source: Source, wanted: Source) -> bool:
    return _is_same_place(source, wanted) and (not wanted.comps or bool(set(wanted.comps) & set(source.comps)))


def _may_become(source: Source, wanted: Source) -> bool:
    return _is_same_place(source, wanted) and (
        not source.comps or not wanted.comps or bool(set(wanted.comps) & set(source.comps))
    )


def _is_same_place(source: Source, wanted: Source) -> bool:
    return (
        wanted.types[0] in source.types
        and any(_same_address(uri, wanted.uris[0]) for uri in source.uris)
        and wanted.suites[0] in source.suites
    )


def _is_row(row: Mapping[str, Any], wanted: Source) -> bool:
    named = row["type"] == wanted.types[0] and row["dist"] == wanted.suites[0]
    return named and _same_address(row["uri"], wanted.uris[0])


def _same_address(one: str, other: str) -> bool:
    return one.rstrip("/") == other.rstrip("/")


def _refresh() -> None:
    try:
        refresh_db()
    except CommandExecutionError as error:
        raise CommandExecutionError(f"The sources were changed. {error}") from error


def _rows(path: str, source: Source) -> Iterator[dict[str, Any]]:
    for kind, uri, suite, line in source.lines():
        yield {
            "file": path,
            "line": line,
            "type": kind,
            "types": list(source.types),
            "uri": uri,
            "uris": list(source.uris),
            "dist": suite,
            "suites": list(source.suites),
            "comps": list(source.comps),
            "architectures": source.architectures,
            "signedby": source.options.get("signed-by", ""),
            "trusted": source.options.get("trusted", ""),
            "disabled": source.disabled,
            "enabled": not source.disabled,
        }


def _source_lists() -> Iterator[Document]:
    places = packages.places()
    names: list[str] = []
    with contextlib.suppress(FileNotFoundError):
        names = [name for name in sorted(os.listdir(places.source_parts)) if name.endswith((".list", ".sources"))]
    for path in [places.source_list, *(os.path.join(places.source_parts, name) for name in names)]:
        if os.path.isfile(path):
            yield _source_list(path)


def _source_list(path: str) -> Document:
    from .source_lists import Document

    if not os.path.isabs(path):
        raise SaltInvocationError(f"{path} is not an absolute path.")
    if not path.endswith((".list", ".sources")):
        raise SaltInvocationError(f"apt does not read {path}: its name has to end with .list or .sources.")
    try:
        with open(path, encoding="utf-8", errors="surrogateescape", newline="") as stream:
            return Document(path, stream.read())
    except FileNotFoundError:
        return Document(path, "")
    except OSError as error:
        raise CommandExecutionError(f"The source list {path} cannot be read: {error.strerror}.") from error


def _save(document: Document, *, remove: bool = False) -> None:
    if remove:
        _remove_file(document.path)
    else:
        _write_file(document.path, document.render().encode("utf-8", "surrogateescape"))


def _words(value: Any) -> list[str]:
    parts = value.replace(",", " ").split() if isinstance(value, str) else [str(each) for each in value]
    if any(not part or any(character.isspace() for character in part) for part in parts):
        raise SaltInvocationError(f"{value!r} is not a list of words.")
    return parts


def _refuse_control_characters(given: Mapping[str, Any]) -> None:
    """Refuse line breaks and the like, since values are written into files of lines."""
    for key, value in given.items():
        texts = value if isinstance(value, list | tuple) else [value]
        if key != "key_text" and any(not str(text).isprintable() for text in texts):
            raise SaltInvocationError(f"{key} holds control characters.")
