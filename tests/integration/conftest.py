"""Fixtures of several files."""

from tests.support.deploy_target import program, sshd_of_targets, target
from tests.support.postgres_store import dsn, opened, server

__all__ = ["dsn", "opened", "program", "server", "sshd_of_targets", "target"]
