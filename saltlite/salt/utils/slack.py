"""`salt.utils.slack`: the API of Slack."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from saltlite.salt.utils import http

_API = "https://slack.com/api/"
_FUNCTIONS = {
    "rooms": ("conversations.list", "channels"),
    "users": ("users.list", "members"),
    "message": ("chat.postMessage", "channel"),
}
_OK, _NO_CONTENT = 200, 204


def query(
    function: str,
    api_key: str | None = None,
    args: Any = None,
    method: str = "GET",
    header_dict: Mapping[str, str] | None = None,
    data: Any = None,
    opts: Any = None,
) -> Any:
    """Call `rooms`, `users` or `message`; `{"res": …, "message": …}`."""
    if not api_key:
        return {"message": "No Slack api key found.", "res": False}
    path, field = _FUNCTIONS[function]
    headers = dict(header_dict or {})
    if method != "POST":
        headers["Accept"] = "application/json"
    headers["Authorization"] = f"Bearer {api_key}"
    params = dict(args) if isinstance(args, dict) else {}
    found = http.query(
        f"{_API}{path}", method, params=params, data=data, decode=True, status=True, header_dict=headers, opts=opts
    )
    if found.get("status") == _NO_CONTENT:
        return True
    if found.get("status") != _OK:
        return {"message": "Unknown response" if "dict" in found else "invalid_auth", "res": False}
    answer = found["dict"]
    return (
        {"message": answer["error"], "res": False} if "error" in answer else {"message": answer.get(field), "res": True}
    )
