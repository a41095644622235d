"""Drivers that were written for Salt, unmodified, without Salt: they list and create against stubs of their APIs.

`.ci/foreign` downloads them: digitalocean, linode and scaleway of Salt 3006.9, and proxmox of the extension
saltext-proxmox 2.0. They are not part of saltlite. DRIVER, which is ours, imports and calls what they do.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import requests

from saltlite.cloud.api import port
from saltlite.cloud.api.exceptions import SaltCloudException
from saltlite.cloud.program.drivers import Driver, Drivers
from saltlite.cloud.rules.catalogue import Provider, Settings
from tests.support.api import Answers, answering
from tests.support.cloud import Program, machine
from tests.support.foreign import folder_of
from tests.support.modules import write

TAGS = ["creating", "requesting", "deploying", "created"]

DRIVER = """
    import logging
    import salt.config as config
    import salt.utils.cloud
    import salt.utils.files
    import salt.utils.hashutils
    import salt.utils.json
    import salt.utils.stringutils
    from salt._compat import ipaddress
    from salt.exceptions import SaltCloudNotFound, SaltCloudSystemExit

    log = logging.getLogger(__name__)

    def __virtual__():
        return get_configured_provider() is not False and get_dependencies() is not False and "ours"

    def get_configured_provider():
        return config.is_provider_configured(__opts__, __active_provider_name__ or "ours", ("token",))

    def get_dependencies():
        return config.check_driver_dependencies("ours", {"json": True})

    def list_nodes_full(call=None):
        return {one["name"]: one for one in query()["servers"]}

    def list_nodes(call=None):
        return {name: {**one, "private_ips": [], "public_ips": [str(ipaddress.ip_address(one["ip"]))]}
                for name, one in list_nodes_full().items()}

    def list_nodes_select(call=None):
        return salt.utils.cloud.list_nodes_select(list_nodes_full(), __opts__["query.selection"], call)

    def show_instance(name, call=None):
        node = list_nodes_full()[name]
        __utils__["cloud.cache_node"](node, __active_provider_name__, __opts__)
        return node

    def destroy(name, call=None):
        raise SaltCloudNotFound(name)

    def create(vm_):
        with salt.utils.files.fopen(config.get_cloud_config_value("userdata_file", vm_, __opts__)) as fp_:
            data = salt.utils.stringutils.to_unicode(fp_.read())
        digest = salt.utils.hashutils.sha256_digest(data)
        __utils__["cloud.fire_event"](
            "event", "starting create", "salt/cloud/{}/creating".format(vm_["name"]),
            args=__utils__["cloud.filter_event"]("creating", vm_, ["name", "profile", "provider", "driver"]),
            sock_dir=__opts__["sock_dir"], transport=__opts__["transport"])
        try:
            query({"name": vm_["name"], "digest": digest}, "POST")
        except SaltCloudSystemExit as exc:
            log.error("Error creating %s: %s", vm_["name"], exc, exc_info_on_loglevel=logging.DEBUG)
            return False
        found = salt.utils.cloud.wait_for_ip(show_instance, update_args=(vm_["name"],), interval=0.01)
        vm_["ssh_host"] = found["ip"]
        ret = __utils__["cloud.bootstrap"](vm_, __opts__)
        ret.update(found)
        return ret

    def query(args=None, method="GET"):
        root = config.get_cloud_config_value("api_root", get_configured_provider(), __opts__, search_global=False)
        found = __utils__["http.query"](
            root + "/servers", method=method, data=salt.utils.json.dumps(args or {}), status=True, decode=True,
            decode_type="json", data_render=False, headers=True, opts=__opts__, hide_fields=["token"],
            header_dict={"X-Auth-Token": get_configured_provider()["token"], "Content-Type": "application/json"})
        if found["status"] > 299:
            raise SaltCloudSystemExit("the API answers {}: {}".format(found["status"], found.get("text")))
        return found["dict"]
    """


@contextmanager
def driver_of(folder: Path, name: str, settings: Mapping[str, Any]) -> Iterator[tuple[Driver, Program]]:
    """The driver in the file of that name, with its provider `lab`, and a program that takes down what it does."""
    given = {"driver": name, "provider": f"lab:{name}", **settings}
    opts = {
        "cloud_dirs": [str(folder)],
        "providers": {"lab": {name: given}},
        "profiles": {"small": {"profile": "small", "provider": f"lab:{name}"}},
        "query.selection": ["id", "state"],
        "sock_dir": "",
        "transport": "zeromq",
        "ssh_agent": True,
    }
    program = Program(opts)
    with port.running(program):
        yield Drivers(opts).of(Provider("lab", name, Settings(given))), program


@pytest.fixture
def foreign(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A folder with the file of the driver that the test is for."""
    shutil.copy(folder_of("clouds") / f"{request.param}.py", tmp_path)
    return tmp_path


