"""moto's EC2, as a real HTTP server on loopback: an API that knows three images, and has no machines yet."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

AMAZON, CANONICAL = "801119661308", "099720109477"
IMAGE, UBUNTU, OLDER_UBUNTU = "ami-11111111", "ami-22222222", "ami-33333333"

_IMAGES = [(IMAGE, "al2023-ami-2023.5", AMAZON, 2025), (UBUNTU, "ubuntu/24.04-2", CANONICAL, 2025)]
_IMAGES += [(OLDER_UBUNTU, "ubuntu/24.04-1", CANONICAL, 2024)]

needs_moto = pytest.mark.skipif(
    importlib.util.find_spec("moto") is None or importlib.util.find_spec("botocore") is None,
    reason="needs botocore and moto: pip install 'saltlite[dev]'",
)


@contextmanager
def ec2_api(folder: Path) -> Iterator[str]:
    """The address of the API, until the end of the block."""
    path = folder / "images.json"
    images = [
        {
            "ami_id": identity,
            "name": name,
            "owner_id": owner,
            "creation_date": f"{year}-01-01T00:00:00.000Z",
            "architecture": "x86_64",
            "virtualization_type": "hvm",
            "public": True,
            "root_device_name": "/dev/sda1",
        }
        for identity, name, owner, year in _IMAGES
    ]
    path.write_text(json.dumps(images), encoding="utf-8")
    with subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "MOTO_AMIS_PATH": str(path), "NO_COLOR": "1", "PYTHONUNBUFFERED": "1"},
    ) as server:
        assert server.stderr is not None
        try:
            said = next((line for line in server.stderr if "Running on" in line), "")
            found = re.search(r"http://127\.0\.0\.1:\d+", said)
            assert found is not None, "moto does not start"
            yield found[0]
        finally:
            server.kill()


def empty(endpoint: str) -> None:
    """Forget all that was made."""
    urllib.request.urlopen(f"{endpoint}/moto-api/reset", data=b"", timeout=10).close()
