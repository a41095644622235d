"""How the driver `digitalocean` asks DigitalOcean's API: pages, droplets by name, actions that are waited for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from saltlite.cloud.api.exceptions import SaltCloudExecutionFailure, SaltCloudNotFound, SaltCloudSystemExit
from saltlite.cloud.api.rest import Rest, RestError
from saltlite.cloud.api.waiting import wait_until

ROOT = "https://api.digitalocean.com/v2"
PROVIDER = "DigitalOcean"
PER_PAGE = 200
"""The most that the API gives at once."""
PAGES_MAX = 500
"""A listing that is longer than this goes in circles."""
GONE_SECONDS = 60.0
ACTION_SECONDS = 180.0
INTERVAL_S = 1.0

_NAME_WITH_ID = re.compile(r".* \((\d+)\)\Z")


class Account:
    """One account, as a token of it sees it; any number of threads may ask.

    Every method raises RestError when the API refuses or does not answer, and SaltCloudExecutionFailure when what it
    answers is none of this API.
    """

    def __init__(self, token: str, root: str = ROOT) -> None:
        self._rest = Rest(root, PROVIDER, headers={"Authorization": f"Bearer {token}"})

    def part(self, path: str, key: str) -> dict[str, Any]:
        """The object `key` of what is at `path`."""
        return dict(part(self._rest.get(path), key, dict))

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """What is answered to a POST."""
        return self._rest.post(path, body)

    def delete(self, path: str) -> None:
        """Remove what is at `path`."""
        self._rest.delete(path)

    def rows(self, path: str, key: str | None = None, **filters: str) -> list[dict[str, Any]]:
        """Everything of a listing, page for page."""
        found: list[dict[str, Any]] = []
        for page in range(1, PAGES_MAX + 1):
            answer = self._rest.get(path, {**filters, "page": page, "per_page": PER_PAGE})
            found += [row for row in part(answer, key or path, list) if isinstance(row, dict)]
            links = answer.get("links")
            pages = links.get("pages") if isinstance(links, dict) else None
            # The address of the next page is not followed: the token goes to the root of the API and nowhere else.
            if not isinstance(pages, dict) or not pages.get("next"):
                return found
        raise SaltCloudExecutionFailure(f"{PROVIDER} lists {path} on more than {PAGES_MAX} pages")

    def droplets(self) -> dict[str, dict[str, Any]]:
        """The droplets by name. Several may share one: the oldest has it, the others have their id behind it."""
        found: dict[str, dict[str, Any]] = {}
        for droplet in sorted(self.rows("droplets"), key=lambda droplet: int(droplet.get("id", 0))):
            name = str(droplet.get("name", ""))
            found[name if name not in found else f"{name} ({droplet['id']})"] = droplet
        return found

    def droplet(self, name: str) -> dict[str, Any]:
        """The droplet of a name as `droplets` has it, or of an id.

        Raises SaltCloudNotFound when there is none, SaltCloudSystemExit when several have that name.
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
        if len(found) > 1:
            ids = ", ".join(str(droplet["id"]) for droplet in found)
            raise SaltCloudSystemExit(f"several droplets are called {name}: say which by its id, of {ids}")
        return found[0]

    def act(self, name: str, kind: str) -> dict[str, Any]:
        """Have an action such as `reboot` carried out on a droplet; what the droplet is when it is done."""
        droplet = self.droplet(name)
        action = part(self.post(f"droplets/{droplet['id']}/actions", {"type": kind}), "action", dict)

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
            f"{PROVIDER} was told to delete {droplet.get('name')} and still has it",
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


def part(answer: Any, key: str, kind: type[Any]) -> Any:
    """A part of an answer. Raises SaltCloudExecutionFailure when it is not there, or of another kind."""
    if not isinstance(answer, dict) or not isinstance(answer.get(key), kind):
        raise SaltCloudExecutionFailure(f"{PROVIDER} answers without {key!r}: is api_root the address of its API?")
    return answer[key]


def six(droplet: Mapping[str, Any]) -> dict[str, Any]:
    """The six fields that every listing of machines has."""
    image = droplet.get("image") or {}
    networks = droplet.get("networks") or {}
    entries = [entry for version in ("v4", "v6") for entry in networks.get(version) or ()]
    addresses = [(entry.get("type"), str(entry["ip_address"])) for entry in entries if entry.get("ip_address")]
    return {
        "id": str(droplet.get("id", "")),
        "image": str(image.get("slug") or image.get("name") or image.get("id") or ""),
        "size": str(droplet.get("size_slug") or ""),
        "state": str(droplet.get("status") or ""),
        "private_ips": [address for kind, address in addresses if kind == "private"],
        "public_ips": [address for kind, address in addresses if kind == "public"],
    }
