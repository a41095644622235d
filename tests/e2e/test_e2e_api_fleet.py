"""/fleet as programs see it: pages of the fleet, previews, jobs by group, keys and logins, each with its rights."""

from __future__ import annotations

import time
import urllib.parse
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.served import serve
from tests.support.api import Api, Said
from tests.support.fleet import Fleet, wait_until

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Fleet, str]]:
    """A fleet with the minions `a` and `b`, and the address of its API."""
    with serve(tmp_path_factory.mktemp("fleet")) as both:
        yield both


@pytest.fixture(scope="module")
def admin(served: tuple[Fleet, str]) -> Api:
    """The API on behalf of a user who may do everything."""
    return Api(served[1]).log_in("admin")


@pytest.fixture
def fred(served: tuple[Fleet, str]) -> Api:
    """The API on behalf of a user who may run test functions on `a`."""
    return Api(served[1]).log_in("fred")


def page(api: Api, path: str, **query: Any) -> Any:
    """The answer of a GET below /fleet, which succeeds."""
    said = asked(api, path, **query)
    assert said.status == 200, said
    return said.json()


def asked(api: Api, path: str, **query: Any) -> Said:
    return api.get(f"/fleet{path}?{urllib.parse.urlencode(query)}" if query else f"/fleet{path}")


def finished(api: Api, jid: str) -> Any:
    """A job, once no target of it is open."""
    found: list[Any] = []

    def ended() -> bool:
        found[:] = [page(api, f"/jobs/{jid}")]
        return not found[0]["job"]["outcomes"].get("open")

    wait_until(ended, f"job {jid} has ended")
    return found[0]


def test_the_overview_counts_the_fleet_and_its_jobs(admin: Api) -> None:
    admin.low(client="local", tgt="*", fun="test.ping")
    found = page(admin, "")
    assert found["counts"] == {"up": 2, "away": 0, "never": 0, "pending": 0}
    assert "minions" not in found
    assert sum(found["versions"].values()) == 2
    assert sum(hour["ok"] for hour in found["hours"]) >= 1


def test_minions_are_selected_sorted_and_cut_by_the_master(admin: Api) -> None:
    def ids(**query: Any) -> tuple[list[str], int]:
        found = page(admin, "/minions", **query)
        return [row["id"] for row in found["minions"]], found["total"]

    assert ids() == (["a", "b"], 2)
    assert ids(sort="-id", limit=1) == (["b"], 2)
    seen = {row["id"]: row["last_seen"] for row in page(admin, "/minions")["minions"]}
    assert ids(sort="last_seen")[0] == sorted(seen, key=seen.__getitem__)
    assert ids(sort="-last_seen")[0] == sorted(seen, key=seen.__getitem__, reverse=True)
    assert ids(sort="id", offset=1, limit=5) == (["b"], 2)
    assert ids(tgt="b or c", tgt_type="compound") == (["b"], 1)
    assert ids(state="away") == ([], 0)


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ({"state": "asleep"}, "a minion is up, away, never, not 'asleep'"),
        ({"sort": "colour"}, "minions are sorted by id, state"),
        ({"limit": "0"}, "limit is a whole number from 1 to 1000"),
        ({"limit": "٣"}, "limit is a whole number from 1 to 1000"),
        ({"tgt_type": "glob"}, "tgt, the target that tgt_type is for, is missing or empty"),
        ({"tgt": "*", "tgt_type": "colour"}, "there is no target type 'colour'"),
        ({"page": "2"}, "this path takes no parameters in its URL"),
    ],
)
def test_a_list_that_makes_no_sense_is_refused(admin: Api, query: dict[str, str], sentence: str) -> None:
    said = asked(admin, "/minions", **query)
    assert said.status == 400
    assert sentence in said.json()["error"]


def test_one_minion_has_its_key_and_its_grains(admin: Api) -> None:
    found = page(admin, "/minions/a")
    assert (found["minion"]["state"], found["keys"][0]["state"], found["grains"]["id"]) == ("up", "accepted", "a")
    assert asked(admin, "/minions/nowhere").status == 400


