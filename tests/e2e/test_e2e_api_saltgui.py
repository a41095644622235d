"""SaltGUI: the requests that its pages make, as they were recorded from its version 1.35, and what the pages read.

SaltGUI sends JSON without a Content-Type, which browsers call text. Its pages were looked at in Chromium; here stands
what they depend on.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.served import serve
from tests.support.api import Api
from tests.support.fleet import Fleet, wait_until

pytestmark = pytest.mark.e2e

SETTINGS = {
    "saltgui_templates": {"t1": {"description": "First", "target": "*", "command": "test.fib num=10", "password": "x"}},
    "saltgui_full_return": True,
}
FINGERPRINT = re.compile(r"^[0-9a-f:]+$", re.IGNORECASE)
"""What SaltGUI takes for a fingerprint."""
OLD_RELEASES = re.compile(r"^(0|201\d)$")
"""The first part of versions that SaltGUI's table of vulnerabilities knows and a release of today has not."""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Fleet, str]]:
    """A fleet with the minions `a` and `b`, and the address of its API."""
    roots = tmp_path_factory.mktemp("roots")
    (roots / "top.sls").write_text("base: {'*': [colours]}\n")
    (roots / "colours.sls").write_text("colour: blue\n")
    with serve(
        tmp_path_factory.mktemp("saltgui"),
        master={"nodegroups": {"ab": "a or b"}, "pillar_roots": {"base": [str(roots)]}},
        **SETTINGS,
    ) as both:
        yield both


@pytest.fixture(scope="module")
def admin(served: tuple[Fleet, str]) -> Api:
    """The API on behalf of a user who may do everything."""
    return Api(served[1]).log_in("admin")


def ask(api: Api, **lowstate: Any) -> Any:
    """The first return of a request as SaltGUI makes it."""
    said = api.ask(
        "POST", "/", json.dumps(lowstate).encode(), Content_Type="text/plain;charset=UTF-8", Accept="application/json"
    )
    assert said.status == 200, said
    return said.json()["return"][0]


def wheel(api: Api, fun: str, **more: Any) -> Any:
    """What a wheel function returned."""
    return ask(api, client="wheel", fun=fun, **more)["data"]["return"]


# -- login


def test_a_login_has_the_rights_without_which_saltgui_shows_nothing(served: tuple[Fleet, str]) -> None:
    body = json.dumps({"eauth": "file", "password": "a password of tests", "username": "admin"}).encode()
    said = Api(served[1]).ask("POST", "/login", body, Content_Type="text/plain;charset=UTF-8", X_Auth_Token="")
    [login] = said.json()["return"]
    assert login["perms"]
    assert login["expire"] > login["start"]
    assert "session_id=" in str(said.headers["Set-Cookie"]), "the stream of events has no header of its own"


def test_the_login_reads_the_configuration_without_secrets(admin: Api) -> None:
    values = wheel(admin, "config.values")
    assert values["nodegroups"] == {"ab": "a or b"}
    assert values["saltgui_full_return"] is True
    assert values["saltgui_templates"]["t1"]["command"] == "test.fib num=10"
    assert values["saltgui_templates"]["t1"]["password"] == "***"
    assert values["id"].endswith("_master")


def test_what_the_login_reads_of_features_that_are_missing_is_empty_or_a_text(admin: Api) -> None:
    assert ask(admin, arg=["*"], client="runner", fun="state.orchestrate_show_sls") == {}
    beacons = ask(
        admin, client="local", fun="beacons.list_available", kwarg={"return_yaml": False}, tgt_type="glob", tgt="*"
    )
    assert {"btmp", "diskusage", "inotify", "load", "service", "wtmp"} <= set(beacons["a"])


# -- pages


def test_minions(admin: Api) -> None:
    assert wheel(admin, "minions.connected") == ["a", "b"]
    lists = wheel(admin, "key.list_all")
    assert {name: lists[name] for name in ("minions", "minions_pre", "minions_rejected", "minions_denied")} == {
        "minions": ["a", "b"], "minions_pre": [], "minions_rejected": [], "minions_denied": [],
    }  # fmt: skip
    grains = ask(admin, client="local", fun="grains.items", tgt_type="glob", tgt="*")
    for one in "ab":
        assert {"os", "osrelease", "saltversion"} <= grains[one].keys()
        assert not OLD_RELEASES.match(grains[one]["saltversion"].split(".")[0])
    versions = ask(admin, client="runner", fun="manage.versions")
    assert versions["Up to date"].keys() == {"a", "b"}
    assert not OLD_RELEASES.match(versions["Master"].split(".")[0]), "each machine would be reported as vulnerable"


