import salt.utils.path

# Define the module's virtual name
__virtualname__ = "pkg"


def __virtual__():
    """
    Confine this module to Mac OS with Homebrew.
    """

    if salt.utils.path.which("brew") and __grains__["os"] == "MacOS":
        return __virtualname__
    return False


def install(name):
    return "brew " + name
