"""saltypie, a Python library that was written for Salt's API, unmodified."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

import pytest

from saltlite import __version__
from tests.e2e.served import serve
from tests.support.api import PASSWORD

pytestmark = pytest.mark.e2e

saltypie = pytest.importorskip("saltypie", reason="saltypie is not installed: .ci/dev.lock has it")


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the API of a fleet with the minions `a` and `b`."""
    with serve(tmp_path_factory.mktemp("saltypie"), disable_ssl=True) as (_fleet, address):
        yield address


@pytest.fixture
def library(url: str) -> Any:
    """The library, logged in as a user who may do everything."""
    return of(url, "admin")


def of(url: str, user: str, password: str = PASSWORD) -> Any:
    # It joins paths to the address, which therefore ends with a slash.
    library = saltypie.Salt(url=f"{url}/", username=user, passwd=password, eauth="file", trust_host=True)
    library.max_retries, library.timeout, library.lookup_interval = 0, 20, 0.2
    return library


def test_it_runs_functions_on_minions(library: Any) -> None:
    assert library.local(target="*", fun="test.ping") == {"return": [{"a": True, "b": True}]}
    assert library.local(target="a,b", tgt_type="list", fun="test.echo", args=["hello"])["return"][0]["b"] == "hello"
    found = library.local(target="a", fun="test.arg", args=[1], kwargs={"two": 2}, pillar={"three": 3})
    assert found["return"][0]["a"]["args"] == [1]
    assert found["return"][0]["a"]["kwargs"]["two"] == 2
    assert library.local(target="nobody", fun="test.ping") == {"return": [{}]}


def test_it_waits_for_what_it_has_published(library: Any) -> None:
    assert library.local_async(wait=True, target="a", fun="test.echo", args=["hello"])["return"][0]["a"] == "hello"
    jid = library.local_async(target="*", fun="test.ping")["return"][0]["jid"]
    assert library.lookup_job(jid, until_complete=True)["return"][0].items() <= {"a": True, "b": True}.items()


def test_it_calls_runners_and_wheel_functions(library: Any) -> None:
    assert library.runner(fun="manage.up") == {"return": [["a", "b"]]}
    assert library.runner_async(fun="manage.up")["return"][0]["tag"].startswith("salt/run/")
    found = library.wheel(fun="key.finger", kwargs={"match": "a"})["return"][0]["data"]
    assert (found["success"], found["return"].keys()) == (True, {"minions"})


def test_it_reads_versions(library: Any) -> None:
    version = f"saltlite {__version__}"
    assert library.versions() == {"master": version, "minions": {"a": version, "b": version}}


def test_it_prints_what_a_wrong_function_returns(library: Any) -> None:
    assert library.local(target="a", fun="nix.da") == {"return": [{"a": "'nix.da' is not available."}]}


def test_a_wrong_password_is_an_error_of_its_own(url: str) -> None:
    error = importlib.import_module("saltypie.exceptions").SaltAuthenticationError
    with pytest.raises(error):
        of(url, "admin", "wrong").local(target="*", fun="test.ping")
