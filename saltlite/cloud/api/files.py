"""Files that settings of a machine name."""

from __future__ import annotations

import os

from saltlite.cloud.api.exceptions import SaltCloudConfigError


def text_of(path: str, setting: str) -> str:
    """The text of a file that a setting names. Raises SaltCloudConfigError."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "it is no text in UTF-8"
        raise SaltCloudConfigError(f"{setting} {path} cannot be read: {why}") from None


def public_key(path: str) -> str:
    """The public key in a file. Raises SaltCloudConfigError when there is none, or a private one."""
    text = text_of(path, "file").strip()
    if "PRIVATE KEY" in text:
        raise SaltCloudConfigError(f"{path} is a private key, which goes to nobody: name the public one, {path}.pub")
    return text


def private_key_file(path: object, setting: str) -> str:
    """The path of a private key to log in with, in full. Raises SaltCloudConfigError when there is no such file."""
    full = os.path.expanduser(str(path))
    if not os.path.isfile(full):
        raise SaltCloudConfigError(f"{setting} names {full}, and there is no such file")
    return full
