"""The locations of configuration files, and how `root_dir` moves paths. Used by the full loader and the fast reader.

The import must stay cheap: it is on the CLI's hot path.
"""

from __future__ import annotations

import errno
import os
import stat

from saltlite.errors import UsageError

DEFAULT_CONFIG_DIR = "/etc/saltlite"
DEFAULT_ROOT_DIR = "/"
DEFAULT_SOCK_DIR = "/run/saltlite/master"
SOCKET_NAME = "master.ipc"

FILE_BYTES_MAX = 1024 * 1024
"""A larger configuration file is refused: it must be some other file in the wrong place."""

SOCKET_PATH_BYTES_MAX = 107
"""Linux has 108 bytes for the address of a Unix socket, including the final NUL (unix(7))."""


def default_under(root_dir: str, path: str) -> str:
    """A default path, moved below `root_dir`. The empty path means "none" and stays empty."""
    return os.path.join(root_dir, path.lstrip("/")) if path else ""


def given_under(root_dir: str, path: str) -> str:
    """A path from a file: an absolute one is unchanged, others are below `root_dir`."""
    return path if path.startswith("/") else default_under(root_dir, path)


def is_url(text: str) -> bool:
    """Whether a text begins with the scheme of a URL, as in `file:///dev/log`."""
    scheme, colon, _rest = text.partition("://")
    return bool(colon) and scheme[:1].isalpha() and scheme.isascii() and not set(scheme) & set("/ ")


def require_path(text: str) -> str:
    """The text, which should be a path. Raises UsageError for a URL, which would create a folder of that name.

    A URL may contain a password, so only the path of a file:// is repeated.
    """
    if not is_url(text):
        return text
    scheme, _colon, rest = text.partition("://")
    way_out = (
        f"write {rest[:80]}" if scheme.lower() == "file" and rest.startswith("/") else "write the path of a file here"
    )
    raise UsageError(f"a path is needed, not a URL ({scheme[:20]}://...); {way_out}")


def master_socket(sock_dir: str) -> str:
    """The Unix socket on which the master answers the CLI and the API."""
    return os.path.join(sock_dir, SOCKET_NAME)


def socket_path_fits(path: str) -> bool:
    """Whether `path` is short enough for the address of a Unix socket."""
    return len(os.fsencode(path)) <= SOCKET_PATH_BYTES_MAX


def config_files(config_dir: str, name: str) -> list[str]:
    """The files to read for `name` (`master`, `minion`), first to last: `DIR/name`, then `DIR/name.d/*.conf`.

    Files of the `.d` folder are in the order of their names, without hidden ones. The main file may be missing in the
    default folder only; in any other folder it is listed, so that reading it fails. Raises OSError if the `.d` folder
    exists and cannot be listed.
    """
    main = os.path.join(config_dir, name)
    is_default = os.path.normpath(config_dir) == DEFAULT_CONFIG_DIR
    files = [] if is_default and not os.path.lexists(main) else [main]
    folder = f"{main}.d"
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        names = []
    files += [os.path.join(folder, n) for n in sorted(names) if n.endswith(".conf") and not n.startswith(".")]
    return files


def read_config_file(path: str) -> bytes:
    """The content of a configuration file.

    Raises OSError, with EINVAL for anything but a regular file (a pipe would block the daemon), and EFBIG for more than
    FILE_BYTES_MAX bytes.
    """
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", path)
        with open(fd, "rb", closefd=False) as file:
            content = file.read(FILE_BYTES_MAX + 1)
    finally:
        os.close(fd)
    if len(content) > FILE_BYTES_MAX:
        raise OSError(errno.EFBIG, "too large", path)
    return content
