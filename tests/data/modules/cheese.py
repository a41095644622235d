"""
Cheese execution (or returner/beacon/etc.) module
"""

try:
    import enzymes

    HAS_ENZYMES = True
except ImportError:
    HAS_ENZYMES = False


def __virtual__():
    """
    only load cheese if enzymes are available
    """
    if HAS_ENZYMES:
        return "cheese"
    else:
        return (
            False,
            "The cheese execution module cannot be loaded: enzymes unavailable.",
        )


def slice():
    pass
