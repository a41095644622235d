"""The sample files in conf/ and what the descriptors say."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from saltlite.config.load import load_master, load_minion
from saltlite.config.master import MasterConfig
from saltlite.config.minion import MinionConfig
from saltlite.config.options import assemble, options_of
from saltlite.config.render import main, samples
from saltlite.errors import nearest
from saltlite.master.processes.app import MWORKER_MODULES

CONF = Path(__file__).parents[2] / "conf"


@pytest.mark.parametrize("name", ["api", "master", "minion"])
def test_the_checked_in_sample_is_what_the_descriptors_say(name: str) -> None:
    checked_in = (CONF / name).read_text(encoding="utf-8")
    assert checked_in == samples()[name], "run `python -m saltlite.config.render` and commit conf/"


def test_the_samples_as_they_are_set_nothing(tmp_path: Path) -> None:
    assert main(["render", str(tmp_path)]) == 0
    assert load_master(str(tmp_path)).origins == {}
    assert load_minion(str(tmp_path)).origins == {}


def test_the_samples_uncommented_are_exactly_the_defaults(tmp_path: Path) -> None:
    for name, text in samples().items():
        (tmp_path / name).write_text(re.sub(r"^#(?=\S)", "", text, flags=re.MULTILINE))
    master, minion = load_master(str(tmp_path)), load_minion(str(tmp_path))
    assert master.config == MasterConfig()
    assert minion.config == MinionConfig()
    assert set(master.origins) == set(options_of(MasterConfig))
    assert set(minion.origins) == set(options_of(MinionConfig))


def test_the_module_examples_of_the_minion_sample_load(tmp_path: Path) -> None:
    (tmp_path / "minion").write_text(re.sub(r"^#   ", "", samples()["minion"], flags=re.MULTILINE))
    assert load_minion(str(tmp_path)).config.module_config == {
        "test.foo": "some text",
        "test.bar": [1, 2, 3],
        "test.baz": {"spam": "eggs"},
    }


def test_a_secret_is_marked_in_the_sample() -> None:
    described = samples()["minion"].split("\n#join_token:")[0].rsplit("\n\n", 1)[1]
    assert "It is a secret." in described


def test_the_defaults_of_the_classes_are_those_of_no_file() -> None:
    assert assemble(MasterConfig, {}) == MasterConfig()
    assert assemble(MinionConfig, {}) == MinionConfig()


def test_a_configuration_made_by_hand_follows_root_dir() -> None:
    config = assemble(MasterConfig, {"root_dir": "/tmp/x", "data_dir": "store"})
    assert (config.sock_dir, config.data_dir) == ("/tmp/x/run/saltlite/master", "/tmp/x/store")


def test_two_configurations_share_no_lists() -> None:
    MinionConfig().master.append("other")
    assert MinionConfig().master == ["salt"]


def test_the_nearest_name_is_found_and_a_strange_one_is_not() -> None:
    assert nearest("publish_prot", ["port", "publish_port", "ret_port"]) == "publish_port"
    assert nearest("zzz", ["port", "publish_port"]) is None


@pytest.mark.parametrize(
    ("module", "forbidden"),
    [
        ("saltlite.config.fast", {"yaml", "dataclasses", "typing", "asyncio", "cryptography", "zmq"}),
        ("saltlite.config.minion", {"yaml", "asyncio", "cryptography", "zmq", "tornado"}),
        ("saltlite.config.load", {"asyncio", "cryptography", "zmq", "tornado", "msgpack"}),
    ],
)
def test_imports_stay_light(module: str, forbidden: set[str]) -> None:
    program = f"import sys; before = set(sys.modules); import {module}; print(*(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", program], cwd=CONF.parent, check=True, capture_output=True, text=True)
    assert forbidden.isdisjoint(done.stdout.split())


OPENSSL = ("hashlib", "hmac", "secrets")
"""Modules that load a second OpenSSL, beside that of the cryptography package."""
NEVER = ("asyncio", "concurrent.futures", "email", "http", "jinja2", "multiprocessing", "ssl", "tornado", "zipfile")
"""What no long-lived process of a daemon imports before it has something to do."""
BEFORE_THE_LINK = ("saltlite.cli.daemon", "saltlite.config.apart", "saltlite.minion.processes.start")
"""What the minion imports before it forks its link process."""
MINION = (*BEFORE_THE_LINK, "saltlite.minion.processes.app")
MASTER = ("saltlite.config.load", "saltlite.config.master", "saltlite.master.processes.app")
PROCESSES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "job server, its job processes and the fork server": (
        (*MINION, "saltlite.minion.jobs.process_pool"),
        (*NEVER, *OPENSSL, "argparse", "difflib", "encodings.idna", "ipaddress", "pathlib", "urllib", "yaml", "zmq",
         "sqlite3", "saltlite.config.load", "saltlite.config.options", "saltlite.plugins.grains.core",
         "saltlite.config.minion", "saltlite.config.master", "saltlite.config.api", "saltlite.auth", "saltlite.hooks",
         "saltlite.targeting", "saltlite.master", "saltlite.api", "saltlite.cli.commands"),
    ),
    "minion link": (
        (*BEFORE_THE_LINK, "saltlite.minion.processes.network", "saltlite.minion.protocol.connection",
         "saltlite.platform.zmq_link"),
        (*NEVER, *OPENSSL, "argparse", "difflib", "encodings.idna", "ipaddress", "locale", "pathlib", "shutil",
         "subprocess", "tempfile", "urllib", "sqlite3", "yaml", "saltlite.config.load", "saltlite.config.options",
         "saltlite.config.minion", "saltlite.loader", "saltlite.minion.jobs", "saltlite.minion.resources",
         "saltlite.pillar", "saltlite.plugins", "saltlite.resources", "saltlite.targeting", "saltlite.master"),
    ),
    "supervisor of the master": (
        MASTER,
        (*NEVER, "zmq", "sqlite3", "saltlite.config.minion", "saltlite.config.api", "saltlite.loader",
         "saltlite.minion", "saltlite.plugins", "saltlite.master.handlers", "saltlite.master.store.sqlite"),
    ),
    "master link": (
        ("saltlite.master.processes.link", "saltlite.platform.zmq_link"),
        (*NEVER, "sqlite3", "yaml", "subprocess", "saltlite.auth", "saltlite.config", "saltlite.loader",
         "saltlite.master.handlers", "saltlite.master.store.sqlite", "saltlite.pillar", "saltlite.plugins",
         "saltlite.resources", "saltlite.targeting", "saltlite.minion"),
    ),
    "MWorkers, maintenance and evaluators": (
        (*MASTER, *MWORKER_MODULES),
        (*NEVER, "zmq", "saltlite.config.minion", "saltlite.config.api", "saltlite.loader", "saltlite.minion",
         "saltlite.plugins"),
    ),
    "auth": (
        (*MASTER, "saltlite.loader.loader", "saltlite.master.processes.auth_process"),
        (*NEVER, "zmq", "sqlite3", "saltlite.config.minion", "saltlite.minion", "saltlite.master.handlers",
         "saltlite.master.store.sqlite"),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("modules", "forbidden"), PROCESSES.values(), ids=PROCESSES.keys())
def test_a_process_imports_only_what_it_needs(modules: tuple[str, ...], forbidden: tuple[str, ...]) -> None:
    program = f"import sys, importlib\nfor name in {modules!r}: importlib.import_module(name)\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], cwd=CONF.parent, check=True, capture_output=True, text=True)
    assert sorted(set(forbidden) & set(done.stdout.split())) == []
