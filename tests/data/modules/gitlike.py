import salt.utils.path


def __virtual__():
    """
    Only load if git exists on the system
    """
    if salt.utils.path.which("no-such-git-zz") is None:
        return (False, "The git execution module cannot be loaded: git unavailable.")
    else:
        return True


def clone():
    pass
