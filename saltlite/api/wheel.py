"""Wheel functions, with the names and answers of Salt's: work on keys, and questions about the master."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any

from saltlite.api.link import MasterLink
from saltlite.config.opts import shown_value
from saltlite.errors import UsageError
from saltlite.model import keys

TOKEN_LASTS_S = 3600.0
"""The default lifetime of a join token."""
TOKEN_CREATE = "key.token_create"  # noqa: S105 - the name of a function
"""Its return is a secret."""
GENERATING = ("key.gen", "key.gen_accept", "key.gen_keys")
"""Salt's functions that make private keys on the master; here a private key never leaves its minion."""
WRITING = ("config.apply", "config.update_config", "file_roots.write", "pillar_roots.write")
"""Salt's functions that write what minions or the master believe: no process that reads the network may (S10)."""
READING = (
    "file_roots.find", "file_roots.list_env", "file_roots.list_roots", "file_roots.read",
    "pillar_roots.find", "pillar_roots.list_env", "pillar_roots.list_roots", "pillar_roots.read",
)  # fmt: skip
"""Functions that read folders of the master, and run as runners do: each in its own process."""
MATCH = "match"
"""Salt's wheel functions that do not take it ignore it, because clients send it with each of them."""


class Wheel:
    """The wheel functions, on behalf of the holder of a token."""

    def __init__(self, link: MasterLink, token: str, saltgui: Mapping[str, Any] | None = None) -> None:
        """`saltgui` are the settings of SaltGUI, which `config.values` answers."""
        self._link = link
        self._token = token
        self._saltgui = saltgui or {}

    async def call(self, fun: str, args: Iterable[Any], kwargs: Mapping[str, Any]) -> Any:
        """Call a wheel function that is not one of READING. Raises UsageError for an unknown one or wrong arguments."""
        function = _FUNCTIONS.get(fun)
        if fun in GENERATING:
            raise UsageError(f"{fun}: a minion makes its own key; let it in with a join token of key.token_create")
        if fun in WRITING:
            raise UsageError(f"{fun}: the master's processes may not write its files; edit them on the master")
        if function is None:
            known = ", ".join((*_FUNCTIONS, *READING))
            raise UsageError(f"there is no wheel function {fun[:80]!r}: there are {known}")
        given, signature = list(args), inspect.signature(function)
        if MATCH not in signature.parameters:
            kwargs = {name: value for name, value in kwargs.items() if name != MATCH}
        try:
            signature.bind(self, *given, **kwargs)
        except TypeError as error:
            raise UsageError(f"{fun}: {error}") from None
        return await function(self, *given, **kwargs)

    async def list_all(self) -> dict[str, list[str]]:
        """Ids by list, as Salt's `key.list_all`."""
        return keys.all_lists(await self._rows())

    async def list_some(self, match: str) -> dict[str, list[str]]:
        """One of the lists, or the keys whose ids match a glob, as Salt's `key.list`."""
        return keys.some_lists(await self._rows(), match)

    async def name_match(self, match: str) -> dict[str, list[str]]:
        """Ids that match a glob, by list."""
        return keys.matching(await self.list_all(), match)

    async def finger(self, match: str, hash_type: str | None = None) -> dict[str, dict[str, str]]:
        """Fingerprints of keys whose ids match a glob, by list, as Salt spells them. There is one `hash_type` only."""
        _refuse_hash(hash_type)
        own = await self.finger_master() if match in ("*", keys.LOCAL_KEY) else {}
        found = keys.fingerprints(await self._rows(), match)
        return {**own, **{name: {one: _spelled(text) for one, text in ids.items()} for name, ids in found.items()}}

    async def finger_master(self, hash_type: str | None = None) -> dict[str, dict[str, str]]:
        """The fingerprint of the master's key."""
        _refuse_hash(hash_type)
        own = (await self._link.call(self._token, "key_finger"))["master"]["fingerprint"]
        return {keys.LOCAL: {keys.LOCAL_KEY: _spelled(own)}}

    async def key_str(self, match: str) -> dict[str, dict[str, str]]:
        """The public keys of the ids that match a glob, by list, in PEM."""
        rows = (await self._link.call(self._token, "key_list", public=True))["keys"]
        return keys.by_id(rows, match, "public")

    async def connected(self) -> list[str]:
        """The ids of the connected minions."""
        minions: list[str] = (await self._link.call(self._token, "minions_connected"))["minions"]
        return minions

    async def config_values(self) -> dict[str, Any]:
        """The options of the master, and the settings of SaltGUI, without secrets."""
        values = (await self._link.call(self._token, "config_values"))["values"]
        return {**values, **shown_value(dict(self._saltgui))}

    async def finger_of(self, minion: str) -> dict[str, dict[str, str]]:
        """Fingerprints of the keys of one id, by list."""
        found = await self.finger("*")
        rows = {name: {one: text for one, text in ids.items() if one == minion} for name, ids in found.items()}
        return {name: ids for name, ids in rows.items() if ids}

    async def accept(
        self, match: str, include_rejected: bool = False, include_denied: bool = False
    ) -> dict[str, list[str]]:
        """Accept the keys whose ids match a glob."""
        states = ["pending", *(["rejected"] if include_rejected else []), *(["conflict"] if include_denied else [])]
        return await self._change("accept", match, states, "minions")

    async def accept_dict(self, match: Mapping[str, Any]) -> dict[str, list[str]]:
        """Accept keys by list and id, as `{minions_pre: [id]}`."""
        return await self._change_named("accept", match, "minions")

    async def reject(
        self, match: str, include_accepted: bool = False, include_denied: bool = False
    ) -> dict[str, list[str]]:
        """Reject the keys whose ids match a glob."""
        states = ["pending", *(["accepted"] if include_accepted else []), *(["conflict"] if include_denied else [])]
        return await self._change("reject", match, states, "minions_rejected")

    async def reject_dict(self, match: Mapping[str, Any]) -> dict[str, list[str]]:
        """Reject keys by list and id."""
        return await self._change_named("reject", match, "minions_rejected")

    async def revoke(self, match: str) -> dict[str, list[str]]:
        """Revoke the accepted keys whose ids match a glob; Salt has no such function."""
        return await self._change("revoke", match, ["accepted"], "minions_revoked")

    async def delete(self, match: str) -> dict[str, list[str]]:
        """Delete the keys whose ids match a glob."""
        await self._change("delete", match, list(keys.LISTS.values()), "")
        return {}

    async def delete_dict(self, match: Mapping[str, Any]) -> dict[str, list[str]]:
        """Delete keys by list and id."""
        await self._change_named("delete", match, "")
        return {}

    async def token_create(self, match: str = "*", uses: int = 1, expires_s: float = TOKEN_LASTS_S) -> dict[str, Any]:
        """A join token for minions whose ids match a glob; Salt has no such function."""
        if not (isinstance(match, str) and type(uses) is int and type(expires_s) in (int, float)):
            raise UsageError("`match` is a glob on ids, `uses` a whole number, `expires_s` a number of seconds")
        answer = await self._link.call(self._token, "token_create", id_glob=match, uses=uses, expires_s=expires_s)
        return {"join_token": answer["token"], "match": match, "uses": uses, "expires_s": expires_s}

    async def _rows(self) -> Any:
        return (await self._link.call(self._token, "key_list"))["keys"]

    async def _change(self, action: str, match: str, states: Sequence[str], list_name: str) -> dict[str, list[str]]:
        return await self._carry_out(action, keys.chosen(await self._rows(), match, states), list_name)

    async def _change_named(self, action: str, match: Mapping[str, Any], list_name: str) -> dict[str, list[str]]:
        return await self._carry_out(action, keys.chosen_by_name(await self._rows(), match), list_name)

    async def _carry_out(self, action: str, rows: Sequence[keys.Row], list_name: str) -> dict[str, list[str]]:
        if not rows:
            return {}
        fingerprints = [row["fingerprint"] for row in rows]
        answer = await self._link.call(self._token, "key_change", action=action, fingerprints=fingerprints)
        return keys.changed(answer, list_name)


def _refuse_hash(hash_type: str | None) -> None:
    if hash_type not in (None, "sha256"):
        raise UsageError("fingerprints are made with sha256 only")


def _spelled(fingerprint: str) -> str:
    return keys.hex_fingerprint(keys.parse_fingerprint(fingerprint))


_FUNCTIONS: dict[str, Callable[..., Awaitable[Any]]] = {
    "key.list_all": Wheel.list_all,
    "key.list": Wheel.list_some,
    "key.name_match": Wheel.name_match,
    "key.glob_match": Wheel.name_match,
    "key.finger": Wheel.finger,
    "key.finger_master": Wheel.finger_master,
    "key.key_str": Wheel.key_str,
    "key.accept": Wheel.accept,
    "key.accept_dict": Wheel.accept_dict,
    "key.reject": Wheel.reject,
    "key.reject_dict": Wheel.reject_dict,
    "key.revoke": Wheel.revoke,
    "key.delete": Wheel.delete,
    "key.delete_dict": Wheel.delete_dict,
    TOKEN_CREATE: Wheel.token_create,
    "minions.connected": Wheel.connected,
    "config.values": Wheel.config_values,
}
