"""The endpoints of logins, and those that carry out lowstates: /, /run, /login, /logout, /token."""

from __future__ import annotations

import time
from typing import Any

from saltlite.api.clients import Clients, logged_in, logged_out
from saltlite.api.endpoint import COOKIE, TOKEN_HEADER, Endpoint, SlowDownError
from saltlite.api.lowstate import Lowstate, read_login, read_lowstate, read_lowstates
from saltlite.config.api import CLIENTS
from saltlite.errors import LoginError, UsageError

LOGINS_MAX = 10
"""Logins of one request."""


class Caller(Endpoint):
    """What the endpoints of this file share; no path is its own."""

    def clients(self) -> Clients:
        """Who carries out this request's lowstates."""
        return Clients(self.office.link, self.office.runners, f"API from {self.address}")

    def lowstates(self) -> list[Lowstate]:
        """Those of the body: all of them are good before the first is carried out. Raises UsageError, BodyError."""
        enabled = self.office.config.netapi_enable_clients
        return [read_lowstate(row, enabled) for row in read_lowstates(self.body())]

    def pace_login(self) -> None:
        """Raises SlowDownError when this address tries too many logins."""
        wait_s = self.office.logins.take(self.address, time.monotonic())
        if wait_s:
            raise SlowDownError("logins from this address", wait_s)

    async def log_in(self, given: Any) -> dict[str, Any]:
        """The master's answer to one login. Raises LoginError, UsageError."""
        fields = read_login(given)
        self.pace_login()
        return await self.office.link.call("", "login", **fields)


class Root(Caller):
    """/: lowstates, for who has logged in."""

    def get(self) -> None:
        """A welcome, with the clients that may be named."""
        enabled = self.office.config.netapi_enable_clients
        self.answer({"return": "Welcome", "clients": [name for name in CLIENTS if name in enabled]})

    async def post(self) -> None:
        """Carry out lowstates."""
        token = self.token()
        self.answer({"return": await self.clients().run_each(self.lowstates(), token)})


class Run(Caller):
    """/run: lowstates, each with its own token or credentials."""

    async def post(self) -> None:
        """Carry out lowstates."""
        returned: list[Any] = []
        lowstates = self.lowstates()
        for low in lowstates:
            if not low.token and low.login is None:
                raise LoginError("a lowstate for /run has `token`, or `eauth`, `username` and `password`")
        for low in lowstates:
            if not low.token:
                self.pace_login()
            token = await logged_in(self.office.link, low)
            try:
                returned += await self.clients().run_each([low], token)
            finally:
                if not low.token:
                    await logged_out(self.office.link, token)
        self.answer({"return": returned})


class Login(Caller):
    """/login: a name and a password for a token."""

    def get(self) -> None:
        """How to log in."""
        raise LoginError("log in with POST /login: eauth, username and password")

    async def post(self) -> None:
        """Log in. Whatever token or cookie the request has is not looked at: a new one is made."""
        given = self.body()
        rows = given if isinstance(given, list) else [given]
        if len(rows) != 1:
            raise UsageError("one login at a time: POST /token takes several")
        answer = await self.log_in(rows[0])
        self.set_header(TOKEN_HEADER, answer["token"])
        secure = not self.office.config.disable_ssl
        self.set_cookie(COOKIE, answer["token"], httponly=True, secure=secure, samesite="Strict", path="/")
        names = ("token", "start", "expire", "user", "eauth", "perms")
        self.answer({"return": [{name: answer[name] for name in names}]})


class Logout(Caller):
    """/logout: the end of a token."""

    async def post(self) -> None:
        """Make the token void, here and everywhere."""
        await self.office.link.call(self.token(), "logout")
        self.clear_cookie(COOKIE, path="/")
        self.answer({"return": "Your token has been cleared"})


class Token(Caller):
    """/token: tokens for /run."""

    async def post(self) -> None:
        """Log in, once for each entry."""
        given = self.body()
        rows = given if isinstance(given, list) else [given]
        if not 1 <= len(rows) <= LOGINS_MAX:
            raise UsageError(f"one request has 1 to {LOGINS_MAX} logins")
        found = []
        for row in rows:
            answer = await self.log_in(row)
            found.append(
                {
                    "start": answer["start"],
                    "expire": answer["expire"],
                    "name": answer["user"],
                    "eauth": answer["eauth"],
                    "token": answer["token"],
                }
            )
        self.answer(found)
