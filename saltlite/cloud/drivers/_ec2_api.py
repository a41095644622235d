"""How the driver `ec2` asks Amazon's API: a client for each set of credentials, pages, and errors as sentences."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from typing import Any

from saltlite.cloud.api.exceptions import SaltCloudConfigError, SaltCloudExecutionFailure

PAGE = 250
"""Rows that are asked for at once. The API takes up to 1000 mostly, and answers the more slowly."""
PAGES: Mapping[str, int] = {"describe_instance_types": 100}
"""Where it takes fewer."""
ATTEMPTS = 5
CONNECT_SECONDS = 10
READ_SECONDS = 60

USE_CHAIN = "use-instance-role-credentials"
"""As `id` and `key`: take what the machine's role, the environment or the user's files of Amazon's tools say."""

_HINTS: Mapping[str, str] = {
    "AuthFailure": "are `id` and `key` of the provider right?",
    "IncorrectInstanceState": "look at its state with -Q",
    "InstanceLimitExceeded": "ask Amazon for more, or take another size",
    "InsufficientInstanceCapacity": "try another `availability_zone` or size",
    "InvalidAMIID.Malformed": "--list-images shows images",
    "InvalidAMIID.NotFound": "--list-images shows those of this location",
    "InvalidGroup.NotFound": "is `securitygroupid` one of this location and network?",
    "InvalidInstanceType": "--list-sizes shows those that there are",
    "InvalidKeyPair.NotFound": "-f show_keypair PROVIDER keyname=NAME shows one; -f import_keypair adds one",
    "OperationNotPermitted": "if it is protected, -a disable_term_protect NAME takes the protection away",
    "RequestExpired": "is the clock of this machine right?",
    "RequestLimitExceeded": "ask again in a minute, or more rarely",
    "SignatureDoesNotMatch": "is `key` of the provider right, and this machine's clock?",
    "Throttling": "ask again in a minute, or more rarely",
    "UnauthorizedOperation": "the rights of these credentials do not go so far",
    "Unsupported": "is there this size in this `availability_zone`?",
    "VcpuLimitExceeded": "ask Amazon for more, or take a smaller size",
}
"""What a person can do about an error of the API, by its code."""

_THROTTLED = frozenset({"RequestLimitExceeded", "Throttling", "InsufficientInstanceCapacity"})
"""Refusals that come with the status of an error."""


class Ec2Error(SaltCloudExecutionFailure):
    """The API did not do what was asked. `code` is Amazon's word for it, empty when there was no answer; `unclear` is
    whether it may have done it all the same.
    """

    def __init__(self, text: str, code: str = "", *, unclear: bool = False) -> None:
        super().__init__(text)
        self.code = code
        self.unclear = unclear


class Ec2:
    """One location's API with one set of credentials; any number of threads may ask."""

    def __init__(self, client: Any, location: str) -> None:
        self._client = client
        self.location = location

    def ask(self, operation: str, **params: Any) -> dict[str, Any]:
        """One request by its name as a method of botocore's client, such as `run_instances`.

        Raises Ec2Error, or SaltCloudConfigError for a parameter of a form that the API does not have.
        """
        with _Translated(self.location, operation):
            answer: dict[str, Any] = getattr(self._client, operation)(**params)
        answer.pop("ResponseMetadata", None)
        return answer

    def rows(self, operation: str, key: str, **params: Any) -> Iterator[dict[str, Any]]:
        """All rows of a listing, page for page. Raises as `ask` does."""
        with _Translated(self.location, operation):
            pages = self._client.get_paginator(operation).paginate(
                PaginationConfig={"PageSize": PAGES.get(operation, PAGE)}, **params
            )
            for page in pages:
                yield from page.get(key) or ()


