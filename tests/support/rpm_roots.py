"""Packages of rpm that tests build, a repository of them, and folders in which they are installed."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

SPEC = """
Name: {name}
Version: {version}
Release: 1
Epoch: {epoch}
Summary: a package of the tests
License: MIT
URL: https://example.org/
BuildArch: noarch
{requires}
%description
Nothing.
%install
mkdir -p %{{buildroot}}/etc %{{buildroot}}/usr/share/slt
echo "a = {version}" > %{{buildroot}}/etc/{name}.conf
echo "{version}" > "%{{buildroot}}/usr/share/slt/{name} ü"
%files
%config(noreplace) /etc/{name}.conf
"/usr/share/slt/{name} ü"
"""
PACKAGES = (
    ("slt-alpha", "1.0", 0, ""),
    ("slt-alpha", "2.0", 0, ""),
    ("slt-beta-with-a-name-that-is-longer-than-any-column-of-a-table", "1.0~rc1", 3, "Requires: slt-alpha"),
    ("slt-base", "1.0", 0, ""),
)
BETA = PACKAGES[2][0]


def build(folder: Path) -> Path:
    """A repository of PACKAGES below `folder`."""
    repository = folder / "repository"
    for name, version, epoch, requires in PACKAGES:
        spec = folder / f"{name}-{version}.spec"
        spec.write_text(SPEC.format(name=name, version=version, epoch=epoch, requires=requires))
        define = [f"_topdir {folder}/build", f"_rpmdir {repository}", "_build_id_links none"]
        options = [part for each in define for part in ("--define", each)]
        _run(["rpmbuild", "-bb", "--quiet", *options, str(spec)])
    _run(["createrepo_c", "-q", str(repository)])
    return repository


def package_file(repository: Path, name: str, version: str) -> str:
    """The path of one of the packages."""
    return str(repository / "noarch" / f"{name}-{version}-1.noarch.rpm")


def root_for(tool: str, folder: Path, repository: Path) -> Path:
    """A root folder whose dnf, or zypper, has that repository, and where slt-base is installed."""
    settings = f"[test]\nname=test\nbaseurl=file://{repository}\nenabled=1\ngpgcheck=0\n"
    if tool == "dnf":
        (folder / "etc/dnf").mkdir(parents=True)
        (folder / "etc/dnf/dnf.conf").write_text("[main]\nplugins=0\n")
        (folder / "etc/yum.repos.d").mkdir()
        (folder / "etc/yum.repos.d/test.repo").write_text(settings)
    else:
        (folder / "etc/zypp/repos.d").mkdir(parents=True)
        (folder / "etc/zypp/repos.d/test.repo").write_text(settings)
    # zypper cannot read a database that has become empty, so there is one package that stays.
    _run(["rpm", "--root", str(folder), "-i", "--noscripts", package_file(repository, "slt-base", "1.0")])
    if tool == "zypper":
        _run(["zypper", "--non-interactive", "--root", str(folder), "refresh"])
    return folder


def _run(argv: list[str]) -> None:
    try:
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.fail(f"{argv[0]} is missing: install the Debian packages rpm, dnf, zypper and createrepo-c")
    assert done.returncode == 0, f"{argv}: {done.stdout}{done.stderr}"
