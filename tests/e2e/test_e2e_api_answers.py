"""What a lowstate may hold and what is answered, as in Salt: the forms that clients of Salt's API use."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.served import serve
from tests.support.api import PASSWORD, Api
from tests.support.fleet import Fleet, wait_until

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Fleet, str]]:
    """A fleet with the minions `a` and `b`, and the address of its API."""
    with serve(tmp_path_factory.mktemp("answers")) as both:
        yield both


@pytest.fixture(scope="module")
def admin(served: tuple[Fleet, str]) -> Api:
    """The API on behalf of somebody who may everything."""
    return Api(served[1]).log_in("admin")


def returned(api: Api, **lowstate: Any) -> Any:
    """What one lowstate returned."""
    said = api.low(**lowstate)
    assert said.status == 200, said
    return said.json()["return"]


@pytest.mark.parametrize(
    ("tgt", "form", "ids"),
    [
        ("*", {}, ["a", "b"]),
        (["a", "b"], {}, ["a", "b"]),
        ("a,b", {"tgt_type": "list"}, ["a", "b"]),
        (["b"], {"expr_form": "list"}, ["b"]),
        ("[ab]", {"tgt_type": "pcre"}, ["a", "b"]),
        ("id:b", {"expr_form": "grain"}, ["b"]),
        ("a or G@id:b", {"tgt_type": "compound"}, ["a", "b"]),
        ("127.0.0.0/8", {"tgt_type": "ipcidr"}, ["a", "b"]),
    ],
)
def test_a_target_has_all_the_forms_of_salt(admin: Api, tgt: object, form: dict[str, str], ids: list[str]) -> None:
    [rows] = returned(admin, client="local", tgt=tgt, fun="test.ping", **form)
    assert rows == dict.fromkeys(ids, True)


@pytest.mark.parametrize(
    "given",
    [
        {"arg": ["hello"]},
        {"arg": "hello"},
        {"arg": ["text=hello"]},
        {"kwarg": {"text": "hello"}},
        {"arg": [{"__kwarg__": True, "text": "hello"}]},
        {"arg": [], "kwarg": {"text": "hello"}},
        {"arg": None, "kwarg": {"text": "hello"}, "ret": "", "timeout": 5, "gather_job_timeout": 5, "batch": None},
    ],
)
def test_arguments_have_all_the_forms_of_salt(admin: Api, given: dict[str, Any]) -> None:
    assert returned(admin, client="local", tgt="a", fun="test.echo", **given) == [{"a": "hello"}]


def test_a_batch_of_local_is_one_map_and_goes_a_few_at_a_time(served: tuple[Fleet, str], admin: Api) -> None:
    [rows] = returned(admin, client="local", tgt="*", fun="test.ping", batch=1, full_return=True)
    assert {name: row["ret"] for name, row in rows.items()} == {"a": True, "b": True}
    with served[0].store() as store:
        job = store.job(rows["a"]["jid"])
    assert job is not None
    assert job.batch is not None
    assert job.batch.size == 1


def test_metadata_are_shown_with_the_job_and_change_nothing_of_it(admin: Api) -> None:
    [published] = returned(admin, client="local_async", tgt="a", fun="test.ping", metadata={"ticket": [1, "x"]})
    wait_until(lambda: admin.get(f"/jobs/{published['jid']}").json()["return"] == [{"a": True}], "a has returned")
    assert admin.get(f"/jobs/{published['jid']}").json()["info"][0]["Metadata"] == {"ticket": [1, "x"]}
    [plain] = returned(admin, client="local_async", tgt="a", fun="test.ping")
    assert "Metadata" not in admin.get(f"/jobs/{plain['jid']}").json()["info"][0]


def test_metadata_that_are_too_large_are_refused(admin: Api) -> None:
    said = admin.low(client="local", tgt="a", fun="test.ping", metadata={"x": "y" * 300_000})
    assert said.status == 400


def test_a_subset_of_local_async_is_so_many(admin: Api) -> None:
    [published] = returned(admin, client="local_async", tgt="*", fun="test.ping", subset=1)
    assert len(published["minions"]) == 1


def test_who_is_silent_is_false_and_in_full_is_told_why(served: tuple[Fleet, str], admin: Api) -> None:
    fleet = served[0]
    pids = [pid for pid in fleet.processes() if b"/b\x00" in _command(pid) or pid == fleet.daemons["b"].pid]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        assert returned(admin, client="local", tgt="*", fun="test.ping", timeout=5) == [{"a": True, "b": False}]
        [rows] = returned(admin, client="local", tgt="b", fun="test.ping", timeout=1, full_return=True)
        assert (rows["b"]["success"], rows["b"]["ret"][:22]) == (False, "Minion did not return.")
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
    wait_until(lambda: "b" in fleet.up(), "b is back")


def _command(pid: int) -> bytes:
    with open(f"/proc/{pid}/cmdline", "rb") as file:
        return file.read()


def test_post_to_keys_lets_one_minion_in_under_its_name(served: tuple[Fleet, str], admin: Api) -> None:
    fleet = served[0]
    made = admin.post("/keys", {"mid": "c"}).json()["return"]
    assert (made["mid"], made["match"], made["uses"]) == ("c", "c", 1)
    fleet.start_minion("d", join_token=made["join_token"])
    fleet.start_minion("c", join_token=made["join_token"])
    fleet.wait_up("c")
    assert "accepted" not in fleet.keys().get("d", [])
    fleet.daemons["c"].stop()
    fleet.daemons["d"].stop()


def test_post_to_keys_takes_credentials_as_salts_does_and_leaves_no_token(served: tuple[Fleet, str]) -> None:
    form = f"mid=e&username=admin&password={PASSWORD.replace(' ', '+')}&eauth=file".encode()
    kind = "application/x-www-form-urlencoded"
    assert Api(served[1]).ask("POST", "/keys", form, Content_Type=kind).json()["return"]["mid"] == "e"
    assert Api(served[1]).ask("POST", "/keys", form.replace(b"=admin", b"=fred"), Content_Type=kind).status == 403
    assert Api(served[1]).ask("POST", "/keys", b"mid=e", Content_Type=kind).status == 401
    with served[0].client() as client:
        users = [row["user"] for row in client.call("auth_token_list")["tokens"]]
    assert users.count("admin") <= 1, "only the token of the fixture"


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"mid": "*"},
        {"mid": "UP PER"},
        {"mid": "c", "keysize": 4096},
        {"mid": ["c"]},
        [],
        {"mid": "c", "password": ["x"]},
    ],
)
def test_post_to_keys_is_for_one_id(admin: Api, body: object) -> None:
    assert admin.post("/keys", body).status == 400


def test_salts_way_to_make_keys_is_answered_with_the_way_there_is(admin: Api) -> None:
    said = admin.low(client="wheel", fun="key.gen_accept", id_="c")
    [done] = said.json()["return"]
    assert (done["data"]["success"], "key.token_create" in done["data"]["return"]) == (False, True)
