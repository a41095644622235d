import logging

from salt.utils.decorators import depends

log = logging.getLogger(__name__)

try:
    import dependency_that_sometimes_exists
except ImportError as e:
    log.trace("Failed to import dependency_that_sometimes_exists: {0}".format(e))


@depends("dependency_that_sometimes_exists")
def foo():
    """
    Function with a dependency on the "dependency_that_sometimes_exists" module,
    if the "dependency_that_sometimes_exists" is missing this function will not exist
    """
    return True


def _fallback():
    """
    Fallback function for the depends decorator to replace a function with
    """
    return '"dependency_that_sometimes_exists" needs to be installed for this function to exist'


@depends("dependency_that_sometimes_exists", fallback_function=_fallback)
def bar():
    """
    Function with a dependency on the "dependency_that_sometimes_exists" module.
    If the "dependency_that_sometimes_exists" is missing this function will be
    replaced with "_fallback"
    """
    return True
