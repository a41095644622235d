"""Syncs plug-ins from file_roots: the common part of `saltutil` on minions and `saltutil` of the runners.

The file client of the caller fetches and replaces the files; this module chooses them and converts errors.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from saltlite.decorators import note
from saltlite.errors import CommandExecutionError, SaltInvocationError, UsageError
from saltlite.model.files import BASE_ENV, SyncRules, names_text, read_filter

log = logging.getLogger(__name__)


class SyncRequest(NamedTuple):
    """The arguments of a sync function; `kind` is "" for all types."""

    kind: str
    saltenv: Any
    whitelist: Any
    blacklist: Any
    may_empty: bool | None


def sync(
    client: Callable[[], Any], opts: Mapping[str, Any], types: tuple[str, ...], request: SyncRequest, *,
    clean: bool = True,
) -> dict[str, Any]:  # fmt: skip
    """Sync the requested types; type -> the client's report with `synced`, `removed` and `failed`.

    With `clean` plug-ins that the master no longer has are removed. Raises SaltInvocationError and
    CommandExecutionError.
    """
    # Only True counts; a program may have passed anything.
    may_empty = (opts.get("extmod_empty") if request.may_empty is None else request.may_empty) is True
    listed = request.saltenv.split(",") if isinstance(request.saltenv, str) else request.saltenv or []
    envs = [str(name).strip() for name in listed] or [BASE_ENV]
    try:
        chosen = read_filter(opts, types, request.kind, request.whitelist, request.blacklist)
        return {
            kind: client().sync(kind, envs, SyncRules(clean, chosen.chooser(kind), may_empty, _report_removed))
            for kind in ([request.kind] if request.kind else types)
        }
    except OSError as error:
        raise CommandExecutionError(f"The plug-ins cannot be written: {error.strerror} ({error.filename})") from error
    except UsageError as error:
        raise SaltInvocationError(str(error)) from error


def raise_failed(reports: Mapping[str, Any], types: tuple[str, ...], done: str) -> None:
    """Raise CommandExecutionError for types and files that failed; `done` is what failed for files, as in "fetched"."""
    failed = {name: why for report in reports.values() for name, why in report.failed.items()}
    sentences = [why for name, why in failed.items() if name in types]
    reasons = "; ".join(f"{name}: {why}" for name, why in failed.items() if name not in types)
    if reasons:
        sentences.append(f"Nothing was changed, because not all could be {done}. {reasons}")
    if sentences:
        raise CommandExecutionError(" ".join(sentences))


def _report_removed(names: Sequence[str]) -> None:
    """Report removals in advance, because the return lists only the synced names, as in Salt."""
    text = f"plug-ins that are removed here: {names_text(names)}"
    log.warning("%s", text)
    note(text)


def noting(function: Callable[..., list[str]], sentences: Mapping[str, str]) -> dict[str, Callable[..., list[str]]]:
    """`function` under each name, with a note of the sentence of that name."""
    return {name: _noting(function, sentence) for name, sentence in sentences.items()}


def _noting(function: Callable[..., list[str]], sentence: str) -> Callable[..., list[str]]:
    @functools.wraps(function)
    def noted(*args: Any, **kwargs: Any) -> list[str]:
        note(f"Nothing was synced. {sentence}.")
        return function(*args, **kwargs)

    return noted
