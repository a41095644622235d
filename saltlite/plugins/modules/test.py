"""Test functions for a minion, its arguments, its return codes and its loader.

:maintainer:    The saltlite authors
:maturity:      new
:platform:      all
"""

from __future__ import annotations

import builtins
import os
import time
from typing import TYPE_CHECKING, Any

import saltlite
from saltlite import errors
from saltlite.errors import SaltInvocationError

if TYPE_CHECKING:
    from saltlite.loader.hints import __context__, __opts__, __salt__, __utils__

__func_alias__ = {"true_": "true", "false_": "false", "try_": "try"}

__outputter__ = {"outputter": "txt", "collatz": "yaml"}


def ping() -> bool:
    """Return True: the minion is up and runs jobs. No ICMP is used.

    CLI Example: ``saltlite '*' test.ping``
    """
    return True


def version() -> str:
    """Return the version of saltlite.

    CLI Example: ``saltlite '*' test.version``
    """
    return saltlite.__version__


def versions_information() -> dict[str, dict[str, str]]:
    """Return the versions of saltlite, its dependencies, and the system, as nested data.

    CLI Example: ``saltlite '*' test.versions_information``
    """
    import importlib.metadata
    import platform

    dependencies = {}
    for name in ("cryptography", "msgpack", "PyYAML", "pyzmq", "tornado"):
        try:
            dependencies[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            dependencies[name] = "Not Installed"
    return {
        "Salt Version": {"saltlite": saltlite.__version__},
        "Python Version": {"Python": platform.python_version()},
        "Dependency Versions": dependencies,
        "System Versions": {
            "machine": platform.machine(),
            "release": platform.release(),
            "system": platform.system(),
            "version": platform.version(),
        },
    }


def versions_report() -> str:
    """Return ``versions_information`` as text.

    CLI Example::

        saltlite '*' test.versions_report
        saltlite '*' test.versions
    """
    lines: list[str] = []
    for title, rows in versions_information().items():
        lines += [f"{title}:", *(f"{name:>14}: {text}" for name, text in rows.items()), ""]
    return "\n".join(lines).rstrip()


versions = versions_report


def echo(text: Any) -> Any:
    """Return the argument.

    CLI Example: ``saltlite '*' test.echo 'foo bar baz quo qux'``
    """
    return text


def arg(*args: Any, **kwargs: Any) -> dict[str, Any]:
    """Return the arguments as the function sees them.

    CLI Example: ``saltlite '*' test.arg 1 "two" 3.1 txt="hello" wow='{a: 1, b: "hello"}'``
    """
    return {"args": args, "kwargs": kwargs}


def arg_type(*args: Any, **kwargs: Any) -> dict[str, Any]:
    """Return the types of the arguments.

    CLI Example: ``saltlite '*' test.arg_type 1 'int'``
    """
    return {
        "args": [str(type(value)) for value in args],
        "kwargs": {name: str(type(value)) for name, value in kwargs.items()},
    }


def arg_clean(*args: Any, **kwargs: Any) -> dict[str, Any]:
    """Return the arguments without those that the minion adds.

    CLI Example: ``saltlite '*' test.arg_clean 1 "two" 3.1 txt="hello" wow='{a: 1, b: "hello"}'``
    """
    return {"args": args, "kwargs": {name: value for name, value in kwargs.items() if not name.startswith("__pub_")}}


def arg_repr(*args: Any, **kwargs: Any) -> dict[str, str]:
    """Return the arguments in Python's notation.

    CLI Example: ``saltlite '*' test.arg_repr 1 "two" 3.1 txt="hello" wow='{a: 1, b: "hello"}'``
    """
    return {"args": repr(args), "kwargs": repr(kwargs)}


def kwarg(**kwargs: Any) -> dict[str, Any]:
    """Return the keyword arguments.

    CLI Example: ``saltlite '*' test.kwarg num=1 txt="two" env='{a: 1, b: "hello"}'``
    """
    return kwargs


def collatz(start: int) -> tuple[list[int], float]:
    """Return the Collatz sequence from ``start`` to 1, and the seconds that it took.

    CLI Example: ``saltlite '*' test.collatz 3``
    """
    number = _positive("start", start)
    began = time.perf_counter()
    steps = []
    while number != 1:
        steps.append(number)
        number = number * 3 + 1 if number % 2 else number // 2
    return steps, time.perf_counter() - began


def fib(num: int) -> tuple[int, float]:
    """Return the ``num``-th Fibonacci number, and the seconds that it took.

    CLI Example: ``saltlite '*' test.fib 3``
    """
    count = int(num)
    if count < 0:
        raise SaltInvocationError("num is a whole number from 0 upwards.")
    began = time.perf_counter()
    low, high = 0, 1
    for _ in range(count):
        low, high = high, low + high
    return low, time.perf_counter() - began


def sleep(length: float) -> bool:
    """Wait for ``length`` seconds.

    CLI Example: ``saltlite '*' test.sleep 20``
    """
    time.sleep(float(length))
    return True


def rand_sleep(max: float = 60) -> bool:
    """Wait for a random time of up to ``max`` seconds.

    CLI Example: ``saltlite '*' test.rand_sleep 60``
    """
    time.sleep(int.from_bytes(os.urandom(4)) / 2**32 * float(max))
    return True


def random_hash(size: int = 9999999999, hash_type: str | None = None) -> str:
    """Return the digest of a random integer from 0 to ``size``; the default of ``hash_type`` is ``sha256``.

    CLI Example::

        saltlite '*' test.random_hash
        saltlite '*' test.random_hash hash_type=sha512
        saltlite '*' test.rand_str
        saltlite '*' test.rand_str hash_type=sha256
    """
    import hashlib
    import secrets

    kind = hash_type or "sha256"
    # Digests of variable length, such as SHAKE, are not supported.
    if kind not in hashlib.algorithms_available or not hashlib.new(kind).digest_size:
        raise SaltInvocationError(f"There is no hash {kind!r}; sha256 is one that is always there.")
    number = secrets.randbelow(_positive("size", size) + 1)
    return hashlib.new(kind, str(number).encode()).hexdigest()


rand_str = random_hash


def stack() -> str:
    """Return the stack of this call, as in a traceback.

    CLI Example: ``saltlite '*' test.stack``
    """
    import traceback

    return "".join(traceback.format_stack())


def try_(module: str, return_try_exception: bool = False, **kwargs: Any) -> Any:
    """Call a function and return its result, None if it fails; with ``return_try_exception`` the error message.

    CLI Example::

        saltlite '*' test.try test.exception
        saltlite '*' test.try cmd.retcode cmd='test -e /etc/hosts'
    """
    given = {key: value for key, value in kwargs.items() if not key.startswith("__pub_")}
    try:
        return __salt__[module](**given)
    except Exception as error:  # noqa: BLE001 - whatever fails is what this function is for
        return str(error) if return_try_exception else None


def exception(message: str = "Test Exception") -> None:
    """Raise an exception, to test error reports.

    CLI Example: ``saltlite '*' test.exception 'Oh noes!'``
    """
    raise Exception(message)  # noqa: TRY002 - the plainest exception is what this function is for


def raise_exception(name: str, *args: Any, **kwargs: Any) -> None:
    """Raise an exception by name: a built-in one, or one of saltlite's.

    CLI Example::

        saltlite '*' test.raise_exception TypeError "An integer is required"
        saltlite '*' test.raise_exception CommandExecutionError "Something went wrong"
    """
    given = {key: value for key, value in kwargs.items() if not key.startswith("__pub_")}
    bare = str(name).rpartition(".")[2]
    found = getattr(errors, bare, None) or getattr(builtins, bare, None)
    if not (isinstance(found, type) and issubclass(found, BaseException)):
        raise SaltInvocationError(f"There is no exception {name!r}.")
    raise found(*args, **given)


def true_() -> bool:
    """Return True.

    CLI Example: ``saltlite '*' test.true``
    """
    return True


def false_() -> bool:
    """Return False, with return code 0.

    CLI Example: ``saltlite '*' test.false``
    """
    return False


def outputter(data: Any) -> Any:
    """Return ``data`` and ask for the ``txt`` outputter.

    CLI Example: ``saltlite '*' test.outputter foobar``
    """
    return data


def retcode(code: int = 42) -> bool:
    """Return True with the return code ``code``.

    CLI Example: ``saltlite '*' test.retcode 42``
    """
    __context__["retcode"] = int(code)
    return True


def deprecation_warning() -> bool:
    """Return True with two warnings of deprecation, which the caller sees as notes.

    Modules that were written for Salt warn so through ``salt.utils.versions``.

    CLI Example: ``saltlite '*' test.deprecation_warning``
    """
    __utils__["versions.warn_until"](3108, "This is a test deprecation warning by version.")
    text = "This is a test deprecation warning by date very far into the future ({date})."
    __utils__["versions.warn_until_date"]("30000101", text)
    return True


def provider(module: str) -> str:
    """Return the file that provides a module, or an empty text.

    CLI Example: ``saltlite '*' test.provider pkg``
    """
    for candidate in __salt__.candidates(str(module)):
        if candidate.chosen:
            return candidate.stem
    return ""


def providers() -> dict[str, str]:
    """Return every module with the file that provides it.

    CLI Example: ``saltlite '*' test.providers``
    """
    return {module: provider(module) for module in __salt__.modules()}


def not_loaded() -> dict[str, str]:
    """Return the module files that are not loaded, with the reasons.

    CLI Example: ``saltlite '*' test.not_loaded``
    """
    return __salt__.not_loaded()


def get_opts() -> dict[str, Any]:
    """Return the configuration that modules see; secrets are hidden.

    CLI Example: ``saltlite '*' test.get_opts``
    """
    from saltlite.model.redaction import without_secrets

    shown: dict[str, Any] = without_secrets(dict(__opts__))
    return shown


def conf_test() -> Any:
    """Return the option ``test.foo`` of the minion's configuration.

    CLI Example: ``saltlite '*' test.conf_test``
    """
    return __salt__["config.option"]("test.foo")


def attr_call() -> Any:
    """Return the grains, which another module returns.

    CLI Example: ``saltlite '*' test.attr_call``
    """
    return __salt__["grains.items"]()


def opts_pkg() -> dict[str, Any]:
    """Return the configuration that modules see, with ``grains``; secrets are hidden.

    CLI Example: ``saltlite '*' test.opts_pkg``
    """
    return {**get_opts(), "grains": attr_call()}


def cross_test(func: str, args: list[Any] | None = None) -> Any:
    """Call another function through ``__salt__``.

    CLI Example: ``saltlite '*' test.cross_test test.echo '[hello]'``
    """
    return __salt__[func](*(args or ()))


def assertion(assertion: Any) -> None:
    """Fail unless the argument is true.

    CLI Example: ``saltlite '*' test.assertion False``
    """
    if not assertion:
        raise AssertionError


def _positive(name: str, value: Any) -> int:
    try:
        number = int(value)
    except (TypeError, ValueError) as error:
        raise SaltInvocationError(f"{name} is a whole number, not {value!r}.") from error
    if number < 1:
        raise SaltInvocationError(f"{name} is a whole number from 1 upwards, not {number}.")
    return number
