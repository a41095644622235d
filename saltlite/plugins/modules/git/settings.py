"""Configuration of git, of a repository or of a user."""

from __future__ import annotations

from typing import Any

from saltlite.errors import CommandExecutionError, SaltInvocationError

from .calls import git, lines, path, several, word

_NOT_VALID, _SEVERAL, _BAD_PATTERN = 1, 5, 6


def config_get(
    key: str,
    cwd: str | None = None,
    user: str | None = None,
    password: str | None = None,
    ignore_retcode: bool = False,
    output_encoding: str | None = None,
    *,
    all: bool = False,
    **kwargs: Any,
) -> Any:
    """
    The last value of a key, or with ``all=True`` a list of all; ``None`` for a key that is not set.

    ``global=True`` looks into the configuration of the user, and not of the repository.

    CLI Example::

        saltlite '*' git.config_get user.name cwd=/srv/app
        saltlite '*' git.config_get user.email global=True
        saltlite '*' git.config_get core.gitproxy cwd=/srv/app all=True
    """
    place = _Place(cwd, kwargs, user, password, ignore_retcode, output_encoding)
    done = place.run(["--null", "--get-all", word(key, "the name of a setting")])
    if done["retcode"] == _NOT_VALID:
        return None
    place.refuse_others(done)
    values = done["stdout"].split("\0")[:-1]
    return values if all else values[-1]


def config_get_regexp(
    key: str,
    value_regex: str | None = None,
    cwd: str | None = None,
    user: str | None = None,
    password: str | None = None,
    *,
    ignore_retcode: bool = False,
    output_encoding: str | None = None,
    **kwargs: Any,
) -> dict[str, list[str]]:
    """
    The values of all keys that match a regular expression: ``{key: [value]}``.

    CLI Example::

        saltlite '*' git.config_get_regexp 'user\\..*' cwd=/srv/app
        saltlite '*' git.config_get_regexp 'alias\\..*' global=True
    """
    place = _Place(cwd, kwargs, user, password, ignore_retcode, output_encoding)
    more = [] if value_regex is None else [str(value_regex)]
    done = place.run(["--null", "--get-regexp", word(key, "a regular expression for names of settings"), *more])
    if done["retcode"] == _NOT_VALID:
        return {}
    place.refuse_others(done)
    found: dict[str, list[str]] = {}
    for row in done["stdout"].split("\0")[:-1]:
        name, _, value = row.partition("\n")
        found.setdefault(name, []).append(value)
    return found


def config_set(  # noqa: PLR0913 - Salt's signature
    key: str,
    value: Any = None,
    multivar: Any = None,
    cwd: str | None = None,
    user: str | None = None,
    password: str | None = None,
    ignore_retcode: bool = False,
    *,
    output_encoding: str | None = None,
    add: bool = False,
    **kwargs: Any,
) -> list[str]:
    """
    Set a key to a value, or to the several of ``multivar``; all its values then. ``add=True`` keeps those it has.

    CLI Example::

        saltlite '*' git.config_set user.email me@example.org cwd=/srv/app
        saltlite '*' git.config_set user.email me@example.org global=True
    """
    if (value is None) == (multivar is None):
        raise SaltInvocationError("Either a value or multivar is needed, and not both.")
    place = _Place(cwd, kwargs, user, password, ignore_retcode, output_encoding)
    name = word(key, "the name of a setting")
    for number, each in enumerate([value] if multivar is None else several(multivar)):
        text = str(each).lower() if isinstance(each, bool) else str(each)
        if "\0" in text:
            raise SaltInvocationError("A value of git's configuration has no NUL in it.")
        how = "--add" if add or number else "--replace-all"
        done = place.run([how, name, text])
        place.refuse_others(done)
    kept: list[str] = config_get(key, cwd, user, output_encoding=output_encoding, all=True, **kwargs)
    return kept


def config_unset(  # noqa: PLR0913 - Salt's signature
    key: str,
    value_regex: str | None = None,
    cwd: str | None = None,
    user: str | None = None,
    password: str | None = None,
    ignore_retcode: bool = False,
    *,
    output_encoding: str | None = None,
    all: bool = False,
    **kwargs: Any,
) -> bool:
    """
    Remove a key that has one value, or whose value matches; with ``all=True`` every value.

    CLI Example::

        saltlite '*' git.config_unset user.email cwd=/srv/app
        saltlite '*' git.config_unset core.gitproxy cwd=/srv/app all=True
    """
    place = _Place(cwd, kwargs, user, password, ignore_retcode, output_encoding)
    more = [] if value_regex is None else [str(value_regex)]
    done = place.run(["--unset-all" if all else "--unset", word(key, "the name of a setting"), *more])
    code = done["retcode"]
    if code == _NOT_VALID:
        raise CommandExecutionError("Section or key is invalid")
    if code == _SEVERAL:
        if config_get(key, cwd, user, all=True, **kwargs) is None:
            raise CommandExecutionError(f"Key '{key}' does not exist")
        matches = "" if value_regex is None else ", or none or several match value_regex"
        raise CommandExecutionError(f"Multiple values exist for key '{key}'{matches}")
    if code == _BAD_PATTERN:
        raise CommandExecutionError("The value_regex is invalid")
    place.refuse_others(done)
    return True


class _Place:
    """One configuration: that of the checkout at `cwd`, or with `global` that of a user."""

    def __init__(
        self,
        cwd: str | None,
        kwargs: dict[str, Any],
        user: str | None,
        password: str | None,
        ignore_retcode: bool,
        output_encoding: str | None,
    ) -> None:
        more = {name: value for name, value in kwargs.items() if name != "global" and not name.startswith("__pub_")}
        of_user = bool(kwargs.get("global"))
        if cwd is None and not of_user:
            raise SaltInvocationError("'cwd' argument required unless global=True")
        self._cwd = None if cwd is None else path(cwd, user)
        self._scope = "--global" if of_user else "--local"
        self._how = {
            "user": user,
            "password": password,
            "ignore_retcode": ignore_retcode,
            "output_encoding": output_encoding,
            **more,
        }

    def run(self, words: list[str]) -> dict[str, Any]:
        """`git config` with these words."""
        return git(["config", self._scope, *words], self._cwd, self._how, fail=False)

    def refuse_others(self, done: dict[str, Any]) -> None:
        """Raises CommandExecutionError for a command that failed."""
        if done["retcode"]:
            reason = " ".join(lines({"stdout": done["stderr"]})) or f"git ended with return code {done['retcode']}"
            raise CommandExecutionError(f"The configuration of git stays as it is: {reason}")
