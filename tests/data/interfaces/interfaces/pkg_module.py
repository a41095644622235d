from salt.interfaces import Interface


class PkgInterface(Interface):
    __modulename__ = 'pkg'

    def list_installed(self, *names, **kwargs):
        """
        List installed packages.
        """
        return {}

    def upgrade_available(self, name, **kwargs):
        """
        List available upgrades.
        """
        return {}

    @Interface.supported(os=['weirdlinux', 'beos', 'frogbsd'], os_family=['linux'])
    def salute_fireworks(self, name):
        """
        Launch some fireworks
        """
        return {}
