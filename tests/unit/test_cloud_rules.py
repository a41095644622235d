"""What a profile means, in which order machines are made, what comes next, and what a listing is."""

from __future__ import annotations

import re
from typing import Any

import pytest

from saltlite.cloud.deploy import settings
from saltlite.cloud.rules.catalogue import (
    NAME_MAX,
    SETTINGS,
    Catalogue,
    ListingError,
    MapMachine,
    Settings,
    catalogue,
    check_machine_name,
    composed,
    explanation,
    full_listing,
    is_gone,
    levels_of,
    machines_of,
    minion_settings,
    name_in_tag,
    normal_listing,
    one_map,
    selected_fields,
    waves,
)
from saltlite.cloud.rules.flow import DESTROYING, Announcer, Create, Step, Undo, order_of_create, replay
from saltlite.errors import ConfigError, UsageError


def says(where: str = "file:1", **values: Any) -> Settings:
    return Settings(values, {key: f"{where}#{key}" for key in values}, where)


def lab(**profiles: Settings) -> Catalogue:
    return catalogue({"lab": [says(driver="local", size="small", minion={"master": "10.0.0.1", "a": 1})]}, profiles)


# -- providers and profiles


def test_a_provider_may_have_several_drivers_and_a_profile_names_one() -> None:
    found = catalogue(
        {"lab": [says(driver="local"), says(driver="ec2", id="x")]},
        {"p": says(provider="lab:ec2"), "q": says("file:9", provider="lab")},
    )
    assert found.profile("p").provider.name == "lab:ec2"
    with pytest.raises(ConfigError, match=r"file:9#provider: profile q: .* lab:ec2, lab:local"):
        found.profile("q")


def test_extends_goes_over_several_steps_and_the_nearest_wins() -> None:
    found = lab(
        base=says(provider="lab", image="a", minion={"grains": {"x": 1, "y": 1}}),
        middle=says(extends="base", image="b"),
        top=says(extends="middle", minion={"grains": {"y": 2}}),
    )
    values = found.profile("top").settings.values
    assert (values["image"], values["minion"]) == ("b", {"grains": {"x": 1, "y": 2}})


def test_what_is_only_there_to_be_extended_is_no_provider_and_no_profile() -> None:
    found = catalogue(
        {
            "base": [says(driver="-only-extendable-", image="i", region="r")],
            "lab": [says(driver="local", extends="base", region="own")],
        },
        {"common": says(provider="-only-extendable-", size="s"), "p": says(provider="lab", extends="common")},
    )
    assert [one.name for one in found.every_provider()] == ["lab:local"]
    assert found.provider("lab").settings.values["region"] == "own"
    assert found.provider("lab").settings.values["image"] == "i"
    assert set(found.profiles) == {"p"}
    assert found.profile("p").settings.values["size"] == "s"


def test_a_provider_takes_the_driver_of_what_it_extends() -> None:
    found = catalogue({"a": [says(driver="ec2", id="1")], "b": [says(extends="a:ec2", id="2")]}, {})
    assert found.provider("b").name == "b:ec2"
    assert found.provider("b").settings.values["id"] == "2"


@pytest.mark.parametrize(
    ("providers", "sentence"),
    [
        ({"a": [says(driver="x", extends="b")], "b": [says(driver="x", extends="a")]}, "extends itself"),
        ({"a": [says(driver="x", extends="nobody")]}, "extends 'nobody', which does not exist"),
        ({"a": [says(id="1")]}, "lacks the setting 'driver'"),
        ({"a": [says(driver="x"), says(driver="x")]}, "has the driver x twice"),
    ],
)
def test_providers_that_mean_nothing_are_refused_with_their_place(
    providers: dict[str, list[Settings]], sentence: str
) -> None:
    with pytest.raises(ConfigError, match=sentence) as error:
        catalogue(providers, {})
    assert "file:1" in str(error.value)


@pytest.mark.parametrize(
    ("profile", "sentence"),
    [
        (says("file:7", image="i"), "file:7: profile p lacks the setting 'provider'"),
        (says("file:7", provider="gone"), "file:7#provider: profile p: there is no provider 'gone': there are lab"),
    ],
)
def test_a_profile_without_a_provider_says_so_when_it_is_asked_for(profile: Settings, sentence: str) -> None:
    found = lab(p=profile, q=says(provider="lab"))
    assert set(found.profiles) == {"q"}
    with pytest.raises(ConfigError) as error:
        found.profile("p")
    assert str(error.value) == sentence


