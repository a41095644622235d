"""The units, read by systemd itself."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

UNITS = Path(__file__).parent.parent / "systemd"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not on this machine")
@pytest.mark.parametrize("daemon", ["saltlite-master", "saltlite-minion"])
def test_systemd_finds_nothing_wrong_with_the_unit(daemon: str, tmp_path: Path) -> None:
    script = Path(sys.executable).parent / daemon
    unit = tmp_path / f"{daemon}.service"
    text = (UNITS / unit.name).read_text()
    unit.write_text(text.replace(f"ExecStart=/opt/saltlite/bin/{daemon}", f"ExecStart={script}"))
    assert script.exists()
    verdict = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True, text=True, check=False, timeout=30
    )
    assert (verdict.returncode, verdict.stderr) == (0, "")


def test_both_daemons_have_a_unit_that_starts_the_installed_script() -> None:
    for daemon in ("saltlite-master", "saltlite-minion"):
        assert f"ExecStart=/opt/saltlite/bin/{daemon}\n" in (UNITS / f"{daemon}.service").read_text()
