"""Runs inputs through a surface, one after the other, and writes down what they cost and what they broke."""

from __future__ import annotations

import gc
import hashlib
import json
import os
import resource
import signal
import time
import traceback
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import FrameType
from typing import NoReturn

from tests.fuzz.surface import Surface

HANG_MS = 1000.0
"""Milliseconds of CPU after which an input is a hang. Time that others had the CPU does not count."""
STOP_S = 5.0
"""Seconds of CPU after which an input is interrupted."""
LEAP_BYTES = 256 * 1024 * 1024
"""An input that takes so much more memory than all before it is a finding."""
GROWTH_BYTES = 128 * 1024 * 1024
"""A harness that holds so much more at the end than after its first inputs grows."""
WARM = 2000
"""So many inputs fill caches, before memory is compared."""
SAVE_S = 1.0
FINDINGS_MAX = 100

_PAGE = os.sysconf("SC_PAGE_SIZE")


class TooLongError(BaseException):
    """An input was interrupted. No `except Exception` of the product catches it."""


@dataclass(slots=True)
class Report:
    """What a run came to. Sizes in bytes, times as their names say."""

    executions: int = 0
    seconds: float = 0.0
    slowest_ms: float = 0.0
    memory: int = 0
    growth: int = 0
    crashes: dict[str, str] = field(default_factory=dict)
    """What broke and where -> the file with the input."""
    slow: list[str] = field(default_factory=list)
    """Files with inputs that took HANG_MS or longer."""


class Runner:
    """Findings are kept in `findings`; the report is written to `said` now and then, because engines end processes."""

    def __init__(self, surface: Surface, findings: Path, said: Path) -> None:
        self._surface = surface
        self._findings = findings
        self._said = said
        self._began = self._saved = time.monotonic()
        self._peak = _peak()
        self.report = Report()
        findings.mkdir(parents=True, exist_ok=True)
        signal.signal(signal.SIGPROF, _too_long)

    def one(self, data: bytes) -> None:
        """Run one input. It raises nothing: what is found is saved."""
        begin = time.process_time()
        try:
            signal.setitimer(signal.ITIMER_PROF, STOP_S)
            try:
                self._surface.run(data)
            finally:
                signal.setitimer(signal.ITIMER_PROF, 0.0)
        except TooLongError:
            pass
        except Exception as error:  # noqa: BLE001 - that is what is looked for
            self._crashed(data, error)
        spent_ms = (time.process_time() - begin) * 1000
        self._count(data, spent_ms)

    def save(self) -> None:
        """Write the report."""
        self.report.seconds = round(time.monotonic() - self._began, 1)
        text = json.dumps(asdict(self.report))
        new = self._said.with_suffix(".new")
        new.write_text(text)
        new.replace(self._said)
        self._saved = time.monotonic()

    def _count(self, data: bytes, spent_ms: float) -> None:
        report = self.report
        report.executions += 1
        report.slowest_ms = max(report.slowest_ms, round(spent_ms, 1))
        if spent_ms >= HANG_MS and len(report.slow) < FINDINGS_MAX:
            report.slow.append(self._keep("slow", data))
        peak = _peak()
        if peak - self._peak >= LEAP_BYTES and report.executions > 1:
            report.crashes.setdefault(f"memory: {(peak - self._peak) >> 20} MiB more at once", self._keep("leap", data))
        self._peak = peak
        if report.executions == WARM:
            gc.collect()
            report.memory = _held()
        if time.monotonic() - self._saved >= SAVE_S:
            if report.executions > WARM:
                report.growth = _held() - report.memory
            self.save()

    def _crashed(self, data: bytes, error: Exception) -> None:
        what = f"{type(error).__name__} at {_place(error)}: {str(error)[:120]}"
        known = what.partition(": ")[0]
        if all(not one.startswith(known + ":") for one in self.report.crashes):
            if len(self.report.crashes) < FINDINGS_MAX:
                where = self._keep("crash", data)
                Path(where + ".txt").write_text("".join(traceback.format_exception(error)), errors="replace")
                self.report.crashes[what] = where
            self.save()

    def _keep(self, kind: str, data: bytes) -> str:
        path = self._findings / f"{kind}-{hashlib.sha256(data).hexdigest()[:16]}"
        path.write_bytes(data)
        return str(path)


def _too_long(_signum: int, _frame: FrameType | None) -> NoReturn:
    raise TooLongError


def _place(error: BaseException) -> str:
    """The innermost line of the product that is in the trace."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if "/saltlite/" in frame.filename and "/tests/" not in frame.filename]
    found = (own or frames)[-1]
    return f"{'/'.join(found.filename.split('/')[-3:])}:{found.lineno}"


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _held() -> int:
    with suppress(OSError), open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * _PAGE
    return 0
