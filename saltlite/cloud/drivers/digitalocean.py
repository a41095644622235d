"""DigitalOcean droplets, through version 2 of its API over HTTPS.

A provider:

    my-droplets:
      driver: digitalocean
      personal_access_token: …            # with read and write access
      api_root: https://api.digitalocean.com/v2   # the default

A profile; `size` and `image` must be given:

    small:
      provider: my-droplets
      size: s-1vcpu-1gb                   # --list-sizes
      image: debian-12-x64                # --list-images; or the name of a custom snapshot
      location: fra1                      # slug or name, --list-locations
      ssh_key_names: deploy, ops          # keys of the account that may log in as root; or a list
      ssh_key_file: /etc/saltlite/deploy  # the private half of one of them
      ssh_interface: public               # or `private`: the address to log in to
      tags: [web]
      vpc_uuid: …                         # the network; by default the account's network in the location
      backups_enabled: False              # also ipv6, monitoring
      userdata_file: /etc/saltlite/first-boot   # or `userdata`, the text itself
      wait_for_ip_timeout: 600            # seconds; `wait_for_ip_interval` (2) between two polls

Contract: DigitalOcean's OpenAPI description, version 2.0; option names as in Salt's driver.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from saltlite.cloud.api import cloud, config
from saltlite.cloud.api.driver import (
    asking_for,
    interface_of,
    made,
    nearest,
    needed,
    no_action,
    no_function,
    only_action,
    only_function,
    private_key_file,
    public_key,
    require_one,
    tell,
    text_of,
    uniquely_named,
    wait_until,
)
from saltlite.cloud.api.exceptions import (
    SaltCloudConfigError,
    SaltCloudExecutionFailure,
    SaltCloudNotFound,
)
from saltlite.cloud.api.rest import Rest, RestError
from saltlite.cloud.rules.catalogue import text_field

if TYPE_CHECKING:
    from saltlite.loader.hints import __active_provider_name__, __opts__


# -- the API: pages, droplets by name, and waiting for actions

ROOT = "https://api.digitalocean.com/v2"
PROVIDER = "DigitalOcean"
PER_PAGE = 200
"""The largest page of the API."""
PAGES_MAX = 500
"""A longer listing must be a loop."""
GONE_SECONDS = 60.0
ACTION_SECONDS = 180.0
INTERVAL_S = 1.0

_NAME_WITH_ID = re.compile(r".* \((\d+)\)\Z")


class Account:
    """One account, by one of its tokens. It is thread-safe.

    Every method raises RestError when the API refuses or does not answer, and SaltCloudExecutionFailure for an answer
    that this API does not give.
    """

    def __init__(self, token: str, root: str = ROOT) -> None:
        self._rest = Rest(root, PROVIDER, headers={"Authorization": f"Bearer {token}"})

    def part(self, path: str, key: str) -> dict[str, Any]:
        """The object `key` of the answer at `path`."""
        return dict(_part(self._rest.get(path), key, dict))

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """The answer to a POST."""
        return self._rest.post(path, body)

    def delete(self, path: str) -> None:
        """Delete the object at `path`."""
        self._rest.delete(path)

    def rows(self, path: str, key: str | None = None, **filters: str) -> list[dict[str, Any]]:
        """All rows of a listing, page by page."""
        found: list[dict[str, Any]] = []
        for page in range(1, PAGES_MAX + 1):
            answer = self._rest.get(path, {**filters, "page": page, "per_page": PER_PAGE})
            found += [row for row in _part(answer, key or path, list) if isinstance(row, dict)]
            links = answer.get("links")
            pages = links.get("pages") if isinstance(links, dict) else None
            # The address of the next page is not followed: the token must go only to the configured API.
            if not isinstance(pages, dict) or not pages.get("next"):
                return found
        raise SaltCloudExecutionFailure(f"{PROVIDER} lists {path} on more than {PAGES_MAX} pages")

    def droplets(self) -> dict[str, dict[str, Any]]:
        """The droplets by name. If several have one name, the oldest gets it and the others "name (id)"."""
        droplets = sorted(self.rows("droplets"), key=lambda droplet: int(droplet.get("id", 0)))
        return uniquely_named((text_field(one.get("name")), one.get("id"), one) for one in droplets)

    def droplet(self, name: str) -> dict[str, Any]:
        """The droplet with this name, as in `droplets`, or with this id. Raises SaltCloudNotFound, and
        SaltCloudSystemExit when several have that name.
        """
        found = [droplet for droplet in self.rows("droplets", name=name) if droplet.get("name") == name]
        numbered = _NAME_WITH_ID.match(name)
        number = numbered[1] if numbered else name
        if not found and number.isdigit():
            try:
                return self.part(f"droplets/{number}", "droplet")
            except RestError as error:
                if error.status != 404:
                    raise
        if not found:
            raise SaltCloudNotFound(f"{PROVIDER} has no droplet {name!r}; -Q shows those it has")
        require_one(name, (droplet["id"] for droplet in found))
        return found[0]

    def act(self, name: str, kind: str) -> dict[str, Any]:
        """Run an action such as `reboot` on a droplet and wait for its end; returns the droplet."""
        droplet = self.droplet(name)
        action = _part(self.post(f"droplets/{droplet['id']}/actions", {"type": kind}), "action", dict)

        def done() -> bool | None:
            status = self.part(f"actions/{action['id']}", "action").get("status")
            if status == "errored":
                raise SaltCloudExecutionFailure(f"{PROVIDER} could not do {kind} on {name}: is it in the right state?")
            return True if status == "completed" else None

        wait_until(done, f"{PROVIDER} is not done with {kind} on {name}", seconds=ACTION_SECONDS, interval_s=INTERVAL_S)
        return self.part(f"droplets/{droplet['id']}", "droplet")

    def remove(self, droplet: Mapping[str, Any]) -> None:
        """Delete a droplet, and wait until it is gone."""
        self.delete(f"droplets/{droplet['id']}")
        wait_until(
            lambda: self._gone(droplet["id"]),
            f"{PROVIDER} was asked to delete {droplet.get('name')} and still has it",
            seconds=GONE_SECONDS,
            interval_s=INTERVAL_S,
        )

    def _gone(self, number: int) -> bool | None:
        try:
            self.part(f"droplets/{number}", "droplet")
        except RestError as error:
            if error.status == 404:
                return True
            raise
        return None


def _part(answer: Any, key: str, kind: type[Any]) -> Any:
    """A part of an answer. Raises SaltCloudExecutionFailure if it is missing or has another type."""
    if not isinstance(answer, dict) or not isinstance(answer.get(key), kind):
        raise SaltCloudExecutionFailure(f"{PROVIDER} answers without {key!r}: is api_root the address of its API?")
    return answer[key]


def _six(droplet: Mapping[str, Any]) -> dict[str, Any]:
    """The six fields that every listing of machines has."""
    image = droplet.get("image") or {}
    networks = droplet.get("networks") or {}
    entries = [entry for version in ("v4", "v6") for entry in networks.get(version) or ()]
    addresses = [(entry.get("type"), str(entry["ip_address"])) for entry in entries if entry.get("ip_address")]
    return {
        "id": text_field(droplet.get("id")),
        "image": str(image.get("slug") or image.get("name") or image.get("id") or ""),
        "size": str(droplet.get("size_slug") or ""),
        "state": str(droplet.get("status") or ""),
        "private_ips": [address for kind, address in addresses if kind == "private"],
        "public_ips": [address for kind, address in addresses if kind == "public"],
    }


_REGION = re.compile(r"[a-z]{3}\d{1,2}\Z")

_accounts: dict[tuple[str, str], Account] = {}


def __virtual__() -> str | bool:
    """Whether a provider of this driver is configured."""
    return "digitalocean" if get_configured_provider() is not False else False


def get_configured_provider() -> Any:
    """The first provider with all required settings, or False."""
    return config.is_provider_configured(
        __opts__, __active_provider_name__ or "digitalocean", ("personal_access_token",)
    )


def avail_locations(call: str | None = None) -> dict[str, dict[str, Any]]:
    """The available regions by name.

    CLI Example: ``saltlite-cloud --list-locations my-droplets``
    """
    no_action("avail_locations", "--list-locations", call)
    return {region["name"]: region for region in _account().rows("regions") if region.get("available", True)}


def avail_images(call: str | None = None) -> dict[str, dict[str, Any]]:
    """Images by slug, or by name if they have no slug, as custom snapshots.

    CLI Example: ``saltlite-cloud --list-images my-droplets``
    """
    no_action("avail_images", "--list-images", call)
    return {image.get("slug") or image["name"]: image for image in _account().rows("images")}


def avail_sizes(call: str | None = None) -> dict[str, dict[str, Any]]:
    """Sizes, by slug.

    CLI Example: ``saltlite-cloud --list-sizes my-droplets``
    """
    no_action("avail_sizes", "--list-sizes", call)
    return {size["slug"]: size for size in _account().rows("sizes")}


def list_nodes(call: str | None = None) -> dict[str, dict[str, Any]]:
    """The droplets with the six fields.

    CLI Example: ``saltlite-cloud -Q``
    """
    no_action("list_nodes", "-Q or --query", call)
    return {name: _six(droplet) for name, droplet in _account().droplets().items()}


def list_nodes_full(call: str | None = None) -> dict[str, dict[str, Any]]:
    """The droplets with all their fields and the six fields.

    CLI Example: ``saltlite-cloud -F``
    """
    no_action("list_nodes_full", "-F or --full-query", call)
    return {name: {**droplet, **_six(droplet)} for name, droplet in _account().droplets().items()}


def list_nodes_select(call: str | None = None) -> dict[str, dict[str, Any]]:
    """The droplets with the fields of `query.selection`.

    CLI Example: ``saltlite-cloud -S``
    """
    no_action("list_nodes_select", "-S or --select-query", call)
    return cloud.list_nodes_select(list_nodes_full("function"), __opts__["query.selection"], call)


def show_instance(name: str, call: str | None = None) -> dict[str, Any]:
    """All fields of one droplet.

    CLI Example: ``saltlite-cloud -a show_instance web1``
    """
    only_action("show_instance", call)
    droplet = _account().droplet(name)
    return {**droplet, **_six(droplet)}


def start(name: str, call: str | None = None) -> dict[str, Any]:
    """Power a droplet on.

    CLI Example: ``saltlite-cloud -a start web1``
    """
    only_action("start", call)
    return _six(_account().act(name, "power_on"))


def stop(name: str, call: str | None = None) -> dict[str, Any]:
    """Shut a droplet down.

    CLI Example: ``saltlite-cloud -a stop web1``
    """
    only_action("stop", call)
    return _six(_account().act(name, "shutdown"))


def reboot(name: str, call: str | None = None) -> dict[str, Any]:
    """Reboot a droplet.

    CLI Example: ``saltlite-cloud -a reboot web1``
    """
    only_action("reboot", call)
    return _six(_account().act(name, "reboot"))


def show_image(kwargs: Mapping[str, Any] | None = None, call: str | None = None) -> dict[str, Any]:
    """All fields of one image; `image` is its id, slug or name.

    CLI Example: ``saltlite-cloud -f show_image my-droplets image=debian-12-x64``
    """
    only_function("show_image", call)
    wanted = needed(kwargs, "image", "show_image")
    for image in _account().rows("images"):
        if wanted in (str(image["id"]), image.get("slug"), image.get("name")):
            return dict(image)
    raise SaltCloudNotFound(f"{PROVIDER} has no image {wanted!r}; --list-images shows those it has")


def list_keypairs(call: str | None = None) -> dict[str, dict[str, Any]]:
    """The SSH keys of the account, by name.

    CLI Example: ``saltlite-cloud -f list_keypairs my-droplets``
    """
    only_function("list_keypairs", call)
    return {key["name"]: key for key in _account().rows("account/keys", "ssh_keys")}


def import_keypair(kwargs: Mapping[str, Any] | None = None, call: str | None = None) -> dict[str, Any]:
    """Add the public key in `file` to the account, as `keyname`.

    CLI Example: ``saltlite-cloud -f import_keypair my-droplets keyname=deploy file=/etc/saltlite/deploy.pub``
    """
    only_function("import_keypair", call)
    name = needed(kwargs, "keyname", "import_keypair")
    public = public_key(needed(kwargs, "file", "import_keypair"))
    return dict(_part(_account().post("account/keys", {"name": name, "public_key": public}), "ssh_key", dict))


def remove_key(kwargs: Mapping[str, Any] | None = None, call: str | None = None) -> dict[str, Any]:
    """Remove the SSH key `keyname` from the account.

    CLI Example: ``saltlite-cloud -f remove_key my-droplets keyname=deploy``
    """
    only_function("remove_key", call)
    name = needed(kwargs, "keyname", "remove_key")
    for key in _key_ids([name]):
        _account().delete(f"account/keys/{key}")
    return {"keyname": name, "removed": True}


def create(vm_: dict[str, Any]) -> dict[str, Any]:
    """Create a droplet and make it a minion. Raises SaltCloudException.

    CLI Example: ``saltlite-cloud -p small web1``
    """
    tell("creating", "starting create", vm_)
    key_file = _setting("ssh_key_file", vm_)
    if key_file:
        vm_["key_filename"] = private_key_file(key_file, "ssh_key_file")
    asked = _request(vm_)
    shown = {key: value for key, value in asked.items() if key != "user_data"}
    tell("requesting", "requesting instance", vm_, {"kwargs": shown})
    with asking_for(vm_):
        try:
            answer = _account().post("droplets", asked)
        except RestError as error:
            raise _explained(error, asked) from None
    new = _part(answer, "droplet", dict)
    made(vm_, str(new["id"]))
    droplet = _running(vm_, new, _part(answer, "links", dict))
    fields = _six(droplet)
    vm_["ssh_host"] = fields[f"{interface_of(vm_, __opts__)}_ips"][0]
    vm_["ssh_username"] = _setting("ssh_username", vm_, "root")
    vm_["sudo"] = _setting("sudo", vm_, vm_["ssh_username"] != "root")
    done = cloud.bootstrap(vm_, __opts__)
    tell("created", "created instance", vm_)
    return {**done, **droplet, **fields}


def destroy(name: str, call: str | None = None) -> dict[str, Any]:
    """Delete a droplet, and wait until it is gone.

    CLI Example: ``saltlite-cloud -d web1``
    """
    no_function("destroy", "-d or --destroy", call)
    droplet = _account().droplet(name)
    tell("destroying", "destroying instance", {"name": name})
    _account().remove(droplet)
    tell("destroyed", "destroyed instance", {"name": name})
    return {"id": str(droplet["id"]), "destroyed": True}


def script(vm_: Mapping[str, Any]) -> str:
    """The text of the deploy script."""
    return cloud.os_script(str(_setting("script", vm_, "")), vm_, __opts__)


def _account() -> Account:
    """The account of the current provider. Raises SaltCloudConfigError without a token."""
    provider = get_configured_provider()
    if not provider:
        raise SaltCloudConfigError("the provider has no 'personal_access_token', which the driver digitalocean needs")
    root = str(provider.get("api_root") or ROOT)
    token = str(provider["personal_access_token"]).strip()
    if (root, token) not in _accounts:
        _accounts[root, token] = Account(token, root)
    return _accounts[root, token]


def _running(vm_: Mapping[str, Any], droplet: Mapping[str, Any], links: Mapping[str, Any]) -> dict[str, Any]:
    """Wait until the new droplet is up and has the address to log in to; returns the droplet."""
    actions = [action["id"] for action in links.get("actions") or () if action.get("rel") == "create"]
    wanted = f"{interface_of(vm_, __opts__)}_ips"

    def up() -> dict[str, Any] | None:
        now = _account().part(f"droplets/{droplet['id']}", "droplet")
        if now.get("status") == "active" and _six(now)[wanted]:
            return now
        for number in actions:
            if _account().part(f"actions/{number}", "action").get("status") == "errored":
                raise SaltCloudExecutionFailure(f"{PROVIDER} could not create {vm_['name']} (droplet {droplet['id']})")
        return None

    return wait_until(
        up,
        f"{vm_['name']} (droplet {droplet['id']}) is not up with an address of {wanted}",
        seconds=float(_setting("wait_for_ip_timeout", vm_, 600)),
        interval_s=float(_setting("wait_for_ip_interval", vm_, 2)),
    )


def _request(vm_: Mapping[str, Any]) -> dict[str, Any]:
    """The body of the create request. Raises SaltCloudConfigError for an invalid setting."""
    asked: dict[str, Any] = {"name": vm_["name"]}
    for key in ("size", "image"):
        asked[key] = _setting(key, vm_)
        if not asked[key]:
            raise SaltCloudConfigError(f"{vm_['name']} has no {key!r}: set one of --list-{key}s in its profile")
    asked["image"] = _image(str(asked["image"]))
    location = _setting("location", vm_)
    if location:
        asked["region"] = _region(str(location))
    key_names = _setting("ssh_key_names", vm_) or []
    names = key_names.split(",") if isinstance(key_names, str) else [str(name) for name in key_names]
    asked["ssh_keys"] = _key_ids([name.strip() for name in names if name.strip()])
    for setting, field in (("backups_enabled", "backups"), ("ipv6", "ipv6"), ("monitoring", "monitoring")):
        value = _setting(setting, vm_, False)
        if not isinstance(value, bool):
            raise SaltCloudConfigError(f"{setting!r} of {vm_['name']} must be True or False, not {value!r}")
        asked[field] = value
    for key in ("tags", "vpc_uuid"):
        value = _setting(key, vm_)
        if value:
            asked[key] = value
    user_data = _setting("userdata", vm_)
    user_data_file = _setting("userdata_file", vm_)
    if user_data_file:
        user_data = text_of(str(user_data_file), "userdata_file")
    user_data = cloud.userdata_template(__opts__, vm_, user_data)
    if user_data:
        asked["user_data"] = user_data
    interface_of(vm_, __opts__)
    return asked


def _image(wanted: str) -> int | str:
    """The id or slug that the API takes. Custom snapshots have no slug and are found by their name."""
    if wanted.isdigit():
        return int(wanted)
    for image in _account().rows("images", private="true"):
        if image.get("name") == wanted:
            return int(image["id"])
    return wanted


def _region(wanted: str) -> str:
    if _REGION.match(wanted):
        return wanted
    for name, region in avail_locations().items():
        if wanted.lower() in (name.lower(), region["slug"]):
            return str(region["slug"])
    raise SaltCloudNotFound(f"{PROVIDER} has no location {wanted!r}; --list-locations shows those it has")


def _key_ids(names: list[str]) -> list[int]:
    if not names:
        return []
    keys = list_keypairs("function")
    missing = [name for name in names if name not in keys]
    if missing:
        raise SaltCloudConfigError(f"the account has no SSH key {missing[0]!r}; -f list_keypairs shows those it has")
    return [int(keys[name]["id"]) for name in names]


def _explained(error: RestError, asked: Mapping[str, Any]) -> SaltCloudExecutionFailure:
    """The error of a refused create: it names the wrong setting and suggests the most similar value."""
    if error.status != 422:
        return error
    if asked["size"] not in (sizes := avail_sizes()):
        return RestError(f"{PROVIDER} has no size {asked['size']!r}{nearest(asked['size'], sizes)}", status=422)
    if isinstance(asked["image"], str) and asked["image"] not in (images := avail_images()):
        return RestError(f"{PROVIDER} has no image {asked['image']!r}{nearest(asked['image'], images)}", status=422)
    return error


def _setting(key: str, vm_: Mapping[str, Any], default: Any = None) -> Any:
    return config.get_cloud_config_value(key, vm_, __opts__, default=default, search_global=False)