def test_a_cache_of_grains_and_pillars(admin: Api) -> None:
    assert ask(admin, client="runner", fun="cache.grains", tgt="*").keys() == {"a", "b"}
    assert ask(admin, client="runner", fun="cache.pillar", tgt="*").keys() == {"a", "b"}


def test_pillars(admin: Api) -> None:
    assert ask(admin, client="local", fun="pillar.obfuscate", tgt_type="glob", tgt="*")["b"] == {"colour": "<str>"}
    assert ask(admin, client="local", fun="pillar.items", tgt_type="list", tgt="a") == {"a": {"colour": "blue"}}


def test_beacons_are_a_map_for_each_minion(admin: Api) -> None:
    found = ask(admin, client="local", fun="beacons.list", kwarg={"return_yaml": False}, tgt_type="list", tgt="a")
    assert found == {"a": {}}


def test_schedules_are_a_map_for_each_minion(admin: Api) -> None:
    asked = {"client": "local", "tgt_type": "list", "tgt": "a"}
    added = ask(admin, fun="schedule.add", arg=["j"], kwarg={"function": "test.ping", "hours": 1}, **asked)
    assert added["a"]["result"] is True
    found = ask(admin, fun="schedule.list", kwarg={"return_yaml": False}, **asked)
    assert (found["a"]["j"]["function"], found["a"]["j"]["enabled"]) == ("test.ping", True)
    assert ask(admin, fun="schedule.delete", arg=["j"], **asked)["a"]["result"] is True


def test_the_mine_is_none_for_saltgui_would_list_the_letters_of_a_text(admin: Api) -> None:
    assert ask(admin, client="local", fun="mine.valid", tgt_type="glob", tgt="*") == {"a": None, "b": None}


def test_nodegroups(admin: Api) -> None:
    found = ask(admin, client="local", full_return=True, fun="test.version", tgt="N@ab", tgt_type="compound")
    assert {name: row["success"] for name, row in found.items()} == {"a": True, "b": True}


def test_keys_have_fingerprints_in_the_form_that_saltgui_reads(served: tuple[Fleet, str], admin: Api) -> None:
    found = wheel(admin, "key.finger", match="*")
    assert found["minions"].keys() == {"a", "b"}
    assert all(FINGERPRINT.match(one) for one in (*found["minions"].values(), *found["local"].values()))
    assert wheel(admin, "key.finger_master") == {"local": found["local"]}
    assert admin.get("/keys/a").json()["return"] == {"minions": {"a": found["minions"]["a"]}}
    refused = served[0].cli("key", "revoke", "a", "--fingerprint", found["minions"]["b"], "-y")
    assert (refused.code, "no key here has the fingerprint" in refused.err) == (6, True), "the form is read, too"


def test_a_key_is_accepted_and_deleted_by_its_list(served: tuple[Fleet, str], admin: Api) -> None:
    daemon = served[0].start_minion("late", trust_on_first_use=True)
    wait_until(lambda: wheel(admin, "key.list_all")["minions_pre"] == ["late"], "the key is pending")
    assert wheel(admin, "key.accept", match="late") == {"minions": ["late"]}
    served[0].wait_up("late")
    assert "late" in wheel(admin, "minions.connected")
    daemon.stop()
    wheel(admin, "key.delete", match="late")
    assert wheel(admin, "key.list_all")["minions"] == ["a", "b"]


def test_jobs(admin: Api) -> None:
    jid = ask(admin, client="local_async", fun="test.arg", tgt="*", tgt_type="glob", arg=[1], kwarg={"b": 2})["jid"]
    wait_until(lambda: jid not in ask(admin, client="runner", fun="jobs.active"), "the job has ended")
    row = ask(admin, client="runner", fun="jobs.list_jobs")[jid]
    assert (row["Function"], row["Target"], row["User"]) == ("test.arg", "*", "file:admin")
    job = ask(admin, client="runner", fun="jobs.list_job", jid=jid)
    assert job["Arguments"] == [1, {"__kwarg__": True, "b": 2}]
    assert job["Minions"] == ["a", "b"]
    assert {name: (one["retcode"], one["success"]) for name, one in job["Result"].items()} == dict.fromkeys(
        "ab", (0, True)
    )
    states = ask(admin, client="runner", fun="jobs.list_jobs", search_function=["state.apply", "state.highstate"])
    assert states == {}


def test_reactors_options_and_stats(admin: Api) -> None:
    assert "reactor" not in wheel(admin, "config.values")
    assert admin.get("/stats").json().keys() == {"saltlite-api"}


# -- the command box


def test_a_command_runs_with_full_return(admin: Api) -> None:
    found = ask(admin, client="local", fun="test.echo", tgt="a", tgt_type="glob", arg=["hello"], full_return=True)
    assert (found["a"]["ret"], found["a"]["success"], len(found["a"]["jid"])) == ("hello", True, 20)