def test_what_a_caller_may_not_see_is_refused_or_null(fred: Api) -> None:
    assert {asked(fred, path).status for path in ("", "/minions", "/keys", "/resources")} == {403}
    assert [row["fun"] for row in page(fred, "/jobs")["jobs"]] == []
    found = page(fred, "/target", tgt="a", fun="test.ping")
    assert (found["count"], found["ids"]) == (1, None)
    assert asked(fred, "/target", tgt="*", fun="cmd.run").status == 403
    assert fred.post("/fleet/keys", {"action": "revoke", "fingerprints": []}).status == 403


def test_a_target_is_previewed_with_what_its_function_takes(admin: Api) -> None:
    found = page(admin, "/target", tgt="*", fun="pkg.remove")
    assert (found["count"], found["away"], found["ids"]) == (2, 0, ["a", "b"])
    known = found["functions"]["pkg.remove"]
    assert known["signatures"][0][0]["name"] == "name"
    assert [row["risk"] for row in known["risks"]] == ["remove"]
    assert page(admin, "/words", prefix="test.pin")["words"] == ["test.ping"]


def test_a_preview_says_why_a_minion_is_selected_or_not(admin: Api) -> None:
    asking = {"tgt": "a or G@os:none", "tgt_type": "compound"}
    why = {name: page(admin, "/target", **asking, explain=name)["explanation"] for name in ("a", "b")}
    assert {name: (found["selected"], [term["true"] for term in found["terms"]]) for name, found in why.items()} == {
        "a": (True, [True, False]),
        "b": (False, [False, False]),
    }
    assert page(admin, "/target", **asking)["explanation"] is None


def test_the_catalogue_of_functions_has_those_that_the_caller_may_run_with_their_documentation(
    admin: Api, fred: Api
) -> None:
    found = page(admin, "/functions", prefix="disk.us")
    assert found["modules"] == []
    assert found["more"] is False
    usage = found["functions"]["disk.usage"]
    assert (usage["missing"], usage["risks"]) == (0, [])
    assert [one["name"] for one in usage["signatures"][0]]
    assert "CLI Example" in usage["doc"]
    assert {"service", "sys"} <= {*page(admin, "/functions", prefix="s")["modules"]}
    first = page(admin, "/functions", prefix="test.", limit=2)
    assert (len(first["functions"]), first["more"]) == (2, True)
    assert "test.ping" in page(fred, "/functions", prefix="test.pi", tgt="a")["functions"]
    assert page(fred, "/functions", prefix="cmd.ru", tgt="a")["functions"] == {}
    for wrong in ({"tgt": "*", "tgt_type": "colour"}, {"tgt": "a and", "tgt_type": "compound"}):
        assert asked(admin, "/functions", prefix="nothing-begins-so", **wrong).status == 400


def test_a_risk_is_asked_about_before_anything_is_published(admin: Api) -> None:
    job = {"tgt": "*", "fun": "pkg.remove", "arg": ["no-such-package"]}
    before = [row["jid"] for row in page(admin, "/jobs", fun="pkg.remove")["jobs"]]
    said = admin.post("/fleet/jobs", job)
    assert said.status == 409
    assert said.json()["question"]["functions"]["pkg.remove"]["risks"][0]["risk"] == "remove"
    assert [row["jid"] for row in page(admin, "/jobs", fun="pkg.remove")["jobs"]] == before
    assert admin.post("/fleet/jobs", {**job, "kwarg": {"test": True}, "consent": ["remove"]}).status == 202


def test_a_job_is_followed_by_its_groups(admin: Api) -> None:
    said = admin.post("/fleet/jobs", {"tgt": "*", "fun": "test.echo", "arg": ["<b>"]})
    assert (said.status, said.json()["count"]) == (202, 2)
    found = finished(admin, said.json()["jid"])
    assert [(one["count"], one["ids"], one["value"]) for one in found["groups"]] == [(2, ["a", "b"], "<b>")]
    assert (found["job"]["outcomes"], found["without"], found["without_count"]) == ({"ok": 2}, [], 0)


