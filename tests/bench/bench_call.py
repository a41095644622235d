"""How long `saltlite-call --local test.ping` takes: `python tests/bench/bench_call.py` prints medians as JSON.

Whole processes, one after the other: an interpreter that does nothing, then the command with no module of one's own,
and with 300 of them, of which none is called.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.bench.measure import Figure, machine, timed  # noqa: E402 - the path above is needed for it

ROUNDS = 15
MODULES = 300
CALL = Figure("s", 0.25, "0.87 s")


def main() -> None:
    """Measure and print."""
    saltlite = str(Path(sys.executable).parent / "saltlite")
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "root/var/cache/saltlite/minion").mkdir(parents=True)
        plain, many = Path(folder) / "plain", Path(folder) / "many"
        for config_dir in (plain, many):
            config_dir.mkdir()
            (config_dir / "minion").write_text(f"root_dir: {folder}/root\nid: web1\n")
        modules = many / "ext" / "modules"
        modules.mkdir(parents=True)
        for number in range(MODULES):
            body = "".join(
                f"def f{one}(name: str, force: bool = False):\n    return [name, force]\n" for one in range(20)
            )
            (modules / f"mine{number}.py").write_text(body)
        (many / "minion").write_text(f"root_dir: {folder}/root\nid: web1\nextension_modules: {many}/ext\n")

        def walls(config_dir: Path) -> list[float]:
            argv = [saltlite, "call", "-c", str(config_dir), "--local", "test.ping"]
            runs = [timed(argv) for _ in range(ROUNDS + 1)][1:]  # the first one compiles
            assert all(run.code == 0 for run in runs)
            return [run.wall_s for run in runs]

        result = {
            "machine": machine(),
            "bare_python_s": [round(timed([sys.executable, "-c", "pass"]).wall_s, 4) for _ in range(5)],
            "call": CALL.report(walls(plain)),
            f"call_beside_{MODULES}_modules": CALL.report(walls(many)),
        }
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