def test_the_machine_wins_over_the_profile_and_that_over_the_provider_and_that_over_all() -> None:
    found = lab(p=says(provider="lab", size="large", minion={"a": 2, "b": 2}))
    everywhere = says("cloud:1", size="tiny", image="any", minion={"a": 0, "b": 0, "c": 0, "master": "no"})
    levels = levels_of(found.profile("p"), says("map:1", minion={"b": 3}), everywhere, {"deploy": False})
    vm_ = composed("web1", found.profile("p"), levels)
    assert (vm_["size"], vm_["image"], vm_["deploy"]) == ("large", "any", False)
    assert vm_["minion"] == {"a": 2, "b": 3, "c": 0, "master": "10.0.0.1", "id": "web1"}
    assert (vm_["name"], vm_["profile"], vm_["provider"], vm_["driver"]) == ("web1", "p", "lab:local", "local")


def test_an_explanation_has_the_place_of_each_value_and_of_those_that_lost() -> None:
    found = lab(p=says("profiles:3", provider="lab", size="large"))
    rows = {row.path: row for row in explanation(found.profile("p"), levels_of(found.profile("p"), None, says(), {}))}
    assert rows["size",].value == "large"
    assert rows["size",].origins == ("profile p (profiles:3#size)", "provider lab (file:1#size)")
    assert rows["minion", "master"].origins == ("provider lab (file:1#minion)",)


def test_settings_cannot_say_who_a_machine_is() -> None:
    found = lab(p=says(provider="lab", name="other", driver="other", join_token="mine"))
    vm_ = composed("web1", found.profile("p"), levels_of(found.profile("p"), None, says(), {}))
    assert (vm_["name"], vm_["driver"], vm_.get("join_token")) == ("web1", "local", None)


# -- names and minions


@pytest.mark.parametrize("name", ["", "a/b", "../up", ".hidden", "a b", "-x", "a\n", "x" * (NAME_MAX + 1), "ü", "x."])
def test_a_name_that_could_be_something_else_is_refused(name: str) -> None:
    with pytest.raises(UsageError):
        check_machine_name(name)


def test_the_longest_name_and_one_with_dots_are_names() -> None:
    check_machine_name("x" * NAME_MAX)
    check_machine_name("web1.example.com")


def test_any_name_that_a_provider_allows_becomes_one_part_of_a_tag() -> None:
    assert name_in_tag("my machine/1\n") == "my_machine_1_"
    assert name_in_tag("") == "_"


def test_a_minion_is_told_its_id_its_grains_and_the_port_of_its_master() -> None:
    vm_ = {
        "name": "web1", "append_domain": "example.com", "provider": "lab:local", "profile": "p",
        "minion": {"master": ["10.0.0.1", "m2:99", "::1", "[fe80::1]"], "grains": {"a": 1}}, "grains": {"b": 2},
    }  # fmt: skip
    told = minion_settings(vm_, {"master_port": 4515, "minion": {"log_level": "info"}})
    assert told["id"] == "web1.example.com"
    assert told["master"] == ["10.0.0.1:4515", "m2:99", "[::1]:4515", "[fe80::1]:4515"]
    assert told["grains"] == {
        "a": 1, "b": 2, "salt-cloud": {"driver": "local", "provider": "lab", "profile": "p"},
    }  # fmt: skip
    assert told["log_level"] == "info"


# -- maps


def machine(name: str, *requires: str) -> MapMachine:
    return MapMachine(name, "p", Settings({}, where="map:1"), requires)


def test_a_map_has_names_and_names_with_settings() -> None:
    written = {"p": ["a", {"b": {"minion": {"x": 1}, "requires": "a"}}], "q": {"c": None}, "include": "other"}
    found = {one.name: one for one in machines_of(written, {"p": "map:1", "q": "map:5"}, "map")}
    assert [found[name].profile for name in "abc"] == ["p", "p", "q"]
    assert found["b"].settings.values == {"minion": {"x": 1}}
    assert (found["b"].requires, found["c"].requires) == (("a",), ())


@pytest.mark.parametrize(
    "entries", ["web1", 5, [["a"]], [{"a": {}, "b": {}}], [{"a": "text"}], [{"a": {"requires": 1}}]]
)
def test_a_map_that_says_nothing_clear_is_refused_with_its_line(entries: object) -> None:
    with pytest.raises(ConfigError, match="map:4"):
        machines_of({"p": entries}, {"p": "map:4"}, "map")


