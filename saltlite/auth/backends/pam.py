"""
Users of this machine, as PAM knows them.

Master option ``pam_service`` names the file in ``/etc/pam.d`` that says how. Groups are those of the machine.
"""

from __future__ import annotations

import ctypes
import grp
import os
import pwd
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from saltlite.loader.hints import __opts__

_LIBRARY = "libpam.so.0"
_SUCCESS = 0
_FAIL_DELAY = 10
_PROMPT_ECHO_OFF = 1
_PROMPT_ECHO_ON = 2
_BUF_ERR = 5


class _Message(ctypes.Structure):
    _fields_ = [("style", ctypes.c_int), ("text", ctypes.c_char_p)]


class _Response(ctypes.Structure):
    _fields_ = [("text", ctypes.c_void_p), ("code", ctypes.c_int)]


_CONVERSE = ctypes.CFUNCTYPE(
    ctypes.c_int,
    ctypes.c_int,
    ctypes.POINTER(ctypes.POINTER(_Message)),
    ctypes.POINTER(ctypes.c_void_p),
    ctypes.c_void_p,
)
_DELAY = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_uint, ctypes.c_void_p)


class _Conversation(ctypes.Structure):
    _fields_ = [("converse", _CONVERSE), ("data", ctypes.c_void_p)]


def __virtual__() -> bool | tuple[bool, str]:
    """Only where there is a libpam."""
    try:
        ctypes.CDLL(_LIBRARY)
    except OSError as error:
        return False, f"there is no libpam on this machine: {error}"
    return True


def auth(username: str, password: str, **kwargs: Any) -> bool:
    """
    Whether PAM takes the password and lets the user in now: an account that has expired is refused.

    CLI Example: ``saltlite -T -a pam '*' test.ping``
    """
    del kwargs
    if "\0" in username or "\0" in password:
        return False
    return _authenticate(str(__opts__["pam_service"]), username, password)


def groups(username: str, **kwargs: Any) -> list[str]:
    """
    The groups of the user on this machine.

    CLI Example: ``saltlite acl explain pam:fred '*' test.ping``
    """
    del kwargs
    try:
        gids = os.getgrouplist(username, pwd.getpwnam(username).pw_gid)
    except KeyError:
        return []
    found = []
    for gid in gids:
        try:
            found.append(grp.getgrgid(gid).gr_name)
        except KeyError:
            continue
    return found


def _authenticate(service: str, username: str, password: str) -> bool:
    pam = ctypes.CDLL(_LIBRARY)
    libc = ctypes.CDLL(None)
    libc.calloc.restype = ctypes.c_void_p
    libc.calloc.argtypes = (ctypes.c_size_t, ctypes.c_size_t)
    libc.strdup.restype = ctypes.c_void_p
    libc.strdup.argtypes = (ctypes.c_char_p,)
    pam.pam_start.argtypes = (
        ctypes.c_char_p,
        ctypes.c_char_p,
        ctypes.POINTER(_Conversation),
        ctypes.POINTER(ctypes.c_void_p),
    )
    for name in ("pam_authenticate", "pam_acct_mgmt", "pam_end"):
        getattr(pam, name).argtypes = (ctypes.c_void_p, ctypes.c_int)
    pam.pam_set_item.argtypes = (ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)
    secret = password.encode()

    def converse(count: int, messages: Any, answers: Any, _data: Any) -> int:
        """libpam frees the answers, so they are from its own allocator."""
        made = libc.calloc(count, ctypes.sizeof(_Response))
        if not made:
            return _BUF_ERR
        rows = ctypes.cast(made, ctypes.POINTER(_Response))
        for number in range(count):
            style = messages[number].contents.style
            if style in (_PROMPT_ECHO_OFF, _PROMPT_ECHO_ON):
                # Asked for in the open is the name; a second question, as for a new password, has no answer.
                rows[number].text = libc.strdup(secret if style == _PROMPT_ECHO_OFF else username.encode())
        answers[0] = made
        return _SUCCESS

    def no_delay(_status: int, _microseconds: int, _data: Any) -> None:
        """The master has its own pace for wrong passwords; a process that sleeps would only be one less."""

    conversation = _Conversation(_CONVERSE(converse), None)
    delay = _DELAY(no_delay)
    handle = ctypes.c_void_p()
    status = pam.pam_start(service.encode(), username.encode(), ctypes.byref(conversation), ctypes.byref(handle))
    if status != _SUCCESS:
        return False
    pam.pam_set_item(handle, _FAIL_DELAY, ctypes.cast(delay, ctypes.c_void_p))
    status = pam.pam_authenticate(handle, 0)
    if status == _SUCCESS:
        status = pam.pam_acct_mgmt(handle, 0)
    pam.pam_end(handle, status)
    return bool(status == _SUCCESS)
