"""Pillar: each minion gets its own, when it connects and when it is told to, and targets see it."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.support.fleet import Fleet, wait_until

pytestmark = pytest.mark.e2e

TOP = """
base:
  '*':
    - all
  'web*':
    - web.secrets
  'os_of_test:Debian':
    - match: grain
    - by_grain
"""


def put(fleet: Fleet, path: str, content: str) -> Path:
    """A pillar file of the master."""
    place = fleet.root("master") / "srv/pillar" / path
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(content)
    return place


def run(fleet: Fleet, tgt: str, *words: str) -> dict[str, Any]:
    """What each minion returned."""
    said = fleet.cli(tgt, *words, "--out", "json")
    assert said.code == 0, said.err
    returned: dict[str, Any] = said.json()
    return returned


@pytest.fixture
def webs(fleet: Fleet) -> Fleet:
    """A master with pillar, the minion `web` with a grain that it is targeted by, and `db`."""
    put(fleet, "top.sls", TOP)
    put(fleet, "all.sls", "who: {{ grains.id }}\nport: 80\n")
    put(fleet, "web/secrets.sls", "password: sesame-web\n")
    put(fleet, "by_grain.sls", "grain: yes\n")
    fleet.start_master()
    fleet.join("web", grains={"os_of_test": "Debian"})
    fleet.join("db")
    # Who has run a job has its pillar.
    run(fleet, "*", "test.ping")
    return fleet


def test_each_minion_has_its_own_pillar_from_its_first_job_on(webs: Fleet) -> None:
    assert run(webs, "*", "pillar.items") == {
        "web": {"who": "web", "port": 80, "password": "sesame-web", "grain": True},
        "db": {"who": "db", "port": 80},
    }


def test_a_refresh_brings_what_has_changed_to_the_next_job(webs: Fleet) -> None:
    put(webs, "all.sls", "port: 443\n")
    assert run(webs, "*", "pillar.get", "port") == {"web": 80, "db": 80}
    assert run(webs, "*", "saltutil.refresh_pillar") == {"web": True, "db": True}
    assert run(webs, "*", "pillar.get", "port") == {"web": 443, "db": 443}


def test_a_call_on_the_machine_makes_the_running_minion_refresh_and_fails_without_one(webs: Fleet) -> None:
    put(webs, "all.sls", "port: 443\n")
    said = webs.cli("call", "saltutil.refresh_pillar", "--out", "json", master="db")
    assert (said.code, said.json()) == (0, {"local": True})
    assert run(webs, "*", "pillar.get", "port") == {"web": 80, "db": 443}
    webs.daemons["db"].stop()
    said = webs.cli("call", "saltutil.refresh_pillar", "--out", "json", master="db")
    assert said.code == 4
    assert "could not be refreshed: that requires a running saltlite-minion here" in said.json()["local"]


def test_targets_see_the_pillar_as_it_was_given_last(webs: Fleet) -> None:
    def pinged() -> list[str]:
        return sorted(run(webs, "-I", "port:443", "test.ping"))

    assert sorted(run(webs, "-I", "port:80", "test.ping")) == ["db", "web"]
    assert sorted(run(webs, "-I", "password:*", "test.ping")) == ["web"]
    put(webs, "all.sls", "port: {{ 443 if grains.id == 'db' else 80 }}\n")
    run(webs, "*", "saltutil.refresh_pillar")
    assert pinged() == ["db"]
    assert sorted(run(webs, "-C", "I@port:80 or I@port:443", "test.ping")) == ["db", "web"]


def test_a_large_pillar_arrives_whole(webs: Fleet) -> None:
    big = {f"key{number}": "x" * 1000 for number in range(500)}
    put(webs, "all.sls", json.dumps(big))
    run(webs, "*", "saltutil.refresh_pillar")
    assert run(webs, "db", "pillar.items")["db"] == big


def test_a_mistake_is_shown_to_the_minion_and_logged_without_values(webs: Fleet) -> None:
    put(webs, "web/secrets.sls", "password: sesame: x\n")
    run(webs, "web", "saltutil.refresh_pillar")
    said = webs.cli("web", "pillar.items", "--out", "json")
    assert (said.code, "web: The pillar is incomplete: Rendering SLS 'web.secrets' failed: " in said.err) == (4, True)
    shown = said.json()["web"]
    assert shown["port"] == 80
    assert "password" not in shown
    assert "web/secrets.sls:1:17" in shown["_errors"][0]
    assert "the pillar of web is not whole" in webs.daemons["master"].log()
    assert "sesame" not in webs.daemons["master"].log()
    assert "sesame" not in webs.daemons["web"].log()


def test_the_master_shows_the_pillar_of_a_minion_that_is_away(webs: Fleet) -> None:
    webs.daemons["web"].stop()
    said = webs.cli("runner", "pillar.show_pillar", "web", "--out", "json")
    assert said.json()["password"] == "sesame-web"
    said = webs.cli("runner", "pillar.show_top", "web", "--out", "json")
    assert said.json() == {"base": ["all", "web.secrets", "by_grain"]}


def test_a_new_grain_is_seen_by_the_pillar_at_once(webs: Fleet) -> None:
    put(webs, "by_grain.sls", "arch: {{ grains.os_of_test }}\n")
    config = webs.folder / "db" / "minion"
    config.write_text(config.read_text() + "grains: {os_of_test: Debian}\n")
    webs.daemons["db"].stop()
    webs.restart_minion("db")
    webs.wait_up("db")
    assert run(webs, "db", "pillar.get", "arch") == {"db": "Debian"}


def test_a_master_that_comes_back_gives_the_pillar_again(webs: Fleet) -> None:
    webs.daemons["master"].kill_whole()
    put(webs, "all.sls", "port: 443\n")
    webs.restart_master()
    webs.wait_up("web", "db")
    wait_until(lambda: run(webs, "*", "pillar.get", "port") == {"web": 443, "db": 443}, "the new pillar")


def test_an_mworker_that_dies_with_a_question_costs_a_moment(webs: Fleet) -> None:
    put(webs, "all.sls", "port: 443\n")
    for name in ("MWorker-0", "MWorker-1"):
        pid = webs.daemons["master"].child(name)
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: webs.cli("status").code == 0, "the master answers")
        assert run(webs, "*", "saltutil.refresh_pillar") == {"web": True, "db": True}
    assert run(webs, "*", "pillar.get", "port") == {"web": 443, "db": 443}


def test_call_makes_the_pillar_of_its_own_folders(webs: Fleet, tmp_path: Path) -> None:
    (tmp_path / "pillar").mkdir()
    (tmp_path / "pillar/top.sls").write_text("base: {'web': [mine, gone]}\n")
    (tmp_path / "pillar/mine.sls").write_text("who: {{ grains.id }}\n")
    config = webs.folder / "web" / "minion"
    roots = {"base": [str(tmp_path / "pillar")]}
    config.write_text(f"{config.read_text()}pillar_roots: {json.dumps(roots)}\n")
    said = webs.cli("call", "pillar.get", "who", "--out", "json", master="web")
    assert said.json() == {"local": "web"}
    assert "the pillar is incomplete: Specified SLS 'gone'" in said.err


def test_call_has_the_last_pillar_of_the_master_where_it_is_kept(webs: Fleet) -> None:
    put(webs, "all.sls", "who: {{ grains.id }}\nresources: {dummy: {resource_ids: [d1]}}\n")
    webs.join("gate", minion_pillar_cache=True)
    run(webs, "gate", "test.ping")
    kept = webs.root("gate") / "var/cache/saltlite/minion/pillar"
    assert kept.stat().st_mode & 0o777 == 0o600
    assert webs.cli("call", "pillar.get", "who", "--out", "json", master="gate").json() == {"local": "gate"}
    said = webs.cli("call", "-r", "--tgt", "d1", "test.ping", "--out", "json", master="gate")
    assert said.json() == {"local": True}
    assert not (webs.root("db") / "var/cache/saltlite/minion/pillar").exists()
    kept.write_bytes(b"\xc1")
    said = webs.cli("call", "pillar.items", master="gate")
    assert said.code != 0
    assert f"the pillar in {kept} cannot be read" in said.err