def answer(request: str, body: Any = "", **more: Any) -> dict[str, Any]:
    return {"request": request, "body": body, **more}


def tags_of(program: Program) -> list[str]:
    return [tag.rpartition("/")[2] for tag in program.tags()]


def send_here(monkeypatch: pytest.MonkeyPatch, answers: Answers, root: str) -> None:
    """Let `requests` send to the stub what is for `root`."""
    send = requests.Session.request

    def redirected(self: Any, method: str, url: str, **kwargs: Any) -> Any:
        assert url.startswith((root, answers.address))
        return send(self, method, url.replace(root, answers.address), **kwargs)

    monkeypatch.setattr(requests.Session, "request", redirected)


def test_a_driver_in_salts_style_lists_and_creates(tmp_path: Path) -> None:
    (tmp_path / "userdata").write_text("echo mellon")
    one = {"id": "7", "name": "web1", "ip": "9.9.9.9", "image": "debian", "size": "small", "state": "running"}
    planned = [
        answer("GET /servers", {"servers": [one]}),
        answer("POST /servers", {"server": one}),
        answer("GET /servers", {"servers": [one]}),
        answer("POST /servers", {"message": "no more"}, status=403),
    ]
    with (
        answering(planned) as answers,
        driver_of(
            write(tmp_path / "clouds", {"ours": DRIVER}), "ours", {"token": "t0k", "api_root": answers.address}
        ) as (driver, program),
    ):
        assert driver.machines() == {
            "web1": {
                "id": "7",
                "image": "debian",
                "size": "small",
                "state": "running",
                "private_ips": [],
                "public_ips": ["9.9.9.9"],
            }
        }
        vm_ = machine("ours", "web1", userdata_file=str(tmp_path / "userdata"))
        made = driver.call("create", dict(vm_))
        assert driver.call("create", dict(vm_)) is False
    assert (made["ip"], made["deployed"]) == ("9.9.9.9", True)
    assert tags_of(program)[:2] == ["creating", "deploying"]
    assert answers.asked[1].headers["X-Auth-Token"] == "t0k"
    assert '"digest": "fa3d' in answers.asked[1].body
    assert program.remembered["lab:ours"]["web1"]["id"] == "7"


DROPLET = {
    "id": 7,
    "name": "web1",
    "status": "active",
    "region": {"name": "Frankfurt", "slug": "fra1"},
    "image": {"name": "12 x64", "slug": "debian-12-x64"},
    "size_slug": "s-1",
    "networks": {"v4": [{"type": "public", "ip_address": "9.9.9.9"}], "v6": []},
}


@pytest.mark.parametrize("foreign", ["digitalocean"], indirect=True)
def test_salts_digitalocean(foreign: Path, tmp_path: Path) -> None:
    (tmp_path / "key").write_text("a private key")
    listing = {"droplets": [DROPLET], "links": {}}
    keys = {"ssh_keys": [{"id": 5, "name": "deploy"}], "links": {}}
    planned = [
        answer("GET /droplets/?page=1&per_page=200", listing),
        answer("GET /sizes/?per_page=100", {"sizes": [{"slug": "s-1"}]}),
        answer(
            "GET /images/?page=1&per_page=200",
            {"images": [{"id": 1, "name": "12 x64", "slug": "debian-12-x64"}], "links": {}},
        ),
        answer("GET /regions/", {"regions": [{"name": "Frankfurt", "slug": "fra1"}]}),
        answer("GET /account/keys/?page=1&per_page=100", keys),
        answer("POST /droplets/", {"droplet": DROPLET}),
        answer("GET /droplets/?page=1&per_page=200", listing),
    ]
    vm_ = machine(
        "digitalocean", "web1", size="s-1", image="debian-12-x64", location="fra1", ssh_key_name="deploy",
        ssh_key_file=str(tmp_path / "key"),
    )  # fmt: skip
    with answering(planned) as answers:
        settings = {"personal_access_token": "t0k", "api_root": answers.address}
        with driver_of(foreign, "digitalocean", settings) as (driver, program):
            listed = driver.machines()["web1"]
            made = driver.call("create", vm_)
    assert (listed["id"], listed["state"], listed["public_ips"]) == ("7", "active", ["9.9.9.9"])
    assert (made["id"], made["deployed"]) == (7, True)
    assert program.deployed[0]["ssh_host"] == "9.9.9.9"
    assert tags_of(program) == TAGS


