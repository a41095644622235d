"""JSON over HTTPS as drivers use it: what is asked again, what is not, and what is said when it does not work."""

from __future__ import annotations

import datetime
import ipaddress
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from saltlite.cloud.api import rest
from saltlite.cloud.api.rest import Rest, RestError
from tests.support.api import answering


class Time:
    """A clock that only goes on when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds

    def clock(self) -> float:
        return self.now


def api(address: str, time: Time | None = None, silence_s: float = 5.0) -> Rest:
    time = time or Time()
    return Rest(
        address, "Example", headers={"X-Token": "mellon"}, silence_s=silence_s, sleep=time.sleep, clock=time.clock
    )


PASSING: list[dict[str, Any]] = [{"status": status} for status in (408, 429, 500, 502, 503, 504)]


@pytest.mark.parametrize("fault", [*PASSING, {"hang_up": True}], ids=str)
def test_a_question_is_asked_again_after_a_fault_that_may_pass(fault: dict[str, Any]) -> None:
    with answering([fault, {"body": {"id": 1}}]) as answers:
        assert api(answers.address).get("machines") == {"id": 1}


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
def test_a_question_that_was_refused_is_not_asked_again(status: int) -> None:
    with (
        answering([{"status": status, "body": {"message": "No."}}]) as answers,
        pytest.raises(RestError, match=rf"Example .*\(HTTP {status}\): No\.$") as caught,
    ):
        api(answers.address).get("machines")
    assert caught.value.status == status


@pytest.mark.parametrize("fault", [{"status": 500}, {"status": 503}, {"hang_up": True}], ids=str)
def test_an_order_that_may_have_been_carried_out_is_not_given_twice(fault: dict[str, Any]) -> None:
    with answering([fault]) as answers, pytest.raises(RestError) as caught:
        api(answers.address).post("machines", {"name": "web1"})
    assert caught.value.unclear is True


def test_an_order_that_was_refused_for_its_pace_is_given_again() -> None:
    with answering([{"status": 429}, {"status": 202, "body": {"id": 1}}]) as answers:
        assert api(answers.address).post("machines", {"name": "web1"}) == {"id": 1}
    assert [json.loads(asked.body) for asked in answers.asked] == [{"name": "web1"}, {"name": "web1"}]


def test_the_waits_double_and_end() -> None:
    time = Time()
    with (
        answering([{"status": 500}] * rest.ATTEMPTS) as answers,
        pytest.raises(RestError, match=r"Example has an internal error \(HTTP 500\)"),
    ):
        api(answers.address, time).get("machines")
    longest = [rest.FIRST_WAIT_S * 2**number for number in range(rest.ATTEMPTS - 1)]
    assert len(time.slept) == len(longest)
    assert all(most / 2 <= slept <= most for slept, most in zip(time.slept, longest, strict=True))


def test_a_provider_that_names_a_time_is_left_alone_for_it() -> None:
    time = Time()
    with answering([{"status": 429, "headers": {"Retry-After": "17"}}, {"body": {}}]) as answers:
        api(answers.address, time).get("machines")
    assert time.slept == [17.0]


def test_a_time_that_is_longer_than_anybody_waits_is_told() -> None:
    time = Time()
    with (
        answering([{"status": 429, "headers": {"Retry-After": "3600"}}]) as answers,
        pytest.raises(RestError, match="is asked too often, for 3600 s more"),
    ):
        api(answers.address, time).get("machines")
    assert time.slept == []


def test_a_redirect_is_not_followed_for_it_would_carry_the_token_away() -> None:
    with answering([]) as elsewhere:
        with (
            answering([{"status": 302, "headers": {"Location": f"{elsewhere.address}/steal"}}]) as answers,
            pytest.raises(RestError, match=r"\(HTTP 302\)"),
        ):
            api(answers.address).get("machines")
        assert elsewhere.asked == []


def test_an_answer_that_is_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rest, "BODY_BYTES_MAX", 1 << 20)
    with (
        answering([{"body": " " * ((1 << 20) + 1)}]) as answers,
        pytest.raises(RestError, match="answers with more than 1 MiB"),
    ):
        api(answers.address).get("machines")


@pytest.mark.parametrize("body", ["<html/>", "{", "[" * 100_000])
def test_what_is_no_json_is_said_to_be_none(body: str) -> None:
    with (
        answering([{"body": body, "headers": {"Content-Type": "text/html"}}]) as answers,
        pytest.raises(RestError, match=rf"answers with {len(body)} bytes of text/html that are no JSON"),
    ):
        api(answers.address).get("machines")


def test_an_empty_answer_is_nothing() -> None:
    with answering([{"status": 204}]) as answers:
        assert api(answers.address).delete("machines/1") is None


def test_the_text_of_a_refusal_is_one_line_of_bounded_length() -> None:
    with (
        answering([{"status": 400, "body": {"error": {"message": "one\ntwo\x1b[31m" + "x" * 1000}}}]) as answers,
        pytest.raises(RestError) as caught,
    ):
        api(answers.address).get("machines")
    assert "one two [31m" in str(caught.value)
    assert len(str(caught.value)) < 400


def test_a_provider_that_is_down_cannot_be_reached() -> None:
    with answering([]) as answers:
        pass
    with pytest.raises(RestError, match=r"Example cannot be reached at 127.0.0.1:.*: Connection refused") as caught:
        api(answers.address).post("machines", {})
    assert caught.value.unclear is False


def test_a_provider_that_says_nothing_is_given_up(unused_socket: str) -> None:
    time = Time()
    with pytest.raises(RestError, match=r"Example did not answer for 0\.05 s: is 127.0.0.1:\d+ up\?"):
        api(unused_socket, time, silence_s=0.05).get("machines")


@pytest.mark.parametrize("said", ["²", "9" * 400, "-1", "1e9", "Fri, 31 Dec 1999 23:59:59 GMT", ""], ids=ascii)
def test_a_time_that_is_none_is_not_waited_for(said: str) -> None:
    time = Time()
    headers = b"HTTP/1.1 429 Slow\r\nContent-Length: 0\r\nRetry-After: " + said.encode("latin-1") + b"\r\n\r\n"
    with dripping(headers, b"") as address, pytest.raises(RestError, match=r"is asked too often \(HTTP 429\)$"):
        api(address, time).get("machines")
    assert max(time.slept) <= rest.FIRST_WAIT_S * 2**rest.ATTEMPTS


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


@pytest.mark.parametrize(
    ("at_once", "each"),
    [
        (HEAD + b"Content-Length: 100000\r\n\r\n", b" "),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n"),
        (HEAD, b"X-More: y\r\n"),
        (b"HTTP/1.1 200 ", b"O"),
        (b"HTTP/1.1 500 No\r\nContent-Length: 100000\r\n\r\n", b" "),
    ],
    ids=["body", "chunks", "headers", "status", "refusal"],
)
def test_an_answer_that_comes_byte_by_byte_is_given_up_in_time(
    at_once: bytes, each: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rest, "TOTAL_S", 0.5)
    with dripping(at_once, each) as address:
        began = time.monotonic()
        with pytest.raises(
            RestError, match=r"is not done answering after 0\.5 s|an internal error \(HTTP 500\)"
        ) as caught:
            Rest(address, "Example", headers={}).post("machines", {})
        assert (time.monotonic() - began < 60, caught.value.unclear) == (True, True)


@contextmanager
def dripping(at_once: bytes, each: bytes) -> Iterator[str]:
    """The address of a server that answers so, then goes on with `each` for 120 s at most; with "" it ends there."""

    def serve(client: socket.socket) -> None:
        with client, suppress(OSError):
            client.recv(65536)
            client.sendall(at_once)
            until = time.monotonic() + (120 if each else 0)
            while time.monotonic() < until and not done.wait(0.02):
                client.sendall(each)

    def accept() -> None:
        with suppress(OSError):
            while True:
                served.append(threading.Thread(target=serve, args=(server.accept()[0],)))
                served[-1].start()

    done = threading.Event()
    served: list[threading.Thread] = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        accepting = threading.Thread(target=accept)
        accepting.start()
        try:
            yield f"http://127.0.0.1:{server.getsockname()[1]}"
        finally:
            done.set()
            server.shutdown(socket.SHUT_RDWR)
            for thread in (accepting, *served):
                thread.join()


@pytest.fixture
def unused_socket() -> Iterator[str]:
    """The address of a server that accepts, and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=16) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.parametrize("root", ["http://api.example.com", "ftp://127.0.0.1", "api.example.com", "https://"])
def test_credentials_go_to_no_address_that_is_not_protected(root: str) -> None:
    with pytest.raises(RestError, match="must begin with https://"):
        api(root)


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A certificate for 127.0.0.1 that nobody knows, with its key, in one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "Example")])
    now = datetime.datetime.now(datetime.UTC)
    alternative = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(alternative, critical=False)
        .sign(key, hashes.SHA256())
    )
    pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    path = tmp_path / "server.pem"
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain)
    path.write_bytes(private + made.public_bytes(pem))
    return path


def test_a_certificate_that_nobody_knows_gets_no_token(certificate: Path) -> None:
    with (
        answering([], certificate=certificate) as answers,
        pytest.raises(RestError, match="a certificate that is not trusted here") as caught,
    ):
        api(answers.address).post("machines", {})
    assert answers.asked == []
    assert caught.value.unclear is False


def test_authorities_of_ones_own_are_trusted(certificate: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    with answering([{"body": {"id": 1}}], certificate=certificate) as answers:
        assert api(answers.address).get("machines") == {"id": 1}