def test_a_job_is_published_again_where_it_failed(admin: Api) -> None:
    jid = admin.post("/fleet/jobs", {"tgt": "*", "fun": "test.retcode", "arg": [3]}).json()["jid"]
    finished(admin, jid)
    said = admin.post(f"/fleet/jobs/{jid}/rerun", {"failed": True})
    assert (said.status, said.json()["count"]) == (202, 2)
    assert finished(admin, said.json()["jid"])["job"]["calls"] == [["test.retcode", [3], {}]]
    ping = admin.post("/fleet/jobs", {"tgt": "*", "fun": "test.ping"}).json()["jid"]
    finished(admin, ping)
    said = admin.post(f"/fleet/jobs/{ping}/rerun", {"failed": True})
    assert (said.status, said.json()["error"]) == (400, f"no target of job {ping} failed")


def test_a_job_with_a_secret_is_not_published_again(admin: Api) -> None:
    job = {"tgt": "a", "fun": "test.arg", "kwarg": {"password": "geheim"}}
    jid = admin.post("/fleet/jobs", job).json()["jid"]
    finished(admin, jid)
    said = admin.post(f"/fleet/jobs/{jid}/rerun", {})
    assert said.status == 403
    assert "has secrets among its arguments" in said.json()["error"]


def test_a_job_is_ended(admin: Api) -> None:
    jid = admin.post("/fleet/jobs", {"tgt": "a", "fun": "test.sleep", "arg": [60]}).json()["jid"]
    said = admin.post(f"/fleet/jobs/{jid}/kill", {})
    assert said.status == 200
    assert sum(map(len, said.json().values())) == 1
    assert finished(admin, jid)["job"]["cancelled_at"] <= time.time()


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ({"fun": "test.ping"}, "a job needs tgt"),
        ({"tgt": "*", "fun": "test.ping", "argh": []}, "does not take 'argh'"),
        ({"tgt": ["a"], "fun": "test.ping"}, "the field tgt is not of the type str"),
        ({"tgt": "*", "fun": "test.ping", "batch": "many"}, "batch"),
        (["test.ping"], "the body is a map"),
    ],
)
def test_a_job_that_makes_no_sense_is_not_published(admin: Api, body: Any, sentence: str) -> None:
    said = admin.post("/fleet/jobs", body)
    assert said.status == 400
    assert sentence in said.json()["error"]


def test_keys_and_logins_are_changed(served: tuple[Fleet, str], admin: Api) -> None:
    fleet, url = served
    fleet.start_minion("late", trust_on_first_use=True)

    def pending() -> list[Any]:
        return [key for key in page(admin, "/keys")["keys"] if key["state"] == "pending"]

    wait_until(lambda: bool(pending()), "the key of `late` waits")
    fingerprints = [key["fingerprint"] for key in pending()]
    said = admin.post("/fleet/keys", {"action": "reject", "fingerprints": fingerprints})
    assert [row["state"] for row in said.json()["changed"]] == ["rejected"]
    fred = Api(url).log_in("fred")
    other = Api(url).log_in("fred")
    logins = page(fred, "/access")["logins"]
    assert {row["user"] for row in logins} == {"fred"}
    ids = [row["id"] for row in logins]
    assert sorted(fred.post("/fleet/access", {"revoke": ids}).json()["revoked"]) == sorted(ids)
    assert {asked(one, "/access").status for one in (fred, other)} == {401}


def test_keys_are_selected_and_cut(served: tuple[Fleet, str], admin: Api) -> None:
    found = page(admin, "/keys", state="accepted", limit=1)
    assert ([key["id"] for key in found["keys"]], found["total"], found["counts"]["accepted"]) == (["a"], 2, 2)
    assert [key["id"] for key in page(admin, "/keys", state="accepted", offset=1)["keys"]] == ["b"]
    first = page(admin, "/keys", search="b", state="accepted")["keys"][0]
    assert page(admin, "/keys", search=first["fingerprint"][:8].lower())["keys"] == [first]
    assert page(admin, "/keys", search="nowhere")["total"] == 0


