"""Decorators for the functions of plug-in files, under the names that authors know from `salt.utils.decorators`.

What belongs here: decorators, and what they need to decide. What does not: loading files, injected names, anything
that a plug-in does not import. A plug-in file imports this package and `saltlite.errors`, and nothing above them.
"""

from saltlite.decorators.arguments import allow_one_of, ensure_unicode_args, ignores_kwargs, require_one_of
from saltlite.decorators.calls import memoize, timing
from saltlite.decorators.dependency import depends
from saltlite.decorators.deprecation import is_deprecated, with_deprecated
from saltlite.decorators.programs import which, which_bin

__all__ = [
    "allow_one_of",
    "depends",
    "ensure_unicode_args",
    "ignores_kwargs",
    "is_deprecated",
    "memoize",
    "require_one_of",
    "timing",
    "which",
    "which_bin",
    "with_deprecated",
]
