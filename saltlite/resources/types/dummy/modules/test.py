"""Small functions to try out targets, time limits and failures.

:maintainer:    The saltlite authors
:maturity:      new
:platform:      all
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from saltlite.errors import CommandExecutionError

if TYPE_CHECKING:
    from saltlite.loader.hints import __resource_funcs__


def ping() -> bool:
    """
    Whether the resource can be reached.

    CLI Example: ``saltlite -C 'T@dummy' test.ping``
    """
    answer: bool = __resource_funcs__["dummy.ping"]()
    return answer


def echo(text: Any) -> Any:
    """
    What was given.

    CLI Example: ``saltlite dummy-1 test.echo 'foo bar'``
    """
    __resource_funcs__["dummy.reach"]()
    return text


def arg(*args: Any, **kwargs: Any) -> dict[str, Any]:
    """
    All arguments, as the resource gets them.

    CLI Example: ``saltlite dummy-1 test.arg 1 "two" 3.1 txt="hello"``
    """
    __resource_funcs__["dummy.reach"]()
    return {"args": list(args), "kwargs": {name: value for name, value in kwargs.items() if name[:2] != "__"}}


def sleep(length: float) -> bool:
    """
    Wait so many seconds.

    CLI Example: ``saltlite dummy-1 test.sleep 20``
    """
    __resource_funcs__["dummy.reach"]()
    time.sleep(float(length))
    return True


def fail(message: str = "This call fails, as it was asked to.") -> None:
    """
    Fail with a message.

    CLI Example: ``saltlite dummy-1 test.fail 'out of paper'``
    """
    __resource_funcs__["dummy.reach"]()
    raise CommandExecutionError(message)
