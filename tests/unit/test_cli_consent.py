"""`--test` and `--accept-risk`: what is not run, and what it takes to run it."""

from __future__ import annotations

import io
from typing import Any

import pytest

from saltlite.cli.console import Console
from saltlite.cli.job import dry_run, require_consent
from saltlite.cli.job_options import accepted_risks
from saltlite.errors import NoTargetError, RefusedError, UsageError


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def described(
    *signatures: str,
    fun: str = "m.f",
    unknown: int = 0,
    risks: tuple[str, ...] = (),
    minions: int = 3,
    resources: int = 0,
) -> dict[str, Any]:
    """What is known of one function, of which `minions` of 3 targets say all that is given."""
    who = {"minions": minions, "of": 3, "one": "web1"}
    known = {
        "signatures": list(signatures),
        "takers": [who for _text in signatures],
        "risks": [{"risk": risk, **who} for risk in risks],
        "missing": 0,
        "unknown": unknown,
    }
    return {"count": 3, "resources": resources, "away": 0, "functions": {fun: known}}


def test_a_function_with_a_parameter_test_is_asked_for_a_dry_run() -> None:
    calls = dry_run([("m.f", [1], {"a": 2})], described("m.f(a,test=False)", "m.f(*,test:bool=False)"))
    assert calls == [("m.f", [1], {"a": 2, "test": True})]


@pytest.mark.parametrize(
    ("known", "reason"),
    [
        (described("m.f(a)"), "m.f has no dry run"),
        (described("m.f(**kwargs)"), "m.f has no dry run"),
        (described("m.f(*test)"), "m.f has no dry run"),
        (described("m.f(test,/)"), "m.f has no dry run"),
        (described("m.f(test=False)", "m.f(a)"), "m.f has no dry run"),
        (described("m.f(test=False)", unknown=1), "1 minion has not reported whether m.f has a dry run"),
        (described(unknown=3), "3 minions have not reported"),
    ],
)
def test_a_function_that_may_do_it_for_real_is_refused(known: dict[str, Any], reason: str) -> None:
    with pytest.raises(RefusedError, match=reason):
        dry_run([("m.f", [], {})], known)


def test_without_a_minion_or_a_minion_that_has_the_function_there_is_nothing_to_try() -> None:
    with pytest.raises(UsageError, match=r"no target has m\.f"):
        dry_run([("m.f", [], {})], described())
    with pytest.raises(NoTargetError):
        dry_run([("m.f", [], {})], described() | {"count": 0})


def test_each_function_of_a_compound_job_needs_a_dry_run() -> None:
    known = described("m.f(test=False)")
    known["functions"] |= described("m.g()", fun="m.g")["functions"]
    with pytest.raises(RefusedError, match=r"m\.g has no dry run"):
        dry_run([("m.f", [], {}), ("m.g", [], {})], known)


def test_the_opposite_in_the_arguments_is_not_silently_overruled() -> None:
    with pytest.raises(RefusedError, match="test=False"):
        dry_run([("m.f", [], {"test": False})], described("m.f(test=False)"))


def test_a_function_without_a_risk_needs_no_consent() -> None:
    require_consent(described("m.f()"), 3, (), Console(None, None, None))


@pytest.mark.parametrize("accepted", [("remove",), ("upgrade-all", "remove")])
def test_a_risk_that_the_option_names_is_accepted(accepted: tuple[str, ...]) -> None:
    require_consent(described(risks=("remove",)), 3, accepted, Console(None, None, None))


@pytest.mark.parametrize(
    ("risks", "accepted", "option"),
    [
        (("remove",), (), "--accept-risk=remove"),
        (("remove",), ("reboot",), "--accept-risk=reboot,remove"),
        (("remove", "reboot"), ("reboot",), "--accept-risk=reboot,remove"),
    ],
)
def test_a_script_is_told_the_option_and_nothing_runs(
    risks: tuple[str, ...], accepted: tuple[str, ...], option: str
) -> None:
    with pytest.raises(RefusedError) as caught:
        require_consent(described(risks=risks), 3, accepted, Console(io.StringIO("3\n"), None, io.StringIO()))
    assert f"nothing was published. To run it on 3 minions add {option}" in str(caught.value)
    assert "m.f carries the risk remove" in str(caught.value)


@pytest.mark.parametrize(
    ("minions", "sentence"),
    [
        (1, "1 of 3 minions (web1) says that m.f carries the risk remove; nothing was published."),
        (2, "2 of 3 minions (web1 is one of them) say that m.f carries the risk remove; nothing was published."),
    ],
)
def test_a_risk_that_only_some_declare_is_told_as_theirs(minions: int, sentence: str) -> None:
    """One minion that was broken into can say it of every function; who reads that knows where to look."""
    with pytest.raises(RefusedError) as caught:
        require_consent(described(risks=("remove",), minions=minions), 3, (), Console(None, None, None))
    assert str(caught.value).startswith(sentence)
    assert ("or leave web1 out of the target" in str(caught.value)) is (minions == 1)


def test_a_form_without_a_dry_run_that_only_some_have_is_told_as_theirs() -> None:
    with pytest.raises(RefusedError, match=r"1 of 3 minions \(web1\) says that m\.f has no dry run"):
        dry_run([("m.f", [], {})], described("m.f()", minions=1))


def test_at_a_terminal_the_number_of_minions_is_the_consent() -> None:
    stderr = Terminal()
    require_consent(described(risks=("remove",)), 214, (), Console(Terminal("214\n"), None, stderr))
    assert stderr.getvalue() == "m.f carries the risk remove, on 214 minions; type 214 to go on: "


@pytest.mark.parametrize("answer", ["", "\n", "y\n", "213\n", "0214\n"])
def test_any_other_answer_refuses(answer: str) -> None:
    with pytest.raises(RefusedError, match="that was not 214; nothing was published"):
        require_consent(described(risks=("remove",)), 214, (), Console(Terminal(answer), None, Terminal()))


def test_the_option_takes_names_parted_by_commas() -> None:
    assert accepted_risks("remove, reboot,") == ("remove", "reboot")


@pytest.mark.parametrize(
    ("resources", "count", "amount"),
    [
        (1, 3, "3 targets: 2 minions, 1 resource"),
        (3, 3, "3 resources"),
        (1, 2, "2 targets"),
    ],
)
def test_resources_are_counted_in_what_a_person_agrees_to(resources: int, count: int, amount: str) -> None:
    """Of a subset by chance nobody knows yet which they are."""
    stderr = Terminal()
    known = described(risks=("remove",), resources=resources)
    require_consent(known, count, (), Console(Terminal(f"{count}\n"), None, stderr))
    assert stderr.getvalue() == f"m.f carries the risk remove, on {amount}; type {count} to go on: "


def test_what_only_some_resources_say_is_told_as_said_by_targets() -> None:
    with pytest.raises(RefusedError, match=r"1 of 3 targets \(web1\) says that m\.f has no dry run"):
        dry_run([("m.f", [], {})], described("m.f()", minions=1, resources=1))
