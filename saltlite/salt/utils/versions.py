"""`salt.utils.versions`: versions and their order, and warnings that end with a version.

Contract: `packaging.version` and `distutils.version.LooseVersion`, which need not be installed.
"""

from __future__ import annotations

import datetime
import functools
import logging
import os
import re
import sys
import warnings
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from saltlite.decorators import note
from saltlite.salt.version import SaltStackVersion, SaltVersion, __version_info__

log = logging.getLogger(__name__)

_PEP440 = re.compile(
    r"""\s*v?(?:(?P<epoch>\d+)!)?(?P<release>\d+(?:\.\d+)*)
    (?:[-_.]?(?P<pre>alpha|beta|preview|pre|rc|a|b|c)[-_.]?(?P<pre_number>\d*))?
    (?:(?:-(?P<post_short>\d+))|(?:[-_.]?(?P<post>post|rev|r)[-_.]?(?P<post_number>\d*)))?
    (?:[-_.]?(?P<dev>dev)[-_.]?(?P<dev_number>\d*))?
    (?:\+(?P<local>[a-z0-9]+(?:[-_.][a-z0-9]+)*))?\s*""",
    re.VERBOSE | re.IGNORECASE,
)
_PRE_NAMES = {"alpha": "a", "beta": "b", "c": "rc", "pre": "rc", "preview": "rc"}
_FIRST, _LAST = float("-inf"), float("inf")


class InvalidVersion(ValueError):
    """A text is no version by PEP 440."""


@functools.total_ordering
class Version:
    """A version by PEP 440; it compares with texts, too. Raises InvalidVersion."""

    def __init__(self, version: str) -> None:
        found = _PEP440.fullmatch(version)
        if found is None:
            raise InvalidVersion(f"Invalid version: {version!r}")
        self.epoch = int(found["epoch"] or 0)
        self.release = tuple(map(int, found["release"].split(".")))
        pre = (found["pre"] or "").lower()
        self.pre = (_PRE_NAMES.get(pre, pre), int(found["pre_number"] or 0)) if pre else None
        post = found["post"] or found["post_short"]
        self.post = int(found["post_number"] or found["post_short"] or 0) if post else None
        self.dev = int(found["dev_number"] or 0) if found["dev"] else None
        self.local = ".".join(re.split(r"[-_.]", found["local"].lower())) if found["local"] else None

    @property
    def base_version(self) -> str:
        return (f"{self.epoch}!" if self.epoch else "") + ".".join(map(str, self.release))

    @property
    def public(self) -> str:
        pre = "".join(map(str, self.pre or ()))
        post = "" if self.post is None else f".post{self.post}"
        return f"{self.base_version}{pre}{post}" + ("" if self.dev is None else f".dev{self.dev}")

    @property
    def is_prerelease(self) -> bool:
        return self.pre is not None or self.dev is not None

    @property
    def is_postrelease(self) -> bool:
        return self.post is not None

    @property
    def is_devrelease(self) -> bool:
        return self.dev is not None

    @property
    def major(self) -> int:
        return self.release[0]

    @property
    def minor(self) -> int:
        return self.release[1] if len(self.release) > 1 else 0

    @property
    def micro(self) -> int:
        return self.release[2] if len(self.release) > 2 else 0

    def _key(self) -> tuple[Any, ...]:
        release = list(self.release)
        while release and release[-1] == 0:
            release.pop()
        only_dev = self.pre is None and self.post is None and self.dev is not None
        pre: tuple[Any, ...] = self.pre or (("",) if only_dev else ("z",))
        post = _FIRST if self.post is None else self.post
        dev = _LAST if self.dev is None else self.dev
        parts = (self.local or "").split(".") if self.local else []
        local = tuple((1, int(part), "") if part.isdigit() else (0, 0, part) for part in parts)
        return self.epoch, tuple(release), pre, post, dev, local

    def __eq__(self, other: object) -> bool:
        known = Version(other) if isinstance(other, str) else other
        return self._key() == known._key() if isinstance(known, Version) else NotImplemented

    def __lt__(self, other: object) -> bool:
        known = Version(other) if isinstance(other, str) else other
        return self._key() < known._key() if isinstance(known, Version) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key())

    def __str__(self) -> str:
        return self.public + (f"+{self.local}" if self.local else "")

    def __repr__(self) -> str:
        return f"<Version('{self}')>"