@pytest.mark.parametrize("foreign", ["linode"], indirect=True)
def test_salts_linode(foreign: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = {
        "id": 7, "label": "web1", "status": "running", "image": "linode/debian12", "type": "g6-nanode-1",
        "ipv4": ["9.9.9.9", "192.168.1.7"], "ipv6": "2001:db8::7/128",
    }  # fmt: skip
    event = {"id": 1, "action": "linode_create", "status": "finished", "entity": {"type": "linode", "id": 7}}
    instance = answer("GET /v4/linode/instances/7", one)
    planned = [
        answer("GET /v4/linode/instances", {"data": [one]}),
        instance,
        answer("POST /v4/linode/instances", one),
        answer("GET /v4/account/events", {"data": [event]}),
        instance,
        instance,
    ]
    settings = {"apikey": "t0k", "api_version": "v4", "password": "a long password"}
    vm_ = machine("linode", "web1", size="g6-nanode-1", image="linode/debian12", location="eu-west")
    with answering(planned) as answers, driver_of(foreign, "linode", settings) as (driver, program):
        send_here(monkeypatch, answers, "https://api.linode.com")
        listed = driver.call("list_nodes", call="function")["web1"]
        made = driver.call("create", vm_)
    assert (listed["public_ips"], listed["private_ips"]) == (["9.9.9.9"], ["192.168.1.7"])
    assert (made["id"], made["state"], made["deployed"]) == (7, "running", True)
    assert program.deployed[0]["ssh_host"] == "9.9.9.9"
    assert "creating" in tags_of(program)
    assert tags_of(program)[-1] == "created"


@pytest.mark.parametrize("foreign", ["scaleway"], indirect=True)
def test_salts_scaleway_asks_its_api_and_ends_as_it_does_with_salt(foreign: Path) -> None:
    """In 3006.9 the file takes the dict that `http.query` returns for an answer of `requests`, so it never lists."""
    with answering([answer("GET /servers/", {"servers": []})]) as answers:
        settings = {"token": "t0k", "access_key": "a-1", "api_root": answers.address}
        with (
            driver_of(foreign, "scaleway", settings) as (driver, _),
            pytest.raises(SaltCloudException, match="'dict' object has no attribute 'status_code'"),
        ):
            driver.machines()
        assert driver.has("create")


@pytest.mark.parametrize("foreign", ["proxmox"], indirect=True)
def test_the_public_extension_proxmox(foreign: Path) -> None:
    one = {"vmid": 107, "name": "web1", "status": "running", "node": "pve1", "type": "qemu"}
    listing = answer("GET /api2/json/cluster/resources?type=vm", {"data": [one]})
    config = answer("GET /api2/json/nodes/pve1/qemu/107/config", {"data": {"ipconfig0": "ip=9.9.9.9/24,gw=9.9.9.1"}})
    create = {"node": "pve1", "vmid": 107}
    planned = [
        listing,
        config,
        answer("POST /api2/json/nodes/pve1/qemu", {"data": "UPID"}),
        listing,
        answer("POST /api2/json/nodes/pve1/qemu/107/status/start", {"data": "UPID"}),
        listing,
        answer("GET /api2/json/nodes/pve1/qemu/107/status/current", {"data": {"status": "running"}}),
        listing,
        config,
    ]
    with answering(planned) as answers:
        settings = {"url": answers.address, "user": "salt@pve", "token": "name=t0k"}
        with driver_of(foreign, "proxmox", settings) as (driver, program):
            listed = driver.machines()["web1"]
            made = driver.call(
                "create", machine("proxmox", "web1", technology="qemu", create=create, ssh_host="9.9.9.9")
            )
    assert (listed["id"], listed["state"], listed["public_ips"]) == ("107", "running", ["9.9.9.9"])
    assert made["deployed"] is True
    assert tags_of(program)[0] == "creating"
    assert tags_of(program)[-1] == "created"
