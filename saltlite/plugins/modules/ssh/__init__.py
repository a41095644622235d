"""Keys of SSH: who may log in as a user, which hosts users know, which keys there are.

Files of users are written whole or not at all, and belong to them afterwards. A minion that runs as root follows no
symbolic link below the home of another user. Private keys are shown only when they are asked for: with
``private=True``, or by the name of their file.

:maintainer:    The saltlite authors
:maturity:      new
:depends:       ssh-keygen and ssh-keyscan, for known hosts
:platform:      Linux
"""

from __future__ import annotations

__parts__ = {
    "authorized": [
        "auth_keys",
        "check_key",
        "check_key_file",
        "rm_auth_key",
        "rm_auth_key_from_file",
        "set_auth_key",
        "set_auth_key_from_file",
    ],
    "known": [
        "check_known_host",
        "get_known_host_entries",
        "hash_known_hosts",
        "recv_known_host_entries",
        "rm_known_host",
        "set_known_host",
    ],
    "own": ["host_keys", "key_is_encrypted", "user_keys"],
}
