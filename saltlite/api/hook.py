"""/hook: what other programs say becomes an event, under a tag that nothing else has."""

from __future__ import annotations

import time
from typing import Any

from saltlite.api.endpoint import TOKEN_HEADER, Endpoint, SlowDownError
from saltlite.api.formats import BodyError
from saltlite.errors import LoginError, RefusedError

HOOK_MAX = 64 * 1024
"""Bytes of a hook's body: each is an event that is stored."""
_SECRET = {"authorization", "cookie", "proxy-authorization", TOKEN_HEADER.lower()}
"""Headers that are in no event."""


class Hook(Endpoint):
    """/hook and /hook/<anything>."""

    async def post(self, path: str | None = None) -> None:
        """Make an event `salt/netapi/hook/<path>` of the body."""
        token = "" if self.office.config.webhook_disable_auth else self.token()
        wait_s = self.office.hooks.take("", time.monotonic())
        if wait_s:
            raise SlowDownError("hooks", wait_s)
        if len(self.request.body) > HOOK_MAX:
            raise BodyError(f"the body of a hook has at most {HOOK_MAX} bytes", 413)
        headers = {name: value for name, value in self.request.headers.items() if name.lower() not in _SECRET}
        try:
            await self.office.link.call(
                token,
                "hook",
                path=(path or "").strip("/"),
                data={"headers": headers, "body": self._body(), "post": self._form()},
            )
        except (LoginError, RefusedError):
            # Those who may send none must not use up what is for those who may.
            self.office.hooks.give_back("")
            raise
        self.answer({"success": True})

    def _body(self) -> Any:
        """The value of a body that is JSON or YAML, otherwise its text: hooks come from all kinds of programs."""
        try:
            return self.body() if self.request.body else ""
        except BodyError:
            return self.request.body.decode("utf-8", "replace")

    def _form(self) -> dict[str, Any]:
        """The fields of a form."""
        found = self._body()
        is_form = self.request.headers.get("Content-Type", "").startswith("application/x-www-form-urlencoded")
        return found if is_form and isinstance(found, dict) else {}
