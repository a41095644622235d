from salt.utils.decorators import depends

HAS_DEP = False
try:
    import dependency_that_sometimes_exists

    HAS_DEP = True
except ImportError:
    pass


@depends(HAS_DEP)
def foo():
    return True
