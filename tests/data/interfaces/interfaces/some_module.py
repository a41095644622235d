from salt.interfaces import Interface


class SomeModuleInterface(Interface):
    __modulename__ = 'some'

    @Interface.not_applicable(osfamily=['Windows', 'NetBSD'])
    def foo(self, name, *args):
        return {}