def test_join_tokens_are_made_listed_and_revoked(admin: Api, fred: Api) -> None:
    said = admin.post("/fleet/tokens", {"id_glob": "web*", "uses": 3, "expires_s": 60})
    assert said.json()["token"].startswith("slj1.")
    (row,) = page(admin, "/tokens")["tokens"]
    assert (row["id_glob"], row["uses_left"], row["created_by"]) == ("web*", 3, "file:admin")
    assert row["id"] in said.json()["token"]
    assert {fred.get("/fleet/tokens").status, fred.post("/fleet/tokens", {"id_glob": "*"}).status} == {403}
    assert fred.post(f"/fleet/tokens/{row['id']}/revoke", {}).status == 403
    assert admin.post(f"/fleet/tokens/{row['id']}/revoke", {}).json() == {"revoked": True}
    assert admin.post(f"/fleet/tokens/{row['id']}/revoke", {}).json() == {"revoked": False}
    assert page(admin, "/tokens")["tokens"] == []
    assert admin.post("/fleet/tokens", {"id_glob": "", "uses": 1}).status == 400


def test_the_master_says_who_may_do_what(admin: Api, fred: Api) -> None:
    question = {"user": "file:fred", "tgt": "a", "fun": "test.ping"}
    found = fred.post("/fleet/access/explain", question).json()
    assert (found["allowed"], found["targets"], len(found["rules"])) == (True, 1, 1)
    found = fred.post("/fleet/access/explain", {**question, "fun": "cmd.run"}).json()
    assert found["allowed"] is False
    assert "cmd.run" in found["reason"]
    said = fred.post("/fleet/access/explain", {**question, "user": "file:admin"})
    assert (said.status, "may ask about himself only" in said.json()["error"]) == (403, True)
    assert admin.post("/fleet/access/explain", {"user": "file:admin"}).status == 400


def test_a_runner_runs_with_the_rights_of_its_caller(admin: Api, fred: Api) -> None:
    said = admin.post("/fleet/runners", {"fun": "manage.up"})
    assert (said.status, said.json()["value"], said.json()["retcode"]) == (200, ["a", "b"], 0)
    assert fred.post("/fleet/runners", {"fun": "manage.up"}).status == 403
    assert admin.post("/fleet/runners", {"arg": []}).status == 400


def test_events_that_were_are_answered_in_parts(admin: Api, fred: Api) -> None:
    for number in range(3):
        admin.post(f"/hook/number/{number}", {"x": number})
    first = page(admin, "/events", limit=2)
    assert [row["tag"] for row in first["events"]] == ["salt/netapi/hook/number/2", "salt/netapi/hook/number/1"]
    assert first["events"][0]["data"]["_stamp"]
    (second,) = page(admin, "/events", limit=1, before=first["before"])["events"]
    assert (second["tag"], second["id"]) == ("salt/netapi/hook/number/0", first["events"][1]["id"] - 1)
    assert page(admin, "/events", limit=1000)["before"] is None
    assert page(admin, "/events", before=1) == {"events": [], "before": None}
    assert "number" not in str(page(fred, "/events"))
    assert asked(admin, "/events", before=0).status == 400


def test_earlier_events_are_found_by_a_part_of_their_tag(admin: Api) -> None:
    for name in ("one", "two", "three"):
        admin.post(f"/hook/needle/{name}", {})
        admin.post("/hook/hay", {})
    first = page(admin, "/events", tag="needle/", limit=2)
    assert [row["tag"].rpartition("/")[2] for row in first["events"]] == ["three", "two"]
    rest = page(admin, "/events", tag="needle/", limit=2, before=first["before"])
    assert [row["tag"].rpartition("/")[2] for row in rest["events"]] == ["one"]


def test_the_stream_of_events_has_only_those_with_a_part_of_their_tag(admin: Api) -> None:
    with admin.events(tag="hook/straw/") as stream:
        admin.post("/hook/hay", {})
        admin.post("/hook/straw/one", {})
        assert next(stream)["tag"] == "salt/netapi/hook/straw/one"


