"""Tokens: who holds one is who logged in, for as long as it lasts, and nothing else that lies in the store is one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from saltlite.auth.logins import WRONG_AT_ONCE, WRONG_EVERY_S, Logins, external, guess_limiter
from saltlite.errors import LoginError
from saltlite.model.keys import AuthToken
from saltlite.testing.memory_store import MemoryStore

NOW = 1_800_000_000.0
FRED = external("file", "fred", ("dev", "ops"))
MASTER = Logins(b"k" * 32)


def logged_in(store: MemoryStore, logins: Logins = MASTER, secret: bytes = b"s" * 32) -> tuple[str, AuthToken]:
    text, row = logins.make(secret, FRED, NOW, 60.0)
    with store.write() as tx:
        tx.put_auth_token(row, 10)
    return text, row


def holds(store: MemoryStore, text: str, now: float = NOW, logins: Logins = MASTER) -> bool:
    try:
        return logins.holder(store, text, now) == FRED
    except LoginError:
        return False


def test_who_holds_a_token_is_who_logged_in_until_it_expires() -> None:
    store = MemoryStore()
    text, _row = logged_in(store)
    assert holds(store, text)
    assert holds(store, text, NOW + 59.9)
    assert not holds(store, text, NOW + 60.0)


def test_a_revoked_token_is_none() -> None:
    store = MemoryStore()
    text, row = logged_in(store)
    with store.write() as tx:
        assert tx.delete_auth_token(row.token_id)
    assert not holds(store, text)


@pytest.mark.parametrize("change", ["", "0", "upper", "short", "long", "newline", "id"])
def test_what_is_nearly_a_token_is_none(change: str) -> None:
    store = MemoryStore()
    text, row = logged_in(store, secret=bytes(range(32)))
    other = {
        "": "",
        "0": "0" * 64,
        "upper": text.upper(),
        "short": text[:-1],
        "long": text + "0",
        "newline": text + "\n",
        "id": row.token_id,
    }
    assert not holds(store, other[change])


def test_neither_the_token_nor_what_the_store_has_of_it_leads_to_the_other() -> None:
    store = MemoryStore()
    text, row = logged_in(store)
    assert text not in repr(row)
    assert not holds(store, text, logins=Logins(b"x" * 32)), "another master's key"


@pytest.mark.parametrize(
    "forged",
    [
        {"user": "root"},
        {"backend": "pam"},
        {"groups": ("dev", "ops", "wheel")},
        {"groups": ("devops",)},
        {"expires_at": NOW + 1e9},
        {"created_at": NOW - 1},
        {"seal": ""},
        {"seal": "0" * 64},
    ],
)
def test_a_row_that_something_else_wrote_or_changed_is_no_token(forged: dict[str, object]) -> None:
    store = MemoryStore()
    text, row = logged_in(store)
    assert holds(store, text), "so that the row is a known one"
    with store.write() as tx:
        tx.put_auth_token(replace(row, **forged), 10)  # type: ignore[arg-type]  # the fields are of the table above
    with pytest.raises(LoginError):
        MASTER.holder(store, text, NOW)


def test_a_process_checks_the_seal_of_a_row_once_and_forgets_the_oldest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("saltlite.auth.logins.SEALED_KEPT", 3)
    store, logins = MemoryStore(), Logins(b"k" * 32)
    checked: list[str] = []
    texts = [logged_in(store, secret=bytes([number]) * 32)[0] for number in range(5)]
    seal = Logins._seal

    def noted(self: Logins, row: AuthToken) -> str:
        checked.append(row.token_id)
        return seal(self, row)

    monkeypatch.setattr(Logins, "_seal", noted)
    for text in (*texts[:3], *texts[:3]):
        assert holds(store, text, logins=logins)
    assert len(checked) == 3
    assert all(holds(store, text, logins=logins) for text in texts)
    assert len(logins._sealed) <= 3


def test_the_uid_of_a_login_is_no_users_and_its_own() -> None:
    uids = {external(*who, ()).uid for who in (("pam", "fred"), ("file", "fred"), ("pam", "gina"), ("pa", "mfred"))}
    assert len(uids) == 4
    assert all(uid < 0 for uid in uids)
    assert external("pam", "fred", ()).uid == external("pam", "fred", ("dev",)).uid


def test_after_some_wrong_passwords_the_name_has_to_wait_and_no_other() -> None:
    limiter, fred = guess_limiter(), ("pam", "fred")
    for _ in range(WRONG_AT_ONCE):
        assert limiter.wait_s(fred, 100.0) == 0.0
        limiter.spend(fred, 100.0)
    assert limiter.wait_s(fred, 100.0) == pytest.approx(WRONG_EVERY_S)
    assert limiter.wait_s(("pam", "gina"), 100.0) == limiter.wait_s(("file", "fred"), 100.0) == 0.0
    assert limiter.wait_s(fred, 100.0 + WRONG_EVERY_S) == 0.0
    limiter.spend(fred, 100.0 + WRONG_EVERY_S)
    assert limiter.wait_s(fred, 100.0 + WRONG_EVERY_S) == pytest.approx(WRONG_EVERY_S)


def test_the_number_of_a_login_has_as_many_bits_as_the_store_keeps() -> None:
    numbers = [external("file", f"user{count}", ()).uid for count in range(2000)]
    assert len(set(numbers)) == 2000
    assert all(-(2**63) <= number < 0 for number in numbers)
    # Whoever may choose his name must not find another one with the same number.
    assert min(numbers) < -(2**62)
