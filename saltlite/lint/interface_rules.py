"""Rules about interfaces, and about what a module has of its interface."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from saltlite.interfaces.smi.differences import Level, compare
from saltlite.interfaces.smi.platforms import Platforms
from saltlite.lint.findings import Finding
from saltlite.lint.source import SourceFunction, SourceInterface, SourceModule

GRAINS = frozenset(
    """
    biosreleasedate biosversion boardname cpu_flags cpu_model cpuarch cwd_server disks dns domain efi
    efi-secure-boot fqdn fqdn_ip4 fqdn_ip6 fqdns gid gpus groupname host hostname hwaddr_interfaces id init
    ip4_gw ip4_interfaces ip6_gw ip6_interfaces ip_gw ip_interfaces ipv4 ipv6 kernel kernelparams kernelrelease
    kernelversion locale_info localhost lsb_distrib_codename lsb_distrib_description lsb_distrib_id
    lsb_distrib_release lvm machine_id manufacturer master mdadm mem_total nodename num_cpus num_gpus os
    os_family osarch oscodename osfamily osfinger osfullname osmajorrelease osrelease osrelease_info path pid
    productname ps pythonexecutable pythonpath pythonversion role roles saltlite_version saltpath saltversion
    saltversioninfo selinux serialnumber server_id shell ssds swap_total systemd systempath timezone uid
    username uuid virtual virtual_subtype virtualized zfs_support
    """.split()  # noqa: SIM905 - a hundred names are read better so
)
"""Grains that minions have, or that are usually set by hand; of a nested one the first part counts."""


def check_interface(interface: SourceInterface) -> Iterator[Finding]:
    """What is wrong with a declaration by itself."""
    if not interface.module and not interface.extends and not interface.name.startswith("_"):
        text = f"{interface.name} has no __modulename__ that is a plain text: say which virtual module it describes"
        yield Finding(interface.path, interface.line, "SMI003", text)
    for name, declared in interface.functions.items():
        line = declared.function.line
        if not declared.function.doc:
            yield Finding(interface.path, line, "SMI010", f"{name} has no docstring")
        for grain in {**declared.supported, **declared.not_applicable}:
            if grain.partition(":")[0] not in GRAINS:
                text = f"{name} asks for the grain {grain!r}, which minions do not have by themselves"
                yield Finding(interface.path, line, "SMI009", text)
        for grain in declared.supported.keys() & declared.not_applicable.keys():
            both = {one.casefold() for one in declared.supported[grain]} & {
                one.casefold() for one in declared.not_applicable[grain]
            }
            if both:
                text = f"{name} is supported and not applicable where {grain} is {', '.join(sorted(both))}"
                yield Finding(interface.path, line, "SMI012", text)
        if name in interface.reserved:
            text = f"{name} was removed from the interface before, and may not come back with another meaning"
            yield Finding(interface.path, line, "SMI012", text)


def check_against(module: SourceModule, interfaces: Mapping[str, Sequence[SourceInterface]]) -> Iterator[Finding]:
    """How the module keeps to the interfaces of the names that it may answer to.

    `interfaces`: virtual name -> its interface, and what extends it.
    """
    names = [name for name in module.claims if name in interfaces]
    if not names:
        if module.claims and module.claims != (module.stem,):
            text = f"{', '.join(module.claims)} has no interface: callers cannot know what every platform has"
            yield Finding(module.path, 1, "SMI001", text)
        return
    for name in names:
        yield from _against(module, interfaces[name])


def _against(module: SourceModule, parts: Sequence[SourceInterface]) -> Iterator[Finding]:
    declared = {fun: one for part in parts for fun, one in part.functions.items()}
    title = f"the interface {parts[0].module} {parts[0].version}"
    missing = sorted(fun for fun, one in declared.items() if fun not in module.functions and not one.supported)
    if missing:
        yield Finding(module.path, 1, "SMI004", f"{title} has {', '.join(missing)}, and the module does not")
    for fun, function in module.functions.items():
        if fun not in declared:
            yield Finding(
                function.path or module.path,
                function.line,
                "SMI005",
                f"{fun} is no part of {title}: callers are warned",
            )
            continue
        for one in compare(declared[fun].function.signature, function.signature):
            if one.level is not Level.OK:
                code = "SMI006" if one.level is Level.ERROR else "SMI008"
                yield Finding(_file(module, function), function.line, code, f"{fun}: {one.text()} ({title})")
        if declared[fun].not_applicable:
            places = Platforms(declared[fun].not_applicable).text()
            yield Finding(
                function.path or module.path, function.line, "SMI007", f"{fun} is not called where {places} ({title})"
            )


def _file(module: SourceModule, function: SourceFunction) -> str:
    return function.path or module.path
