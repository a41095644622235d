"""`salt.utils.decorators`: decorators for the functions of plug-in files; they stand in `saltlite.decorators`."""

from saltlite.decorators import (
    allow_one_of,
    depends,
    ensure_unicode_args,
    ignores_kwargs,
    is_deprecated,
    memoize,
    require_one_of,
    timing,
    with_deprecated,
)

Depends = depends

__all__ = [
    "Depends",
    "allow_one_of",
    "depends",
    "ensure_unicode_args",
    "ignores_kwargs",
    "is_deprecated",
    "memoize",
    "require_one_of",
    "timing",
    "with_deprecated",
]
