"""`python -m tests.fuzz SURFACE --seconds N`: runs a surface in another process, and prints what came of it as JSON.

The exit code is 0 when nothing was found, 1 when something was.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.fuzz.runner import GROWTH_BYTES, HANG_MS
from tests.fuzz.surfaces import SURFACES

_COVERED = re.compile(rb"\bcov: (\d+)")


def main() -> int:
    """Run it."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("surface", choices=sorted(SURFACES))
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--corpus", type=Path, help="inputs that are kept, and begun with")
    parser.add_argument("--findings", type=Path, help="where inputs that found something are kept")
    parser.add_argument("--blind", action="store_true", help="without coverage, even where atheris is installed")
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="fuzz-corpus-") as scratch:
        corpus = wanted.corpus or Path(scratch)
        findings = wanted.findings or Path(tempfile.mkdtemp(prefix=f"fuzz-{wanted.surface}-"))
        corpus.mkdir(parents=True, exist_ok=True)
        findings.mkdir(parents=True, exist_ok=True)
        options = [wanted.surface, "--seconds", str(wanted.seconds), "--corpus", str(corpus)]
        if wanted.blind:
            options.append("--blind")
        found = _child(options, findings, "fuzz")
        if found.get("slow"):
            found["slow"] = _really_slow(wanted.surface, corpus, findings, found["slow"])
    report = _summary(wanted.surface, found)
    print(json.dumps(report, indent=2))
    return 1 if report["failures"] else 0


def _child(options: list[str], findings: Path, name: str) -> dict[str, Any]:
    said, log = findings / f"{name}.json", findings / f"{name}.log"
    command = [sys.executable, "-m", "tests.fuzz.child", *options, "--findings", str(findings), "--said", str(said)]
    with log.open("wb") as file:
        code = subprocess.run(command, stdout=file, stderr=subprocess.STDOUT, check=False).returncode
    found: dict[str, Any] = json.loads(said.read_text()) if said.exists() else {}
    covered = _COVERED.findall(log.read_bytes())
    return {**found, "coverage": int(covered[-1]) if covered else None, "code": code, "log": str(log)}


def _really_slow(surface: str, corpus: Path, findings: Path, paths: list[str]) -> list[str]:
    """Those that are slow without what coverage costs, too."""
    slow = []
    for number, path in enumerate(paths):
        replayed = [surface, "--corpus", str(corpus), "--replay", path]
        again = _child(replayed, findings, f"replay-{number}")
        if again.get("slowest_ms", HANG_MS) >= HANG_MS:
            slow.append(path)
    return slow


def _summary(surface: str, found: dict[str, Any]) -> dict[str, Any]:
    seconds = found.get("seconds") or 0.0
    failures = [f"{what} [{path}]" for what, path in found.get("crashes", {}).items()]
    failures += [f"a hang: {path}" for path in found.get("slow", ())]
    if found["code"]:
        failures.append(f"the process ended with {found['code']}: see {found['log']}")
    if found.get("growth", 0) >= GROWTH_BYTES:
        failures.append(f"it grew by {found['growth'] >> 20} MiB")
    return {
        "surface": surface,
        "executions": found.get("executions", 0),
        "seconds": seconds,
        "executions_per_s": round(found.get("executions", 0) / seconds, 1) if seconds else 0,
        "coverage": found["coverage"],
        "growth_mib": round(found.get("growth", 0) / 2**20, 1),
        "slowest_ms": found.get("slowest_ms"),
        "crashes": len(found.get("crashes", {})),
        "failures": failures,
    }


if __name__ == "__main__":
    sys.exit(main())
