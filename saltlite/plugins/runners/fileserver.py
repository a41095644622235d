"""The files that this master serves from ``file_roots``.

The only backend is ``roots``. Nothing is cached: changes in the folders are served at once.

:maintainer:    The saltlite authors
:maturity:      new
:platform:      Linux
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from saltlite.errors import SaltInvocationError

if TYPE_CHECKING:
    from saltlite.loader.hints import __client__

_BACKENDS = {"roots", "file_roots"}


def envs(backend: str | list[str] | None = None, sources: bool = False) -> list[str] | dict[str, list[str]]:
    """Return the environments, sorted; with ``sources`` by backend.

    CLI Example::

        saltlite-run fileserver.envs
        saltlite-run fileserver.envs sources=True
    """
    _require(backend)
    found = list(_names("envs"))
    return {"roots": found} if sources else found


def file_list(saltenv: str = "base", backend: str | list[str] | None = None) -> list[str]:
    """Return the files of an environment, relative to its root, sorted.

    CLI Example::

        saltlite-run fileserver.file_list
        saltlite-run fileserver.file_list saltenv=dev
    """
    _require(backend)
    return list(_names("files", saltenv))


def dir_list(saltenv: str = "base", backend: str | list[str] | None = None) -> list[str]:
    """Return the folders of an environment, like ``file_list``.

    CLI Example: ``saltlite-run fileserver.dir_list``
    """
    _require(backend)
    return list(_names("folders", saltenv))


def empty_dir_list(saltenv: str = "base", backend: str | list[str] | None = None) -> list[str]:
    """Return the folders of an environment without served files, like ``file_list``.

    CLI Example: ``saltlite-run fileserver.empty_dir_list``
    """
    _require(backend)
    folders = _names("folders", saltenv)
    filled = {name.rpartition("/")[0] for name in (*folders, *_names("files", saltenv))}
    return [name for name in folders if name not in filled]


def symlink_list(saltenv: str = "base", backend: str | list[str] | None = None) -> dict[str, str]:
    """Return the symbolic links of an environment and their targets.

    Links that lead out of the root are not served and not listed.

    CLI Example: ``saltlite-run fileserver.symlink_list``
    """
    _require(backend)
    return _names("links", saltenv)


def update(backend: str | list[str] | None = None) -> bool:
    """Return True: there is no cache to update.

    CLI Example: ``saltlite-run fileserver.update``
    """
    _require(backend)
    return True


def clear_cache(backend: str | list[str] | None = None) -> str:
    """Return a message that no cache was cleared, because there is none.

    CLI Example: ``saltlite-run fileserver.clear_cache``
    """
    _require(backend)
    return "No cache was cleared"


def clear_file_list_cache(
    saltenv: str | list[str] | None = None,  # noqa: ARG001 - Salt's signature
    backend: str | list[str] | None = None,
) -> dict[str, list[str]]:
    """Return an empty map: file lists are not cached.

    CLI Example: ``saltlite-run fileserver.clear_file_list_cache``
    """
    _require(backend)
    return {}


def _require(backend: Any) -> None:
    """Refuse Salt's other backends instead of showing the files of this one."""
    words = backend.split(",") if isinstance(backend, str) else backend or []
    others = [str(word) for word in words if str(word).strip() not in _BACKENDS]
    if others:
        raise SaltInvocationError(f"The backend {', '.join(others)[:80]} is not supported; roots is the only one.")


def _names(act: str, env: str = "base") -> dict[str, str]:
    found: dict[str, str] = {}
    after: dict[str, str] = {}
    while True:
        answer = __client__.call("file_list", operation=act, env=env, **after)
        found.update(answer["names"])
        if not answer["more"]:
            return found
        after = {"after": max(answer["names"])}
