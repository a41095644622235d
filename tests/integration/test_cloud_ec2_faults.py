"""What the driver `ec2` says when Amazon refuses, answers nonsense or is not there."""

from __future__ import annotations

import importlib.util
import socket
import sys
from typing import Any

import pytest

from saltlite.cloud.api.exceptions import SaltCloudConfigError, SaltCloudException
from saltlite.cloud.drivers import _ec2_api
from tests.support.api import answering
from tests.support.cloud import loaded

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("botocore") is None, reason="needs botocore: pip install 'saltlite[cloud]'"
)

EMPTY = (
    '<DescribeInstancesResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><requestId>1</requestId>'
    "<reservationSet/></DescribeInstancesResponse>"
)


def refusal(code: str, text: str, status: int) -> dict[str, Any]:
    """How EC2 says no."""
    errors = f"<Errors><Error><Code>{code}</Code><Message>{text}</Message></Error></Errors>"
    body = f"<?xml version='1.0'?><Response>{errors}<RequestID>1</RequestID></Response>"
    return {"status": status, "headers": {"Content-Type": "text/xml"}, "body": body}


@pytest.fixture(autouse=True)
def _few_attempts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_ec2_api, "ATTEMPTS", 2)


def listed(endpoint: str, **settings: str) -> dict[str, Any]:
    """What is listed by this API."""
    given = {"id": "AKIAIOSFODNN7EXAMPLE", "key": "secret", "location": "eu-west-1", "endpoint": endpoint, **settings}
    with loaded("ec2", given) as (driver, _):
        nodes: dict[str, Any] = driver.list_nodes()
        return nodes


def test_who_is_asked_too_often_is_asked_again() -> None:
    throttled = refusal("RequestLimitExceeded", "Request limit exceeded.", 503)
    with answering([throttled, {"body": EMPTY}]) as answers:
        assert listed(answers.address) == {}


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (
            refusal("RequestLimitExceeded", "Request limit exceeded.", 503),
            r"EC2 in eu-west-1 refuses DescribeInstances: .*\(RequestLimitExceeded\); ask again in a minute",
        ),
        (
            refusal("AuthFailure", "AWS was not able to validate the provided access credentials", 401),
            r"\(AuthFailure\); are `id` and `key` of the provider right\?",
        ),
        (
            refusal("UnauthorizedOperation", "You are not authorized to perform this operation.", 403),
            "these credentials do not have the permission",
        ),
        (
            refusal("InternalError", "An internal error has occurred", 500),
            "it has an internal error: try again later",
        ),
        (refusal("SomethingNew", "The moon is full.", 400), r"The moon is full \(SomethingNew\)$"),
        ({"status": 502, "body": "<html>Bad gateway</html>"}, r"is `endpoint`"),
        ({"status": 200, "body": "no XML at all"}, r"with nonsense: is `endpoint` the address of its API\?"),
        ({"hang_up": True}, "EC2 in eu-west-1 cannot be reached"),
    ],
)
def test_what_amazon_says_is_one_sentence_with_the_way_out(answer: dict[str, Any], sentence: str) -> None:
    with answering([{**answer, "again": True}]) as answers, pytest.raises(SaltCloudException, match=sentence) as caught:
        listed(answers.address)
    assert "\n" not in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("answer", "unclear"),
    [
        (refusal("RequestLimitExceeded", "Request limit exceeded.", 503), False),
        (refusal("InvalidParameterValue", "No.", 400), False),
        (refusal("InternalError", "An internal error has occurred", 500), True),
        ({"status": 200, "body": "no XML at all"}, True),
        ({"hang_up": True}, True),
    ],
)
def test_what_was_not_refused_may_have_been_done(answer: dict[str, Any], unclear: bool) -> None:
    with answering([{**answer, "again": True}]) as answers, pytest.raises(SaltCloudException) as caught:
        listed(answers.address)
    assert caught.value.unclear is unclear


def test_a_provider_that_is_down_cannot_be_reached() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    with pytest.raises(SaltCloudException, match=f"EC2 in eu-west-1 cannot be reached: .*127.0.0.1:{port}"):
        listed(f"http://127.0.0.1:{port}")


def test_an_address_that_is_none_is_refused_before_anything_is_asked() -> None:
    with pytest.raises(SaltCloudConfigError, match="EC2 cannot be asked with these settings"):
        listed("http://no host/")


def test_without_botocore_the_driver_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "botocore.session", None)
    with pytest.raises(SaltCloudConfigError, match=r"pip install 'saltlite\[cloud\]'"):
        listed("http://127.0.0.1:1/")


def test_a_provider_without_credentials_names_what_is_missing() -> None:
    with loaded("ec2", {"id": "AKIAIOSFODNN7EXAMPLE"}) as (driver, program):
        assert driver.__virtual__() is False
        assert program.missing_settings == {"lab:ec2": ["key"]}
        with pytest.raises(SaltCloudConfigError, match="no 'id' or no 'key'"):
            driver.list_nodes()
