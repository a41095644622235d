"""Files of hosts. Paths are absolute; any name that the host can have, works.

:maintainer:    The saltlite authors
:maturity:      new
:platform:      POSIX, with mktemp and stat
"""

from __future__ import annotations

import posixpath
import re
import shlex
from typing import TYPE_CHECKING, Any

from saltlite.errors import CommandExecutionError, SaltInvocationError

if TYPE_CHECKING:
    from saltlite.loader.hints import __resource_funcs__

__risk__ = {"remove": "remove"}

_MODE = re.compile(r"[0-7]{1,4}|[ugoa]*[-+=][rwxXstugo]*(?:,[ugoa]*[-+=][rwxXstugo]*)*", re.ASCII)
_OWNER = re.compile(r"[^\s:\x00-\x1f-][^\s:\x00-\x1f]*")
_HASHES = ("md5", "sha1", "sha224", "sha256", "sha384", "sha512")
_STATS = ("mode", "uid", "user", "gid", "group", "size", "atime", "mtime", "ctime", "inode", "type")
_TYPES = {
    "regular file": "file",
    "regular empty file": "file",
    "directory": "dir",
    "symbolic link": "link",
    "character special file": "char",
    "block special file": "block",
    "fifo": "pipe",
    "socket": "socket",
}

# The new content is complete before it takes the place of the old, whose owner and mode it keeps.
_REPLACE = """
[ ! -d "$f" ] || { echo "$f is a directory" >&2; exit 1; }
[ ! -L "$f" ] || f=$(readlink -f -- "$f") || exit
t=$(mktemp "$f.XXXXXXXX") || exit
trap 'rm -f -- "$t"' EXIT
if [ -e "$f" ]; then cp -p -- "$f" "$t"; else chmod "$(printf %o $((0666 & ~0$(umask))))" "$t"; fi || exit
cat >"$t" || exit
[ "$(wc -c <"$t")" -eq "$size" ] || { echo "the connection ended before the content" >&2; exit 1; }
mv -f -- "$t" "$f"
"""
_EXTEND = """
t=$(mktemp) || exit
trap 'rm -f -- "$t"' EXIT
cat >"$t" || exit
[ "$(wc -c <"$t")" -eq "$size" ] || { echo "the connection ended before the content" >&2; exit 1; }
[ ! -s "$f" ] || [ -z "$(tail -c 1 -- "$f")" ] || echo >>"$f" || exit
cat -- "$t" >>"$f"
"""


def file_exists(path: str) -> bool:
    """
    Whether there is a file of that name; a directory is none.

    CLI Example: ``saltlite web-1 file.file_exists /etc/passwd``
    """
    return _holds('[ -f "$f" ]', path)


def directory_exists(path: str) -> bool:
    """
    Whether there is a directory of that name.

    CLI Example: ``saltlite web-1 file.directory_exists /etc``
    """
    return _holds('[ -d "$f" ]', path)


def read(path: str, binary: bool = False) -> str | bytes:
    """
    The content of a file; with ``binary=True`` its bytes, whatever they are.

    CLI Example: ``saltlite web-1 file.read /etc/hostname``
    """
    content: bytes = _run('cat -- "$f"', path)
    if binary:
        return content
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise CommandExecutionError(f"{path} is not text in UTF-8; use binary=True") from error


def write(path: str, *args: Any) -> str:
    """
    Have a file consist of these lines. All of it is there, or the old content still is; the owner and the mode of a
    file that exists stay. Bytes are written as they are.

    CLI Example: ``saltlite web-1 file.write /etc/motd 'Welcome.' 'Be nice.'``
    """
    _run(_REPLACE, path, _content(args))
    return f"Wrote {len(args)} lines to {path}"


def append(path: str, *args: Any) -> str:
    """
    Add lines to the end of a file. Bytes are added as they are.

    CLI Example: ``saltlite web-1 file.append /etc/motd 'And again.'``
    """
    _run(_EXTEND, path, _content(args))
    return f"Wrote {len(args)} lines to {path}"