def test_wheel_functions_take_the_target_that_saltgui_sends_with_each(admin: Api) -> None:
    assert wheel(admin, "minions.connected", match="a") == ["a", "b"]


def test_wrong_calls_are_answered_with_texts_as_by_salt(admin: Api) -> None:
    assert ask(admin, client="local", fun="nix.da", tgt="*") == dict.fromkeys("ab", "'nix.da' is not available.")
    assert (
        "takes no positional argument" in ask(admin, client="local", fun="test.ping", tgt="a", arg=[1], stray=True)["a"]
    )
    full = ask(admin, client="local", fun="nix.da", tgt="a", full_return=True)["a"]
    assert (full["ret"], full["success"], full["retcode"]) == ("'nix.da' is not available.", False, 254)
    unpublished = "none of the targeted minions has 'nix.da'. Nothing was published."
    assert ask(admin, client="local_async", fun="nix.da", tgt="a") == unpublished
    said = admin.post("/minions", {"fun": "nix.da", "tgt": "a"})
    assert said.json() == {"return": [unpublished], "_links": {"jobs": []}}
    assert ask(admin, client="runner", fun="nix.da") == "'nix.da' is not available."
    assert "not a function" in ask(admin, client="runner", fun="nix")
    done = ask(admin, client="wheel", fun="nix.da")["data"]
    assert (done["success"], "there is no wheel function 'nix.da'" in done["return"]) == (False, True)
    assert ask(admin, client="wheel", fun="key.accept")["data"]["success"] is False
    assert "key.token_create" in wheel(admin, "key.gen_accept", id_="c")
    assert "edit them on the master" in wheel(admin, "file_roots.write", data="x", path="y")


def test_a_strict_client_gets_errors(admin: Api) -> None:
    for low in (
        {"client": "local", "fun": "nix.da", "tgt": "*"},
        {"client": "local_async", "fun": "nix.da", "tgt": "*"},
        {"client": "local_batch", "fun": "nix.da", "tgt": "*"},
        {"client": "local", "fun": "test.ping", "tgt": "a", "stray": True},
        {"client": "runner", "fun": "nix"},
        {"client": "wheel", "fun": "nix.da"},
    ):
        assert admin.post("/", low, Prefer="respond-async, Handling=Strict").status == 400
        assert admin.post("/", low).status == 200


def test_what_was_refused_hides_nothing_that_was_done(admin: Api) -> None:
    low = [
        {"client": "local", "fun": "test.ping", "tgt": "a"},
        {"client": "runner", "fun": "salt.cmd", "arg": ["test.ping"]},
    ]
    said = admin.post("/", [*low, low[0]])
    assert (said.status, said.json()["return"]) == (403, [{"a": True}])
    assert "salt.cmd" in said.json()["error"]


# -- the roots of the master


def test_roots_are_read(served: tuple[Fleet, str], admin: Api) -> None:
    [tree] = wheel(admin, "pillar_roots.list_roots")["base"]
    [(root, files)] = tree.items()
    assert files == {"top.sls": "f", "colours.sls": "f"}
    assert wheel(admin, "pillar_roots.read", path="colours.sls") == [{f"{root}/colours.sls": "colour: blue\n"}]
    assert wheel(admin, "pillar_roots.find", path="top.sls") == [{f"{root}/top.sls": "txt"}]
    assert wheel(admin, "pillar_roots.list_env", saltenv="none") == {}
    folder = served[0].root("master") / "srv/salt"
    assert wheel(admin, "file_roots.list_roots") == {"base": [{str(folder): {}}]}


def test_each_wheel_function_needs_its_right(served: tuple[Fleet, str]) -> None:
    keeper = Api(served[1]).log_in("fred")
    for fun in ("config.values", "minions.connected", "key.finger_master", "file_roots.list_roots"):
        for client in ("wheel", "wheel_async"):
            assert keeper.low(client=client, fun=fun).status == 403, fun


# -- events


def test_a_wheel_function_in_the_background_ends_with_an_event(admin: Api) -> None:
    with admin.events() as stream:
        begun = ask(admin, client="wheel_async", fun="key.list_all")
        ended = next(event for event in stream if event["tag"] == f"{begun['tag']}/ret")
        assert ended["data"]["return"]["minions"] == ["a", "b"]
        assert (ended["data"]["success"], ended["data"]["fun"]) == (True, "wheel.key.list_all")
        begun = ask(admin, client="wheel_async", fun="key.token_create")
        ended = next(event for event in stream if event["tag"] == f"{begun['tag']}/ret")
        assert ended["data"]["return"] == "***"
        begun = ask(admin, client="wheel_async", fun="nix.da")
        ended = next(event for event in stream if event["tag"] == f"{begun['tag']}/ret")
        assert ended["data"]["success"] is False