def test_machines_that_wait_for_none_are_made_first_and_together() -> None:
    made = waves(
        [machine("c", "a", "b"), machine("a"), machine("b"), machine("d", "c"), machine("e", "there")], {"there"}
    )
    assert [[one.name for one in wave] for wave in made] == [["a", "b", "e"], ["c"], ["d"]]


def test_machines_that_are_there_are_not_made_and_wait_for_nobody() -> None:
    made = waves([machine("a"), machine("b", "a")], {"a"})
    assert [[one.name for one in wave] for wave in made] == [["b"]]


@pytest.mark.parametrize(
    ("machines", "sentence"),
    [
        ([machine("a", "b"), machine("b", "a")], "a requires b requires a"),
        ([machine("a", "a")], "a requires a"),
        ([machine("a", "nobody")], "a requires nobody, which neither exists nor is in the map"),
    ],
)
def test_machines_that_can_never_be_made_are_refused(machines: list[MapMachine], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        waves(machines)


def test_a_later_file_of_a_map_wins_and_a_name_twice_in_one_is_a_mistake() -> None:
    early, late = MapMachine("a", "p", Settings({})), MapMachine("a", "q", Settings({}))
    assert [one.profile for one in one_map([[early], [late]])] == ["q"]
    with pytest.raises(ConfigError, match="has a twice"):
        one_map([[early, late]])


# -- listings


def test_whatever_a_driver_says_has_the_six_fields_and_no_others() -> None:
    machines = {
        "a": {"id": 7, "image": None, "state": "running", "public_ips": "1.2.3.4", "private_ips": None, "name": "a"}
    }
    assert normal_listing(machines) == {
        "a": {"id": "7", "image": "", "size": "", "state": "running", "public_ips": ["1.2.3.4"], "private_ips": []}
    }
    assert full_listing(machines)["a"]["name"] == "a"


@pytest.mark.parametrize("nonsense", [None, [], "x", {"a": None}, {"a": ["x"]}])
def test_what_is_no_map_of_machines_is_refused(nonsense: object) -> None:
    with pytest.raises(ListingError):
        normal_listing(nonsense)


@pytest.mark.parametrize("state", ["terminated", "Shutting-Down", " DELETED "])
def test_a_machine_that_is_only_remembered_is_gone(state: str) -> None:
    assert is_gone({"state": state})
    assert not is_gone({"state": "stopped"})


def test_a_selection_has_fields_of_maps_too() -> None:
    details = {"id": "1", "extra": {"tags": {"a": 1}}, "x:y": 2}
    assert selected_fields(details, ["id", "extra:tags", "x:y", "none", "extra:gone"]) == {
        "id": "1", "extra:tags": {"a": 1}, "x:y": 2,
    }  # fmt: skip


# -- the way of one machine


def go(flow: Create, until: Step | None = None) -> list[Step]:
    """Do steps up to `until`, which is begun and not ended."""
    done = []
    while (step := flow.next()) is not None:
        flow.begin(step)
        done.append(step)
        if step is until:
            return done
        flow.end(step)
    return done


def test_a_minion_takes_five_steps_and_a_bare_machine_three() -> None:
    assert go(Create(minion=True)) == list(Step)
    assert go(Create(minion=False)) == [Step.CHECK_NAME, Step.MAKE_MACHINE, Step.FINISH]


@pytest.mark.parametrize(
    ("until", "undone"),
    [
        (Step.CHECK_NAME, []),
        (Step.MAKE_TOKEN, [Undo.REVOKE_TOKEN]),
        (Step.MAKE_MACHINE, [Undo.REVOKE_TOKEN, Undo.DESTROY_MACHINE, Undo.DELETE_KEY]),
        (Step.WAIT_FOR_MINION, [Undo.REVOKE_TOKEN, Undo.DESTROY_MACHINE, Undo.DELETE_KEY]),
    ],
)
def test_a_step_that_was_begun_is_taken_back_as_one_that_was_done(until: Step, undone: list[Undo]) -> None:
    flow = Create(minion=True)
    go(flow, until)
    assert flow.to_undo() == undone


def test_a_machine_that_is_kept_keeps_its_key_and_loses_its_token() -> None:
    flow = Create(minion=True)
    go(flow, Step.WAIT_FOR_MINION)
    assert flow.to_undo(keep_machine=True) == [Undo.REVOKE_TOKEN]


def test_steps_cannot_be_done_out_of_order() -> None:
    flow = Create(minion=True)
    with pytest.raises(ValueError, match="not what comes next"):
        flow.begin(Step.MAKE_MACHINE)
    with pytest.raises(ValueError, match="was not begun"):
        flow.end(Step.CHECK_NAME)


def test_a_journal_tells_what_is_left_of_commands_that_died() -> None:
    create = {
        "what": "create",
        "name": "a",
        "provider": "l:d",
        "profile": "p",
        "minion_id": "a",
        "minion": True,
        "pid": 9,
    }
    found = replay(
        [
            {"run": "1", **create},
            {"run": "1", "what": "begin", "step": "make-token"},
            {"run": "1", "what": "end", "step": "make-token", "token_id": "abc"},
            {"run": "2", **create, "name": "done"},
            {"run": "2", "what": "over"},
            {"run": "3", "what": "destroy", "name": "z", "provider": "l:d", "minion_id": "z"},
            {"run": "1", "what": "begin", "step": "make-machine"},
            {"run": "1", "what": "undone", "step": "void-token"},
            {"run": "9", "what": "begin", "step": "make-machine"},
            {"run": "1", "what": "begin", "step": "from-the-future"},
            {"nonsense": True},
        ]
    )
    assert [(one.name, one.destroying) for one in found] == [("a", False), ("z", True)]
    assert found[0].token_id == "abc"
    assert found[0].left() == ["the machine is still there", "the key of its minion may still be accepted"]


@pytest.mark.parametrize(
    ("said", "destroys"),
    [
        ([], True),
        ([{"what": "announced"}], False),
        ([{"what": "announced"}, {"what": "requested"}], True),
        ([{"what": "requested"}, {"what": "refused"}], False),
        ([{"what": "requested"}, {"what": "made", "id": "i-1"}], True),
    ],
)
def test_what_was_certainly_not_made_is_not_destroyed(said: list[dict[str, str]], destroys: bool) -> None:
    begun = {"what": "create", "name": "a", "provider": "l:d"}
    (one,) = replay([{"run": "1", **line} for line in (begun, {"what": "begin", "step": "make-machine"}, *said)])
    assert (Undo.DESTROY_MACHINE in one.create.to_undo()) is destroys


# -- events


BASICS = {"name": "a", "profile": "p", "provider": "l:d", "driver": "d"}


def test_events_that_a_driver_forgets_are_fired_before_the_next() -> None:
    announcer = Announcer(BASICS, order_of_create(deploys=True))
    assert [what for what, _ in announcer.begun({})] == ["creating"]
    assert announcer.continued("creating", {}) == []
    assert [what for what, _ in announcer.continued("deploying", {"x": 1})] == ["requesting", "deploying"]
    assert announcer.continued("requesting", {}) == []
    assert announcer.continued("created", {"id": 7}) == []
    [(what, data)] = announcer.made({"state": "running"})
    assert (what, data["id"], data["state"], data["event"]) == ("created", 7, "running", "created instance")


def test_without_a_deployment_nobody_deploys() -> None:
    announcer = Announcer(BASICS, order_of_create(deploys=False))
    announcer.begun({})
    assert announcer.continued("deploying", {}) == []
    assert [what for what, _ in announcer.made({})] == ["requesting", "created"]


def test_a_driver_cannot_say_that_an_event_is_about_another_machine() -> None:
    announcer = Announcer(BASICS, order_of_create(deploys=True))
    [(_, data)] = announcer.continued("creating", {"name": "other", "provider": "x"})
    assert (data["name"], data["provider"]) == ("a", "l:d")


def test_events_of_a_drivers_own_pass_as_they_come() -> None:
    announcer = Announcer(BASICS, order_of_create(deploys=True))
    announcer.begun({})
    assert [what for what, _ in announcer.continued("querying", {})] == ["querying"]
    assert [what for what, _ in announcer.continued("querying", {})] == ["querying"]


def test_destroyed_is_said_when_it_is_true() -> None:
    announcer = Announcer(BASICS, DESTROYING)
    assert [what for what, _ in announcer.begun({})] == ["destroying"]
    assert announcer.continued("destroyed", {}) == []
    assert [what for what, _ in announcer.made({})] == ["destroyed"]


def test_the_settings_that_are_documented_are_known() -> None:
    documented = re.findall(r"(?m)^    ((?:[a-z_]+)(?:, [a-z_]+)*)  +\S", settings.__doc__ or "")
    names = {name for row in documented for name in row.split(", ")}
    assert {"ssh_host", "replace_minion", "win_installer", "tmp_dir"} <= names
    assert names <= SETTINGS
