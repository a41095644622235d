from salt.interfaces.pkg_module import PkgInterface

__virtualname__ = PkgInterface(__name__)()


def list_installed(*names, **kwargs):
    return {'zypper': '1.14'}


def hold(name):
    return {name: 'hold'}
