"""Restart a service on one minion after the other, and stop at the first on which it does not run afterwards.

    python rolling_restart.py 'web*' nginx [CONFIG_DIR]

It runs on the master's machine, and restarts nothing while a minion of the target is not connected. The exit code is
that of the command line: 0, 3 when nothing matches, 4 when a minion failed, 5 when one is away or did not return.
"""

import sys

from saltlite.client.local import LocalClient
from saltlite.config.load import load_master
from saltlite.config.paths import master_socket
from saltlite.errors import NoTargetError, SaltliteError

FAILED, MISSING = 4, 5


def main(target: str, service: str, config_dir: str = "/etc/saltlite") -> int:
    with LocalClient(master_socket(load_master(config_dir).config.sock_dir)) as client:
        rows = client.call("minions", tgt=target, sort="id")["minions"]
        if not rows:
            raise NoTargetError(f"nothing matches {target!r}")
        away = [row for row in rows if row["state"] != "up"]
        for row in away:
            print(f"{row['id']}: not connected ({row['reason']})")
        if away:
            return MISSING
        for minion in (row["id"] for row in rows):
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
