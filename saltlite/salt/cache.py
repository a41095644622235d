"""`salt.cache`: data of plug-ins in files below `cachedir`, in Salt's format: `<bank>/<key>.p` in msgpack."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from saltlite.salt import payload
from saltlite.salt.exceptions import SaltCacheError

_ENDING = ".p"
_DAY_S = 86400
_EXPIRING = {"data", "_expires"}


def factory(opts: Mapping[str, Any], **kwargs: Any) -> Cache:
    """The cache of these options."""
    return Cache(opts, **kwargs)


class Cache:
    """Banks with keys; a bank is a path, such as `minions/web1`. Every method raises SaltCacheError.

    `driver` other than `localfs` is refused.
    """

    def __init__(self, opts: Mapping[str, Any], cachedir: str | None = None, **kwargs: Any) -> None:
        self.opts = opts
        self.driver = kwargs.get("driver") or opts.get("cache") or "localfs"
        self.cachedir = str(cachedir or opts.get("cachedir") or "/var/cache/salt")
        if self.driver != "localfs":
            raise SaltCacheError(f"saltlite has no cache driver {self.driver!r}, only localfs.")

    def store(self, bank: str, key: str, data: Any, expires: float | None = None) -> None:
        """Write a value, which `fetch` forgets after `expires` seconds."""
        place = self._path(bank, key)
        kept = {"data": data, "_expires": int(time.time() + expires)} if expires else data
        with _problems_of(place):
            os.makedirs(os.path.dirname(place), mode=0o700, exist_ok=True)
            fd, temporary = tempfile.mkstemp(dir=os.path.dirname(place))
            with os.fdopen(fd, "wb") as file:
                file.write(payload.dumps(kept, use_bin_type=True))
            os.replace(temporary, place)

    def fetch(self, bank: str, key: str) -> Any:
        """The value; {} if there is none, or it has expired."""
        found = self._read(self._path(bank, key))
        if isinstance(found, dict) and set(found) == _EXPIRING:
            return found["data"] if found["_expires"] > time.time() else {}
        return found

    def _read(self, place: str) -> Any:
        with _problems_of(place):
            try:
                with open(place, "rb") as file:
                    data = file.read()
            except FileNotFoundError:
                return {}
            return payload.loads(data, encoding="utf-8") if data else None

    def updated(self, bank: str, key: str) -> int | None:
        """When a value was written, in seconds since 1970; None if there is none."""
        place = self._path(bank, key)
        with _problems_of(place):
            return int(os.path.getmtime(place)) if os.path.isfile(place) else None

    def flush(self, bank: str, key: str | None = None) -> bool:
        """Remove a value or a whole bank; whether there was one."""
        place = self._bank(bank) if key is None else self._path(bank, key)
        if not (os.path.isdir(place) if key is None else os.path.isfile(place)):
            return False
        with _problems_of(place):
            shutil.rmtree(place) if key is None else os.remove(place)
        return True

    def list(self, bank: str) -> list[str]:
        """The keys and banks in a bank."""
        place = self._bank(bank)
        if not os.path.isdir(place):
            return []
        with _problems_of(place):
            return [name.removesuffix(_ENDING) for name in os.listdir(place)]

    def contains(self, bank: str, key: str | None = None) -> bool:
        """Whether there is such a value, or such a bank."""
        return os.path.isdir(self._bank(bank)) if key is None else os.path.isfile(self._path(bank, key))

    def cache(
        self,
        bank: str,
        key: str,
        fun: Callable[..., Any],
        loop_fun: Callable[[Any], Any] | None = None,
        **kwargs: Any,
    ) -> Any:
        """The value or, if it is older than `expire` seconds, by default a day, what `fun` returns, which is kept."""
        written = self.updated(bank, key)
        known = self.fetch(bank, key)
        if known and written is not None and time.time() - written <= kwargs.get("expire", _DAY_S):
            return known
        found = fun(**kwargs)
        data = found if loop_fun is None else [loop_fun(one) for one in found]
        self.store(bank, key, data)
        return data

    def clean_expired(self, bank: str, *_args: Any, **_kwargs: Any) -> None:
        """Remove the values of a bank that have expired."""
        for key in self.list(bank):
            found = self._read(self._path(bank, key))
            if isinstance(found, dict) and set(found) == _EXPIRING and found["_expires"] <= time.time():
                self.flush(bank, key)

    def destroy(self) -> None:
        """Nothing is open."""

    def _bank(self, bank: str) -> str:
        place = os.path.normpath(os.path.join(self.cachedir, bank))
        if os.path.commonpath([place, os.path.normpath(self.cachedir)]) != os.path.normpath(self.cachedir):
            raise SaltCacheError(f"The bank {bank!r} leads out of {self.cachedir}.")
        return place

    def _path(self, bank: str, key: str) -> str:
        folder = self._bank(bank)
        place = os.path.normpath(os.path.join(folder, f"{key}{_ENDING}"))
        if os.path.commonpath([place, folder]) != folder:
            raise SaltCacheError(f"The key {key!r} leads out of the bank {bank!r}.")
        return place


@contextlib.contextmanager
def _problems_of(place: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise SaltCacheError(f"The cache file {place} cannot be used: {error}") from error
