"""`saltlite new`: write the files of a new plug-in, with a test that passes."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from saltlite.cli import exitcodes
from saltlite.cli.commands import COMMANDS, QUIET
from saltlite.cli.options import Option, Table, choice
from saltlite.cli.output import print_answer
from saltlite.config.paths import require_path
from saltlite.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from saltlite.cli.console import Console

_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
_PLACE = "NAME"
"""What stands for the name in the texts below."""

_HEAD = '''\
"""
NAME: say in one line what it is for.

:maintainer:    your name
:maturity:      new
:platform:      all
"""
'''

_TEST_HEAD = '''\
"""Run it with pytest."""

from pathlib import Path

'''
_TEST_FOLDER = """
FOLDER = Path(__file__).parents[1]
"""

_MODULE = f'''{_HEAD}

def __virtual__():
    """Where the module cannot work, return (False, "the reason")."""
    return True


def greet(name="world"):
    """
    Return a greeting from this machine.

    CLI Example::

        saltlite '*' NAME.greet name=fleet
    """
    return f"hello {{name}} from {{__grains__['host']}}, " + __salt__["cmd.run"]("uname -s")
'''
_MODULE_TEST = f"""{_TEST_HEAD}from saltlite.testing.plugins import load_plugins
{_TEST_FOLDER}

def test_it_greets():
    functions = {{"cmd.run": lambda command: f"output of {{command}}"}}
    modules = load_plugins(FOLDER, grains={{"host": "web1"}}, __salt__=functions)
    assert modules["NAME.greet"]("fleet") == "hello fleet from web1, output of uname -s"
"""

_RESOURCE = f'''{_HEAD}

def _declared(opts):
    """The pillar of this type: resources:NAME:hosts has an entry for each resource."""
    everything = opts["pillar"].get(opts.get("resource_pillar_key") or "resources") or {{}}
    return (everything.get("NAME") or {{}}).get("hosts") or {{}}


def init(opts):
    """Prepare what all resources of this type share. Runs once, before anything else."""
    __context__["NAME"] = _declared(opts)


def initialized():
    """Whether init() has succeeded."""
    return "NAME" in __context__


def discover(opts):
    """The ids of the resources."""
    __context__["NAME"] = _declared(opts)
    return sorted(__context__["NAME"])


def grains():
    """The grains of the current resource, by which it can be a target."""
    return {{"resource_id": __resource__["id"], "address": _host()["address"]}}


def shutdown(opts):
    """Release what init() made."""
    __context__.pop("NAME", None)


def reach():
    """Whether the current resource answers. Several resources are reached at once, from threads."""
    return bool(_host()["address"])


def _host():
    return __context__["NAME"][__resource__["id"]]
'''
_RESOURCE_SLOT = '''\
"""
Functions `test.*` on resources of the type NAME.

:maintainer:    your name
:maturity:      new
:platform:      all
"""


def ping():
    """
    Return True if the resource answers.

    CLI Example::

        saltlite -C 'T@NAME' test.ping
    """
    return __resource_funcs__["NAME.reach"]()
'''
_RESOURCE_TEST = f"""{_TEST_HEAD}from saltlite.testing.plugins import resource_type
{_TEST_FOLDER}PILLAR = {{"resources": {{"NAME": {{"hosts": {{"one": {{"address": "192.0.2.1"}}}}}}}}}}


def test_resources_are_found_and_answer():
    with resource_type(FOLDER, "NAME", pillar=PILLAR) as loaded:
        assert loaded.initialized()
        assert loaded.discover() == ["one"]
        with loaded.entered("one", {{}}):
            assert loaded.grains() == {{"resource_id": "one", "address": "192.0.2.1"}}
            assert loaded.slots["test.ping"]() is True
"""

_EXECUTOR = f'''{_HEAD}
import logging

log = logging.getLogger(__name__)

SAFE_OPTS = {{"NAME_refused": str}}
"""The options that callers may set, with their types."""


def execute(opts, data, func, args, kwargs):
    """Refuse one function; None passes the call on to the next executor, anything else is the result."""
    log.info("%s calls %s", data["user"], data["fun"])
    if data["fun"] == opts.get("NAME_refused"):
        return f"NAME does not let {{data['fun']}} run"
    return None
'''
_EXECUTOR_TEST = f"""{_TEST_HEAD}from saltlite.testing.plugins import call_through, load_plugins
{_TEST_FOLDER}CHAIN = ["NAME", "direct_call"]


