"""Errors of drivers, under Salt's names (`salt.exceptions`)."""

from saltlite.salt.exceptions import (
    SaltCloudConfigError,
    SaltCloudException,
    SaltCloudExecutionFailure,
    SaltCloudExecutionTimeout,
    SaltCloudNotFound,
    SaltCloudPasswordError,
    SaltCloudSystemExit,
)

__all__ = [
    "SaltCloudConfigError",
    "SaltCloudException",
    "SaltCloudExecutionFailure",
    "SaltCloudExecutionTimeout",
    "SaltCloudNotFound",
    "SaltCloudPasswordError",
    "SaltCloudSystemExit",
]