StrictVersion = Version


def parse(version: str) -> Version:
    """The version of a text. Raises InvalidVersion."""
    return Version(version)


@functools.total_ordering
class LooseVersion:
    """Any text as numbers and words; it compares with texts, too."""

    def __init__(self, vstring: str | None = None) -> None:
        self.vstring = ""
        self.version: list[int | str] = []
        if vstring:
            self.parse(vstring)

    def parse(self, vstring: str) -> None:
        """Become the version of this text."""
        self.vstring = vstring
        parts = [part for part in re.split(r"(\d+|[a-z]+|\.)", vstring) if part and part != "."]
        self.version = [int(part) if part.isdigit() else part for part in parts]

    def _key(self, as_text: bool) -> list[Any]:
        return (
            [str(part).zfill(8) if isinstance(part, int) else part for part in self.version]
            if as_text
            else self.version
        )

    def _compared(self, other: object) -> tuple[list[Any], list[Any]] | None:
        known = LooseVersion(other) if isinstance(other, str) else other
        if not isinstance(known, LooseVersion):
            return None
        has_word = any(isinstance(part, str) for part in (*self.version, *known.version))
        return self._key(has_word), known._key(has_word)

    def __eq__(self, other: object) -> bool:
        both = self._compared(other)
        return NotImplemented if both is None else both[0] == both[1]

    def __lt__(self, other: object) -> bool:
        both = self._compared(other)
        return NotImplemented if both is None else both[0] < both[1]

    def __hash__(self) -> int:
        return hash(tuple(self._key(as_text=True)))

    def __str__(self) -> str:
        return self.vstring

    def __repr__(self) -> str:
        return f"LooseVersion ('{self}')"


def version_cmp(pkg1: Any, pkg2: Any, ignore_epoch: bool = False) -> int | None:
    """-1, 0 or 1 for two versions of packages; None if they cannot be compared."""
    texts = [str(one).split(":", 1)[-1] if ignore_epoch else str(one) for one in (pkg1, pkg2)]
    if not all(texts):
        return None
    first, second = map(LooseVersion, texts)
    return (first > second) - (first < second)


_OPERATORS: Mapping[str, tuple[int, ...]] = {
    "<": (-1,), "<=": (-1, 0), "==": (0,), ">=": (0, 1), ">": (1,), "!=": (-1, 1),
}  # fmt: skip


def compare(
    ver1: Any = "",
    oper: str = "==",
    ver2: Any = "",
    cmp_func: Callable[..., Any] | None = None,
    ignore_epoch: bool = False,
) -> bool:
    """Whether the comparison holds, by `version_cmp` or another function; False for one that cannot be made."""
    if oper not in _OPERATORS:
        log.error("Invalid operator '%s' for version comparison", oper)
        return False
    result = (cmp_func or version_cmp)(ver1, ver2, ignore_epoch=ignore_epoch)
    if result is None:
        return False
    if not isinstance(result, int):
        log.error("The version comparison function did not return an integer/long.")
        return False
    return (result > 0) - (result < 0) in _OPERATORS[oper]


def warn_until(
    version: Any,
    message: str,
    category: type[Warning] = DeprecationWarning,
    stacklevel: int | None = None,
    _version_info_: Any = None,
    _dont_call_warnings: bool = False,
) -> None:
    """Warn with `message`, in which `{version}` is the version that ends it: a number, a tuple, a name. Callers of
    execution modules and runners see it as a note.

    From that version on, a line on stderr asks for the warning's removal. Raises RuntimeError for what is no version.
    """
    level = 2 if stacklevel is None else stacklevel
    until, now = _release(version), SaltStackVersion(*(_version_info_ or __version_info__))
    if now >= until:
        what = f"is supposed to be shown until version {until.formatted_version} is released. Current version is now "
        _ask_for_removal(f"{what}{now.formatted_version}. Please remove the warning.", level)
    if not _dont_call_warnings:
        _warn(message.format(version=until.formatted_version), category, level)