def test_it_passes_a_call_on():
    assert call_through(load_plugins(FOLDER), CHAIN, "test.echo", "x").value == "x"


def test_it_refuses_a_function():
    outcome = call_through(load_plugins(FOLDER), CHAIN, "test.echo", "x", NAME_refused="test.echo")
    assert outcome.value == "NAME does not let test.echo run"
"""

_RUNNER = f'''{_HEAD}

def missing():
    """
    Count the accepted minions that are not connected.

    CLI Example::

        saltlite runner NAME.missing
    """
    return len(__salt__["manage.down"]())
'''
_RUNNER_TEST = f"""{_TEST_HEAD}from saltlite.testing.plugins import load_plugins
{_TEST_FOLDER}

def test_it_counts():
    functions = {{"manage.down": lambda: ["web1", "web2"]}}
    runners = load_plugins(FOLDER, "runners", __salt__=functions)
    assert runners["NAME.missing"]() == 2
"""

_DRIVER = f'''{_HEAD}
import salt.config as config
import salt.utils.cloud
from salt.exceptions import SaltCloudNotFound, SaltCloudSystemExit


def __virtual__():
    return get_configured_provider() is not False


def get_configured_provider():
    """The settings of the provider, or False if one is missing."""
    return config.is_provider_configured(__opts__, __active_provider_name__ or "NAME", ("token",))


def _request(method, path, **fields):
    """Ask the API of the provider, with the token of get_configured_provider()."""
    raise SaltCloudSystemExit("write how the API of the provider is asked, in _request() of the driver NAME")


def avail_images(call=None):
    """The images by name."""
    return {{one["name"]: one for one in _request("GET", "/images")}}


def avail_sizes(call=None):
    """The sizes by name."""
    return {{one["name"]: one for one in _request("GET", "/sizes")}}


def avail_locations(call=None):
    """The locations by name."""
    return {{one["name"]: one for one in _request("GET", "/locations")}}


def list_nodes_full(call=None):
    """All machines with everything that the provider has about them."""
    return {{
        one["name"]: {{**one, "private_ips": one["private"], "public_ips": one["public"]}}
        for one in _request("GET", "/machines")
    }}


def list_nodes(call=None):
    """All machines with the six fields of every driver."""
    fields = ("id", "image", "size", "state", "private_ips", "public_ips")
    return {{name: {{key: one[key] for key in fields}} for name, one in list_nodes_full().items()}}


def list_nodes_select(call=None):
    """All machines with the fields that the option query.selection names."""
    return salt.utils.cloud.list_nodes_select(list_nodes_full(), __opts__["query.selection"], call)


def show_instance(name, call=None):
    """Everything about one machine."""
    machines = list_nodes_full()
    if name not in machines:
        raise SaltCloudNotFound(f"there is no machine {{name}}")
    return machines[name]


def create(vm_):
    """Make a machine, and a minion on it."""
    about = {{"name": vm_["name"], "profile": vm_["profile"], "driver": "NAME", "provider": vm_["provider"]}}
    salt.utils.cloud.fire_event("event", "creating", f"salt/cloud/{{vm_['name']}}/creating", args=about)
    made = _request("POST", "/machines", name=vm_["name"], image=vm_["image"], size=vm_["size"])
    vm_["ssh_host"] = made["public"][0]
    return {{**made, **salt.utils.cloud.bootstrap(vm_, __opts__)}}


def destroy(name, call=None):
    """Destroy a machine."""
    _request("DELETE", f"/machines/{{show_instance(name)['id']}}")
    return True
'''
_DRIVER_TEST = f'''{_TEST_HEAD}from saltlite.testing.plugins import load_plugins
{_TEST_FOLDER}MACHINE = {{
    "id": "7", "name": "web1", "image": "debian", "size": "small", "state": "running",
    "private": ["10.0.0.1"], "public": ["192.0.2.1"],
}}
OPTS = {{"providers": {{"mine": {{"NAME": {{"driver": "NAME", "token": "secret"}}}}}}}}


def driver(asked):
    """The driver, whose provider has one machine and writes down what it is asked."""
    functions = load_plugins(FOLDER, "clouds", opts=OPTS, __active_provider_name__="mine:NAME")

    def request(method, path, **fields):
        asked.append((method, path))
        return [MACHINE] if method == "GET" else None

    functions["NAME.list_nodes"].__globals__["_request"] = request
    return functions


def test_it_lists_machines():
    assert driver([])["NAME.list_nodes"]() == {{
        "web1": {{
            "id": "7", "image": "debian", "size": "small", "state": "running",
            "private_ips": ["10.0.0.1"], "public_ips": ["192.0.2.1"],
        }}
    }}


def test_it_destroys_a_machine():
    asked = []
    assert driver(asked)["NAME.destroy"]("web1") is True
    assert asked[-1] == ("DELETE", "/machines/7")
'''

FILES = {
    "module": {"_modules/NAME.py": _MODULE, "tests/test_module_NAME.py": _MODULE_TEST},
    "resource": {
        "_resources/NAME/__init__.py": _RESOURCE,
        "_resources/NAME/modules/test.py": _RESOURCE_SLOT,
        "tests/test_resource_NAME.py": _RESOURCE_TEST,
    },
    "executor": {"_executors/NAME.py": _EXECUTOR, "tests/test_executor_NAME.py": _EXECUTOR_TEST},
    "driver": {"_clouds/NAME.py": _DRIVER, "tests/test_driver_NAME.py": _DRIVER_TEST},
    "runner": {"_runners/NAME.py": _RUNNER, "tests/test_runner_NAME.py": _RUNNER_TEST},
}
"""Kind of plug-in -> path below the folder -> text."""

_NEXT = {
    "module": "saltlite '*' saltutil.sync_modules",
    "resource": "saltlite '*' saltutil.sync_resources",
    "executor": "saltlite '*' saltutil.sync_executors",
    "driver": "saltlite runner saltutil.sync_clouds",
    "runner": "saltlite runner saltutil.sync_runners",
}
"""Kind -> what installs it from a folder of file_roots."""


def run(argv: Sequence[str], console: Console) -> int:
    """Write the files of a plug-in. Raises UsageError."""
    parsed = _table().parse(argv)
    console.quiet = parsed.on("quiet")
    if len(parsed.words) != 2 or parsed.words[0] not in FILES:
        raise UsageError(f"say a kind ({', '.join(FILES)}) and a name: saltlite new module hello")
    kind, name = parsed.words
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} is not a valid plug-in name: use a-z, 0-9 and '_', a letter first, up to 40 characters"
        )
    folder = os.path.abspath(parsed.options.get("dir", "."))
    texts = {
        os.path.join(folder, path.replace(_PLACE, name)): text.replace(_PLACE, name)
        for path, text in FILES[kind].items()
    }
    there = [path for path in texts if os.path.lexists(path)]
    if there:
        raise UsageError(f"{there[0]} exists: nothing was written; use another name or --dir FOLDER")
    for path, text in texts.items():
        _write(path, text)
    lines = [f"wrote {path}\n" for path in texts]
    lines.append(f"test it: pytest {list(texts)[-1]}\n")
    lines.append(f"install it from a folder of file_roots: {_NEXT[kind]}\n")
    print_answer({"files": list(texts)}, "".join(lines), parsed, console)
    return exitcodes.OK


def _write(path: str, text: str) -> None:
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from error


def _table() -> Table:
    usage, summary = COMMANDS["new"]
    where = Option("--dir", metavar="FOLDER", convert=require_path, help="where to write (the current folder)")
    out = Option("--out", metavar="FORMAT", convert=choice("text", "json"), help="text or json")
    epilog = """\
The folder may be one of file_roots, from which saltutil.sync_* installs
plug-ins, or one of module_dirs. The test needs pytest. No file is overwritten.

exit codes: 0 written, 2 usage"""
    return Table(usage, summary, (where, out, QUIET), epilog)
