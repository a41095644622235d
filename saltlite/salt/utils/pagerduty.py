"""`salt.utils.pagerduty`: the API of PagerDuty."""

from __future__ import annotations

from typing import Any

from saltlite.salt.utils import http, json


def query(
    method: str = "GET",
    profile_dict: Any = None,
    url: str | None = None,
    path: str = "api/v1",
    action: str | None = None,
    api_key: str | None = None,
    service: str | None = None,
    params: Any = None,
    data: Any = None,
    subdomain: str | None = None,
    client_url: str | None = None,
    description: str | None = None,
    opts: Any = None,
    verify_ssl: bool = True,
) -> Any:
    """The text that the API answers. Keys are those of `profile_dict`, unless they are given."""
    creds = dict(profile_dict) if isinstance(profile_dict, dict) else {}
    for name, value in (("api_key", api_key), ("service", service), ("subdomain", subdomain)):
        if value is not None:
            creds[f"pagerduty.{name}"] = value
    root = f"https://{creds.get('pagerduty.subdomain')}.pagerduty.com"
    body = {
        "event_type": "trigger",
        "description": description or "SaltStack Event Triggered",
        **(data or {}),
        "client": http.USERAGENT,
        "client_url": client_url or root,
    }
    if creds.get("pagerduty.service") is not None:
        body["service_key"] = creds["pagerduty.service"]
    headers = {"User-Agent": http.USERAGENT, "Authorization": f"Token token={creds['pagerduty.api_key']}"}
    if method != "GET":
        headers["Content-type"] = "application/json"
    found = http.query(
        url or f"{root}/{path}/{action}",
        method,
        params=params or {},
        header_dict=headers,
        data=json.dumps({} if method == "GET" else body),
        decode=False,
        text=True,
        verify_ssl=verify_ssl,
        opts=opts,
    )
    return found["text"]


def list_items(action: str, key: str, profile_dict: Any = None, api_key: str | None = None, opts: Any = None) -> Any:
    """The items that the API lists, by one of their fields."""
    answer = json.loads(query(profile_dict=profile_dict, api_key=api_key, action=action, opts=opts))
    return {item[key]: item for item in answer[action]}