def _release(version: Any) -> SaltStackVersion:
    if isinstance(version, SaltStackVersion):
        return version
    if isinstance(version, SaltVersion):
        return SaltStackVersion(*version.info)
    if isinstance(version, int):
        return SaltStackVersion(version)
    if isinstance(version, tuple):
        return SaltStackVersion(*version)
    if isinstance(version, str) and version.lower() in SaltStackVersion.LNAMES:
        return SaltStackVersion.from_name(version)
    raise RuntimeError(f"{version!r} is no version: a number, a tuple or the name of a release is expected.")


def warn_until_date(
    date: Any,
    message: str,
    category: type[Warning] = DeprecationWarning,
    stacklevel: int | None = None,
    _current_date: datetime.date | None = None,
    _dont_call_warnings: bool = False,
) -> None:
    """Warn with `message`, in which `{date}` is the date that ends it: a date, or a text such as 20300131.

    From that date on, a line on stderr asks for the warning's removal. Raises RuntimeError for what is no date.
    """
    level = 2 if stacklevel is None else stacklevel
    if isinstance(date, str):
        date = datetime.datetime.strptime(date, "%Y%m%d").replace(tzinfo=datetime.UTC)
    if not isinstance(date, datetime.date):
        raise RuntimeError(f"{date!r} is no date: a date or a text such as 20300131 is expected.")
    until = date.date() if isinstance(date, datetime.datetime) else date
    today = _current_date or datetime.datetime.now(datetime.UTC).date()
    text = message.format(date=until.isoformat(), today=today.isoformat())
    if today >= until:
        _ask_for_removal(
            f"is supposed to be shown until {until}. Today is {today}. Please remove the warning: {text}", level
        )
    if not _dont_call_warnings:
        _warn(text, category, level)


def _warn(text: str, category: type[Warning], level: int) -> None:
    """Warn as Python does, and tell the caller of the function that is running."""
    if os.environ.get("PYTHONWARNINGS") != "ignore":
        warnings.warn(text, category, stacklevel=level + 1)
        note(f"{category.__name__}: {text}")


def _ask_for_removal(what: str, level: int) -> None:
    """Raises RuntimeError where a developer wants that."""
    caller = sys._getframe(level)
    text = f"The warning triggered on filename '{caller.f_code.co_filename}', line number {caller.f_lineno}, {what}"
    if os.environ.get("RAISE_DEPRECATIONS_RUNTIME_ERRORS", "0") == "1":
        raise RuntimeError(text)
    sys.stderr.write(f"\n{text}\n")
    sys.stderr.flush()


def kwargs_warn_until(
    kwargs: Mapping[str, Any],
    version: Any,
    category: type[Warning] = DeprecationWarning,
    stacklevel: int | None = None,
    _version_info_: Any = None,
    _dont_call_warnings: bool = False,
) -> None:
    """`warn_until` about keywords that a function no longer takes, if there are any or the version has come."""
    until, now = _release(version), SaltStackVersion(*(_version_info_ or __version_info__))
    if not kwargs and now.info < until.info:
        return
    names = ", ".join(f"'{name}'" for name in kwargs)
    warn_until(
        until,
        f"The following parameter(s) have been deprecated and will be removed in '{until.string}': {names}.",
        category,
        3 if stacklevel is None else stacklevel,
        now.info,
        _dont_call_warnings,
    )


def check_boto_reqs(
    boto_ver: str | None = None,
    boto3_ver: str | None = None,
    botocore_ver: str | None = None,
    check_boto: bool = True,
    check_boto3: bool = True,
) -> Any:
    """True, or (False, a sentence) if one of Amazon's libraries is missing or too old."""
    wanted = []
    if check_boto is True:
        wanted.append(("boto", boto_ver or "2.0.0", "is required."))
    if check_boto3 is True:
        wanted += [
            ("boto3", boto3_ver or "1.2.6", "is required."),
            ("botocore", botocore_ver or "1.3.23", "is required"),
        ]
    for name, least, end in wanted:
        try:
            installed = import_module(name).__version__
        except ImportError:
            installed = ""
        if not installed or version_cmp(installed, least) == -1:
            return False, f"A minimum version of {name} {least} {end}"
    return True
