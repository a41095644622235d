"""Errors of drivers, under Salt's names (`salt.exceptions`)."""

from __future__ import annotations

from saltlite.errors import SaltliteError


class SaltCloudException(SaltliteError):  # noqa: N818 - Salt's name
    """Something about a machine or a provider went wrong; the text is shown as it stands."""

    exit_code = 4
    unclear = False
    """Whether what was asked of a provider may have been done all the same: there was no answer, or a broken one."""


class SaltCloudSystemExit(SaltCloudException):
    """What was asked cannot be done. `exit_code` is what the command ends with."""

    def __init__(self, message: object = "", exit_code: int = SaltCloudException.exit_code) -> None:
        super().__init__(str(message))
        self.message = str(message)
        self.exit_code = exit_code


class SaltCloudConfigError(SaltCloudException):
    """A setting of the provider or profile is missing, or cannot be used."""

    exit_code = 2


class SaltCloudNotFound(SaltCloudException):
    """The provider has no such machine, image, size or location."""


class SaltCloudExecutionTimeout(SaltCloudException):
    """The provider or the machine took longer than it may."""


class SaltCloudExecutionFailure(SaltCloudException):
    """The provider or the machine said no."""


class SaltCloudPasswordError(SaltCloudException):
    """The machine does not take this password."""