def stats(path: str, follow_symlinks: bool = True) -> dict[str, Any]:
    """
    Size, owner, mode, type and times of a file.

    CLI Example: ``saltlite web-1 file.stats /etc/passwd``
    """
    follow = "-L " if follow_symlinks else ""
    printed = _run(f"stat {follow}-c '%a %u %U %g %G %s %X %Y %Z %i %F' -- \"$f\"", path)
    values = printed.decode(errors="replace").strip().split(" ", len(_STATS) - 1)
    if len(values) != len(_STATS):
        raise CommandExecutionError(f"The host's stat printed something else: {printed[:100]!r}")
    found: dict[str, Any] = dict(zip(_STATS, values, strict=True))
    for name in ("uid", "gid", "size", "atime", "mtime", "ctime", "inode"):
        found[name] = int(found[name])
    return found | {"mode": found["mode"].zfill(4), "type": _TYPES.get(found["type"], found["type"]), "target": path}


def get_hash(path: str, form: str = "sha256") -> str:
    """
    A hash of the content: md5, sha1, sha224, sha256, sha384 or sha512, in hexadecimal digits.

    CLI Example: ``saltlite web-1 file.get_hash /etc/passwd``
    """
    if form not in _HASHES:
        raise SaltInvocationError(f"{form!r} is not one of {', '.join(_HASHES)}.")
    return _run(f'{form}sum <"$f"', path).decode(errors="replace").split(" ")[0]


def set_mode(path: str, mode: str) -> str:
    """
    Change the mode, ``0644`` or ``u+x``; the mode that the file then has.

    CLI Example: ``saltlite web-1 file.set_mode /etc/motd 0644``
    """
    text = str(mode)
    if not _MODE.fullmatch(text):
        raise SaltInvocationError(f"{mode!r} is not a mode such as 0644 or u+x.")
    _run(f'chmod -- {shlex.quote(text)} "$f"', path)
    changed: str = stats(path)["mode"]
    return changed


def chown(path: str, user: str | None = None, group: str | None = None) -> None:
    """
    Change the owner, the group, or both.

    CLI Example: ``saltlite web-1 file.chown /srv/www www-data www-data``
    """
    owner = f"{_name(user)}:{_name(group)}" if group else _name(user)
    if not owner:
        raise SaltInvocationError("Name a user, a group, or both.")
    _run(f'chown -- {shlex.quote(owner)} "$f"', path)


def mkdir(dir_path: str, user: str | None = None, group: str | None = None, mode: str | None = None) -> bool:
    """
    Make a directory, and those above it that are missing.

    CLI Example: ``saltlite web-1 file.mkdir /srv/www/static``
    """
    _run('mkdir -p -- "$f"', dir_path)
    if user or group:
        chown(dir_path, user, group)
    if mode is not None:
        set_mode(dir_path, mode)
    return True


def remove(path: str) -> bool:
    """
    Remove a file, or a directory with all that is in it. False when there is none.

    CLI Example: ``saltlite web-1 file.remove /tmp/old``
    """
    if posixpath.normpath(path).strip("/") == "" or ".." in path.split("/"):
        raise SaltInvocationError(f"{path!r} is not removed: name one thing below /, without `..`.")
    return _holds('{ [ -e "$f" ] || [ -L "$f" ] || exit 1; rm -rf -- "$f" || exit 2; }', path)


def _run(script: str, path: str, content: bytes | None = None) -> bytes:
    """The output of a script that sees the path as `$f`, and the size of its input as `$size`."""
    head = f"f={_quoted(path)}\n" + (f"size={len(content)}\n" if content is not None else "")
    output: bytes = __resource_funcs__["ssh.checked"](head + script, stdin=content)
    return output


def _holds(test: str, path: str) -> bool:
    """Whether a test about `$f` succeeds; a return code above 1 is an error."""
    done = __resource_funcs__["ssh.run"](f"f={_quoted(path)}\n{test}")
    if done.retcode > 1:
        raise CommandExecutionError(done.stderr.decode(errors="replace").strip() or f"The test failed for {path}")
    return bool(done.retcode == 0)


def _quoted(path: Any) -> str:
    if not isinstance(path, str) or not path.startswith("/"):
        raise SaltInvocationError(f"{path!r} is not an absolute path.")
    return shlex.quote(path)


def _content(lines: tuple[Any, ...]) -> bytes:
    return b"".join(line if isinstance(line, bytes) else f"{line}\n".encode() for line in lines)


def _name(name: str | None) -> str:
    if name and not _OWNER.fullmatch(str(name)):
        raise SaltInvocationError(f"{name!r} is not the name of a user or group.")
    return str(name or "")
