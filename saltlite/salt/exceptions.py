"""`salt.exceptions`: the errors that plug-in files raise and catch.

The classes that end a call stand in `saltlite.errors`, because every part of saltlite knows them.
"""

from __future__ import annotations

import time
from typing import Any

from saltlite import errors

SaltException = errors.SaltliteError
CommandExecutionError = errors.CommandExecutionError
CommandNotFoundError = errors.CommandNotFoundError
SaltInvocationError = errors.SaltInvocationError


def get_error_message(error: BaseException) -> Any:
    """The first argument of an exception, "" without one."""
    return error.args[0] if error.args else ""


class SaltClientError(SaltException):
    """A client cannot do its work."""


class SaltMasterError(SaltException):
    """The master cannot do its work."""


class SaltNoMinionsFound(SaltException):
    """No list of minions was found."""


class SaltSyndicMasterError(SaltException):
    """A syndic cannot pass a request on."""


class SaltMasterUnresolvableError(SaltException):
    """The name of the master has no address."""


class MasterExit(SystemExit):
    """The master ends."""


class AuthenticationError(SaltException):
    """A peer could not be authenticated."""


class InvalidKeyError(SaltException, ValueError):
    """A key cannot be used."""


class LoaderError(SaltException):
    """A renderer or another plug-in cannot be loaded."""


class PublishError(SaltException):
    """A command cannot be published."""


class MinionError(SaltException):
    """The minion cannot read a URI, such as `salt://` or `http://`."""


class FileserverConfigError(SaltException):
    """A setting of the file server cannot be used."""


class FileLockError(SaltException):
    """A file cannot be locked. `time_start` is when the first try began, in seconds since 1970."""

    def __init__(self, message: object = "", time_start: float | None = None) -> None:
        super().__init__(message)
        self.time_start = time.time() if time_start is None else time_start


class GitLockError(SaltException):
    """A repository cannot be locked; `errno` is the kernel's. It is no OSError."""

    def __init__(self, errno: int | None, message: object = "") -> None:
        super().__init__(message)
        self.errno = errno


class GitRemoteError(SaltException):
    """The remote `origin` of a repository cannot be used."""


class PkgParseError(SaltException):
    """The output of a package manager cannot be read."""


class SaltRenderError(SaltException):
    """A file cannot be rendered. With `line_num` and `buf`, the text of the file, the message shows the place."""

    def __init__(
        self,
        message: object,
        line_num: int | None = None,
        buf: str = "",
        marker: str = "    <======================",
        trace: object = None,
    ) -> None:
        text = message.decode() if isinstance(message, bytes) else str(message)
        self.error = message
        self.line_num = line_num
        self.buffer = buf
        self.context = ""
        if trace:
            text += f"\n{trace}\n"
        if line_num and buf:
            from saltlite.salt.utils.stringutils import get_context

            self.context = get_context(buf, line_num, marker=marker)
            text += f"; line {line_num}\n\n{self.context}"
        super().__init__(text)


class SaltClientTimeout(SaltException):
    """A job took too long; `jid` is its id."""

    def __init__(self, message: object = "", jid: str | None = None) -> None:
        super().__init__(message)
        self.jid = jid


class SaltCacheError(SaltException):
    """A cache cannot be read or written."""


class TimeoutError(SaltException):
    """An operation took too long."""


class SaltReqTimeoutError(SaltException):
    """The master did not answer a request in time."""


class TimedProcTimeoutError(SaltException):
    """A program took too long, or its limit is no number."""


class EauthAuthenticationError(SaltException):
    """An external login failed."""


class TokenAuthenticationError(SaltException):
    """A token was refused."""


class TokenExpiredError(SaltException):
    """A token is no longer valid."""


class SaltDeserializationError(SaltException):
    """Data cannot be deserialized."""


class AuthorizationError(SaltException):
    """The caller may not do this."""


class SaltValidationError(SaltException):
    """A value is not valid."""


class UnsupportedAlgorithm(SaltException):
    """An algorithm for encryption or signatures is not supported."""


class SaltDaemonNotRunning(SaltException):
    """The operation needs a daemon that does not run."""


class SaltRunnerError(SaltException):
    """A runner cannot do its work."""


class SaltWheelError(SaltException):
    """A wheel function cannot do its work."""


class SaltConfigurationError(SaltException):
    """The configuration cannot be used."""


class SaltSystemExit(SystemExit):
    """The program cannot go on. `msg` is what it ends with."""

    def __init__(self, code: int = 0, msg: object = None) -> None:  # noqa: ARG002 - Salt's signature; it has no effect
        super().__init__(msg)


class SaltCloudException(SaltException):
    """A provider or one of its machines cannot do what was asked."""

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
    """The provider or the machine refused."""


class SaltCloudPasswordError(SaltCloudException):
    """The machine does not take this password."""


class NotImplemented(SaltException):
    """The function is not implemented."""


class TemplateError(SaltException):
    """A template raised an error."""


class ArgumentValueError(CommandExecutionError):
    """An argument has a value that cannot be used."""


class CheckError(CommandExecutionError):
    """A check failed."""


class InvalidConfigError(CommandExecutionError):
    """A configuration is not valid."""


class InvalidEntityError(CommandExecutionError):
    """An entity is not valid."""


class VMwareSaltError(CommandExecutionError):
    """VMware cannot do what was asked."""


class VMwareRuntimeError(VMwareSaltError):
    """VMware failed at run time."""


class VMwareConnectionError(VMwareSaltError):
    """A vCenter or a host cannot be reached."""


class VMwareObjectRetrievalError(VMwareSaltError):
    """A VMware object cannot be read."""


class VMwareObjectNotFoundError(VMwareSaltError):
    """There is no such VMware object."""


class VMwareObjectExistsError(VMwareSaltError):
    """The VMware object exists already."""


class VMwareMultipleObjectsError(VMwareObjectRetrievalError):
    """Several VMware objects match where one is expected."""


class VMwareNotFoundError(VMwareSaltError):
    """VMware does not find what was asked for."""


class VMwareApiError(VMwareSaltError):
    """The API of VMware failed."""


class VMwareFileNotFoundError(VMwareApiError):
    """VMware does not find a file."""


class VMwareSystemError(VMwareSaltError):
    """The system of VMware failed."""


class VMwarePowerOnError(VMwareSaltError):
    """A machine cannot be started."""


class VMwareVmRegisterError(VMwareSaltError):
    """A machine cannot be registered."""


class VMwareVmCreationError(VMwareSaltError):
    """A machine cannot be created."""


class MissingSmb(SaltException):
    """There is no library for SMB."""


class LoggingRuntimeError(RuntimeError):
    """Logging failed."""


class NxosError(SaltException):
    """An NX-OS device failed."""


class NxosCliError(NxosError):
    """An NX-OS device refused a command."""


class NxosClientError(NxosError):
    """An NX-OS device cannot be reached."""


class NxosRequestNotSupported(NxosError):
    """An NX-OS device does not support the request."""


class CodePageError(CommandExecutionError):
    """The code page of Windows cannot be read or set."""
