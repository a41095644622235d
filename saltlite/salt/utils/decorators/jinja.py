"""`salt.utils.decorators.jinja`: registers functions as filters, tests and globals of templates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])


class _JinjaRegistry:
    """A decorator with the name that templates use, by default the function's own."""

    def __init__(self, name: str | None = None) -> None:
        self.name = name

    def __call__(self, function: Function) -> Function:
        self._registered().setdefault(self.name or function.__name__, function)
        return function

    def _registered(self) -> dict[str, Callable[..., Any]]:
        raise NotImplementedError


class JinjaFilter(_JinjaRegistry):
    salt_jinja_filters: ClassVar[dict[str, Callable[..., Any]]] = {}

    def _registered(self) -> dict[str, Callable[..., Any]]:
        return self.salt_jinja_filters


class JinjaTest(_JinjaRegistry):
    salt_jinja_tests: ClassVar[dict[str, Callable[..., Any]]] = {}

    def _registered(self) -> dict[str, Callable[..., Any]]:
        return self.salt_jinja_tests


class JinjaGlobal(_JinjaRegistry):
    salt_jinja_globals: ClassVar[dict[str, Callable[..., Any]]] = {}

    def _registered(self) -> dict[str, Callable[..., Any]]:
        return self.salt_jinja_globals


jinja_filter = JinjaFilter
jinja_test = JinjaTest
jinja_global = JinjaGlobal