def test_a_dry_run_calls_nothing(admin: Api) -> None:
    job = {"tgt": "a", "fun": "test.echo", "arg": ["x"], "dry": True}
    found = finished(admin, admin.post("/fleet/jobs", job).json()["jid"])
    assert found["job"]["module_executors"] == ["dry"]
    assert found["groups"][0]["value"] == {"dry": True, "fun": "test.echo", "args": ["x"], "kwargs": {}}


def test_the_documents_need_no_login(served: tuple[Fleet, str]) -> None:
    api = Api(served[1])
    contents = api.get("/docs").json()
    assert {"http-api", "install"} <= {row["name"] for row in contents["pages"]}
    assert api.get("/docs/http-api").json()["text"].startswith("# The HTTP API")
    assert api.get("/docs/reference/modules/pkg").json()["items"][0]["name"].startswith("pkg.")
    assert api.get("/docs/search?words=pkg.install").json()["found"][0]["at"] == "pkg.install"
    assert api.get("/docs/nothing").status == 400
    assert "console.js" in api.get("/docs/http-api", Accept="text/html").body  # where a browser is sent to


def test_the_cookie_counts_for_pages_of_this_origin_only(served: tuple[Fleet, str], admin: Api) -> None:
    stranger = Api(served[1])
    cookie = f"session_id={admin.token}"
    job = {"tgt": "a", "fun": "test.ping"}
    assert stranger.post("/fleet/jobs", job, Cookie=cookie).status == 401
    for site in ("cross-site", "same-site", "none"):
        assert stranger.post("/fleet/jobs", job, Cookie=cookie, Sec_Fetch_Site=site).status == 401
    assert stranger.post("/fleet/jobs", job, Cookie=cookie, Sec_Fetch_Site="same-origin").status == 202


def test_a_runner_that_is_not_waited_for_is_followed_by_the_user_who_started_it(admin: Api, fred: Api) -> None:
    said = admin.post("/fleet/runners", {"fun": "test.arg", "arg": ["x"], "kwarg": {"n": 1}, "wait": False})
    assert said.status == 202
    jid = said.json()["jid"]
    wait_until(lambda: page(admin, f"/runners/{jid}")["ended"] is not None, "the runner has ended")
    found = page(admin, f"/runners/{jid}")
    assert (found["fun"], found["retcode"], found["cut"]) == ("test.arg", 0, False)
    assert found["value"] == {"args": ["x"], "kwargs": {"n": 1}}
    assert page(admin, f"/runners/{jid}/return") == {"value": found["value"], "retcode": 0}
    assert page(admin, "/runners")["calls"][0]["jid"] == jid
    assert page(fred, "/runners")["calls"] == []
    for path in (f"/runners/{jid}", f"/runners/{jid}/return", "/runners/20260101000000000000"):
        said = asked(fred, path)
        assert said.status == 400
        assert "has no return of runner" in said.json()["error"]
    assert fred.post("/fleet/runners", {"fun": "manage.up", "wait": False}).status == 403


def test_the_catalogue_of_runners_has_those_that_the_caller_may_run(admin: Api, fred: Api) -> None:
    found = page(admin, "/runners/functions")["functions"]
    assert found["manage.up"]["signatures"][0][0]["name"] == "tgt"
    assert found["manage.up"]["doc"]
    assert found["cloud.destroy"]["risk"] == "destroy"
    assert page(fred, "/runners/functions")["functions"] == {}


def test_the_jobs_of_a_minion_have_its_own_results(admin: Api) -> None:
    jid = admin.post("/fleet/jobs", {"tgt": "*", "fun": "test.retcode", "arg": [9]}).json()["jid"]
    finished(admin, jid)
    [row] = page(admin, "/jobs", minion="a", fun="test.retcode", limit=1)["jobs"]
    assert (row["jid"], row["own"]["id"], row["own"]["outcome"], row["own"]["retcode"]) == (jid, "a", "failed", 9)
    assert "own" not in page(admin, "/jobs", limit=1)["jobs"][0]