class _Translated:
    """A block in which botocore's errors become ours."""

    def __init__(self, location: str, operation: str) -> None:
        self._location = location
        self._operation = "".join(word.capitalize() for word in operation.split("_"))

    def __enter__(self) -> None:
        return None

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if error is None:
            return
        import botocore.exceptions  # noqa: PLC0415 - half of a tenth of a second, for who uses this driver only
        import botocore.parsers  # noqa: PLC0415 - as above

        match error:
            case botocore.exceptions.ClientError():
                raise self._refused(error.response.get("Error") or {}, error) from None
            case botocore.exceptions.ParamValidationError():
                text = " ".join(str(error).split())
                raise SaltCloudConfigError(f"EC2 has no such form of {self._operation}: {text}") from None
            case botocore.exceptions.BotoCoreError():
                raise Ec2Error(self._unanswered(error), unclear=_may_be_done(error)) from None
            case botocore.parsers.ResponseParserError():
                text = f"EC2 in {self._location} answers {self._operation} with nonsense"
                raise Ec2Error(f"{text}: is `endpoint` the address of its API?", unclear=True) from None

    def _refused(self, said: Mapping[str, Any], error: Any) -> Ec2Error:
        code = str(said.get("Code") or "")
        text = str(said.get("Message") or "").strip().rstrip(".")
        status = (error.response.get("ResponseMetadata") or {}).get("HTTPStatusCode", 0)
        if not code or code.isdigit():
            said_so = f"{text or 'an answer that is none of EC2'} (HTTP {status or code})"
            return Ec2Error(
                f"EC2 in {self._location} refuses {self._operation}: {said_so}; is `endpoint` right, and EC2 up?",
                code,
                unclear=status >= 500,
            )
        hint = _HINTS.get(code, "it has an error of its own: try again later" if status >= 500 else "")
        sentence = f"EC2 in {self._location} refuses {self._operation}: {text or code} ({code})"
        unclear = status >= 500 and code not in _THROTTLED
        return Ec2Error(f"{sentence}; {hint}" if hint else sentence, code, unclear=unclear)

    def _unanswered(self, error: Exception) -> str:
        import botocore.exceptions  # noqa: PLC0415 - as above

        where = f"EC2 in {self._location}"
        match error:
            case botocore.exceptions.NoCredentialsError() | botocore.exceptions.PartialCredentialsError():
                return f"there are no credentials for {where}: give the provider `id` and `key`"
            case botocore.exceptions.SSLError():
                return f"{where} shows a certificate that is not trusted here; nothing was sent"
            case botocore.exceptions.ReadTimeoutError():
                return f"{where} says nothing for {READ_SECONDS} s to {self._operation}"
            case botocore.exceptions.ConnectionError() | botocore.exceptions.HTTPClientError():
                return f"{where} cannot be reached: {_first_line(error)}"
        return f"{where} could not be asked for {self._operation}: {_first_line(error)}"


def _may_be_done(error: Exception) -> bool:
    """Whether a request may have arrived that was not answered."""
    import botocore.exceptions  # noqa: PLC0415 - as above

    never = (
        botocore.exceptions.EndpointConnectionError,
        botocore.exceptions.ConnectTimeoutError,
        botocore.exceptions.SSLError,
        botocore.exceptions.ProxyConnectionError,
    )
    return isinstance(error, botocore.exceptions.HTTPClientError) and not isinstance(error, never)


_clients: dict[tuple[object, ...], Ec2] = {}
"""By process, too: one that was forked off must not use its parent's connections."""
_making = threading.Lock()


def connect(settings: Mapping[str, str]) -> Ec2:
    """The API for `id`, `key`, `token`, `location` and `endpoint` of a provider, each a text; made once.

    Raises SaltCloudConfigError when botocore is not there, or cannot make a client of that.
    """
    wanted = tuple(settings.get(key, "") for key in ("id", "key", "token", "location", "endpoint"))
    known = (os.getpid(), *wanted)
    with _making:
        if known not in _clients:
            _clients[known] = Ec2(_client(*wanted), settings["location"])
        return _clients[known]


def _client(identity: str, key: str, token: str, location: str, endpoint: str) -> Any:
    try:
        import botocore.config  # noqa: PLC0415 - a tenth of a second, for who uses this driver only
        import botocore.exceptions  # noqa: PLC0415 - as above
        import botocore.session  # noqa: PLC0415 - as above
    except ImportError:
        raise SaltCloudConfigError("the driver ec2 needs botocore: pip install 'saltlite[cloud]'") from None
    credentials = {}
    if USE_CHAIN not in (identity, key):
        credentials = {"aws_access_key_id": identity, "aws_secret_access_key": key, "aws_session_token": token or None}
    session = botocore.session.get_session()
    # Moments stay texts, in ISO 8601: reading them was a third of the time of a listing.
    session.get_component("response_parser_factory").set_parser_defaults(timestamp_parser=str)
    if endpoint and "://" not in endpoint:
        endpoint = f"https://{endpoint}"
    try:
        return session.create_client(
            "ec2",
            region_name=location,
            **credentials,
            endpoint_url=endpoint or None,
            config=botocore.config.Config(
                connect_timeout=CONNECT_SECONDS,
                read_timeout=READ_SECONDS,
                retries={"mode": "standard", "total_max_attempts": ATTEMPTS},
                max_pool_connections=50,
            ),
        )
    except (botocore.exceptions.BotoCoreError, ValueError) as error:
        raise SaltCloudConfigError(f"EC2 cannot be asked with these settings: {_first_line(error)}") from None


def nested(mapping: Mapping[str, Any]) -> dict[str, Any]:
    """`{"Ebs.VolumeSize": 20}` as `{"Ebs": {"VolumeSize": 20}}`: how parameters of the API are often written."""
    made: dict[str, Any] = {}
    for key, value in mapping.items():
        *above, last = str(key).split(".")
        place = made
        for word in above:
            place = place.setdefault(word, {})
        place[last] = nested(value) if isinstance(value, Mapping) else value
    return made


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
