"""
Cheese module initialization example
"""

FOREIGN = []


def _enable_foreign_products():
    FOREIGN.append("gouda")


def __init__(opts):
    """
    Allow foreign imports if configured to do so
    """
    if opts.get("cheese.allow_foreign", False):
        _enable_foreign_products()


def products():
    return FOREIGN
