"""The files of `saltlite cloud`: what they may say, and what is said of mistakes in them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from saltlite.cloud.program.files import INCLUDES_MAX, load_cloud, load_map
from saltlite.errors import ConfigError

ROOT = Path(__file__).parents[2]
CONF = ROOT / "conf"


def test_an_empty_folder_is_a_configuration_without_providers(tmp_path: Path) -> None:
    loaded = load_cloud(str(tmp_path))
    assert loaded.catalogue.every_provider() == []
    assert loaded.config.deploy is True


def test_options_providers_and_profiles_come_from_files_and_folders(tmp_path: Path) -> None:
    (tmp_path / "cloud.conf.d").mkdir()
    (tmp_path / "cloud").write_text("parallel_max: 2\nquery.selection: [id]\n")
    (tmp_path / "cloud.conf.d/a.conf").write_text("parallel_max: 3\n")
    (tmp_path / "cloud.providers").write_text("one: {driver: local}\n")
    (tmp_path / "cloud.providers.d").mkdir()
    (tmp_path / "cloud.providers.d/two.conf").write_text("\ntwo:\n  - driver: ec2\n    id: x\n  - driver: local\n")
    (tmp_path / "cloud.providers.d/no.txt").write_text("three: {driver: local}\n")
    (tmp_path / "cloud.profiles.d").mkdir()
    (tmp_path / "cloud.profiles.d/p.conf").write_text("p:\n  provider: two:ec2\n  size: s\n")
    loaded = load_cloud(str(tmp_path))
    assert loaded.config.parallel_max == 3
    assert loaded.config.module_config == {"query.selection": ["id"]}
    assert [one.name for one in loaded.catalogue.every_provider()] == ["one:local", "two:ec2", "two:local"]
    profile = loaded.catalogue.profile("p")
    assert profile.settings.origin("size") == f"{tmp_path}/cloud.profiles.d/p.conf:3"


@pytest.mark.parametrize(
    ("name", "text", "place", "sentence"),
    [
        ("cloud", "paralel_max: 2\n", "cloud:1:1", "did you mean 'parallel_max'"),
        ("cloud", "parallel_max: 0\n", "cloud:1:15", "a whole number from 1 to 100"),
        ("cloud.providers", "a: text\n", "cloud.providers:1:4", "takes a map of settings"),
        ("cloud.providers", "a:\n  driver: x\na:\n  driver: y\n", "cloud.providers:3:1", "occurs twice"),
        ("cloud.providers", "a: {id: 1}\n", "cloud.providers:1", "lacks the setting 'driver'"),
        ("cloud.providers", "'a:b': {driver: x}\n", "cloud.providers:1:1", "not a name for a provider"),
        ("cloud.profiles", "- a\n", "cloud.profiles:1:1", "`name: settings`"),
        ("cloud.profiles", "a: [\n", "cloud.profiles:2:1", "not YAML"),
        ("cloud.profiles", "a: {extends: a, provider: x}\n", "cloud.profiles:1", "extends itself"),
    ],
)
def test_a_mistake_is_told_with_its_place(tmp_path: Path, name: str, text: str, place: str, sentence: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(ConfigError) as error:
        load_cloud(str(tmp_path))
    assert f"{tmp_path}/{place}" in str(error.value)
    assert sentence in str(error.value)


def test_a_name_that_two_files_have_is_told_with_both_places(tmp_path: Path) -> None:
    (tmp_path / "cloud.profiles").write_text("p: {provider: a}\n")
    (tmp_path / "cloud.profiles.d").mkdir()
    (tmp_path / "cloud.profiles.d/x.conf").write_text("p: {provider: b}\n")
    with pytest.raises(ConfigError, match=r"x.conf:1:1: profile p is written twice, first at .*cloud.profiles:1"):
        load_cloud(str(tmp_path))


def test_every_mistake_is_told_at_once(tmp_path: Path) -> None:
    (tmp_path / "cloud.providers").write_text("a: 1\nb: 2\n")
    (tmp_path / "cloud.profiles").write_text("c: 3\n")
    with pytest.raises(ConfigError) as error:
        load_cloud(str(tmp_path))
    assert len(str(error.value).splitlines()) == 3


def test_a_map_includes_others_beside_it_and_wins_over_them(tmp_path: Path) -> None:
    (tmp_path / "base.map").write_text("p: [a, {b: {x: 1}}]\n")
    (tmp_path / "web.map").write_text("include: [base.map]\nq:\n  - b: {x: 2, requires: [a]}\n")
    found = {one.name: one for one in load_map(str(tmp_path / "web.map"))}
    assert (found["a"].profile, found["b"].profile) == ("p", "q")
    assert found["b"].settings.values == {"x": 2}
    assert found["b"].settings.where == f"{tmp_path}/web.map:2"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("include: web.map\n", "includes itself"),
        ("include: gone.map\n", "there is no such file"),
        ("p: [a, a]\n", "has a twice"),
        ("p: {a/b: {}}\n", "is not a name for a machine"),
        ("include: [1]\n", "takes the names of files"),
    ],
)
def test_a_map_that_cannot_be_used_says_why(tmp_path: Path, text: str, sentence: str) -> None:
    (tmp_path / "web.map").write_text(text)
    with pytest.raises(Exception, match=sentence):
        load_map(str(tmp_path / "web.map"))


def test_a_map_has_at_most_so_many_files(tmp_path: Path) -> None:
    for number in range(INCLUDES_MAX + 1):
        (tmp_path / f"{number}.map").write_text(f"p: [m{number}]\n")
    names = [f"{number}.map" for number in range(INCLUDES_MAX)]
    (tmp_path / "all.map").write_text(f"include: {json.dumps(names)}\n")
    assert len(load_map(str(tmp_path / "all.map"))) == INCLUDES_MAX
    (tmp_path / "all.map").write_text(f"include: {json.dumps([*names, f'{INCLUDES_MAX}.map'])}\n")
    with pytest.raises(ConfigError, match="at most"):
        load_map(str(tmp_path / "all.map"))


def test_the_samples_set_nothing_and_say_something_that_works_when_they_are_uncommented(tmp_path: Path) -> None:
    for name in ("cloud", "cloud.providers", "cloud.profiles"):
        text = (CONF / name).read_text(encoding="utf-8")
        (tmp_path / name).write_text(text)
    assert load_cloud(str(tmp_path)).catalogue.every_provider() == []
    for name in ("cloud.providers", "cloud.profiles"):
        text = (CONF / name).read_text(encoding="utf-8")
        (tmp_path / name).write_text(re.sub(r"^#(?=[^ ]|  )", "", text, flags=re.MULTILINE))
    found = load_cloud(str(tmp_path)).catalogue
    drivers = {one.driver for one in found.every_provider()}
    assert drivers == {path.stem for path in (ROOT / "saltlite/cloud/drivers").glob("[a-z]*.py")}
    assert found.profile("large-web").settings.values["ssh_username"] == "admin"
    assert found.dropped == {}


def test_a_map_that_is_not_there_is_not_asked_to_be_made_empty(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"/none.map: there is no such file, and so no map$"):
        load_map(str(tmp_path / "none.map"))
