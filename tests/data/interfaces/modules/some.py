from salt.interfaces.some_module import SomeModuleInterface

__virtualname__ = SomeModuleInterface(__name__)()

if __grains__['osfamily'] == 'RedHat':
    def foo(name, *args):
        return {'redhat': name}
