"""Restart a service on one minion after the other, and stop at the first on which it does not run afterwards.

    python rolling_restart.py 'web*' nginx [CONFIG_DIR]

It runs on the master's machine. The exit code is that of the command line: 0, 3 when nothing matches, 4 when a minion
failed, 5 when one did not return.
"""

import sys

from saltlite.client.local import LocalClient
from saltlite.config.load import load_master
from saltlite.config.paths import master_socket
from saltlite.errors import SaltliteError

FAILED, MISSING = 4, 5


def main(target: str, service: str, config_dir: str = "/etc/saltlite") -> int:
    with LocalClient(master_socket(load_master(config_dir).config.sock_dir)) as client:
        for minion in sorted(client.cmd(target, "test.ping")):
            for function in ("service.restart", "service.status"):
                answers = client.cmd(minion, function, [service])
                if answers.get(minion) is not True:
                    print(f"{minion}: {function} {service}: {answers.get(minion, 'no answer')}")
                    return FAILED if minion in answers else MISSING
            print(f"{minion}: {service} runs")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(*sys.argv[1:]))
    except SaltliteError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)
