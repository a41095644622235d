"""
:maintainer:    Thomas Hatch <thatch@saltstack.com, Seth House <shouse@saltstack.com>
:maturity:      new
:depends:       python-mysqldb
:platform:      all
"""

import logging

log = logging.getLogger(__name__)

log.info("Here is Some Information")
log.warning("You Should Not Do That")
log.error("It Is Busted")

__outputter__ = {"run": "txt"}

__func_alias__ = {
    "set_": "set",
    "list_": "list",
}


def set_():
    return "set"


def list_():
    return "list"


def run(bar):
    return __salt__["aliases.foo"](bar).encode(__salt_system_encoding__)


def foo(bar):
    return bar


def _foobar(baz):  # Preceded with an _
    return baz


cheese = {}  # Not a callable Python object


def spam(eggs):
    """
    A function to make some spam with eggs!

    CLI Example::

        salt '*' test.spam eggs
    """
    return eggs
