"""Fixtures of several files."""

from tests.support.deploy_target import program, sshd_of_targets, target

__all__ = ["program", "sshd_of_targets", "target"]
