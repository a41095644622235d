"""The `saltlite-master` service: reads its configuration and runs `saltlite.master.processes`."""

import sys

from saltlite.cli.daemon import line_of, reported


def main(argv: list[str] | None = None) -> int:
    """Run the master until SIGTERM; the exit code."""
    line = line_of("saltlite-master", "Run the saltlite master.", argv)

    def run() -> None:
        from saltlite.config.load import load_master  # noqa: PLC0415 - `--help` stays quick
        from saltlite.master.processes.app import run_master  # noqa: PLC0415 - as above

        run_master(line.applied(load_master(line.config_dir).config), line.config_dir)

    return reported("saltlite-master", line, run)


if __name__ == "__main__":
    sys.exit(main())
