"""The `saltlite-master` service: reads its configuration and runs `saltlite.master.processes`."""

import sys

from saltlite.cli.daemon import line_of, reported


def main(argv: list[str] | None = None) -> int:
    """Run the master until SIGTERM; the exit code."""
    line = line_of("saltlite-master", "Run the saltlite master.", argv)

    def run() -> None:
        from saltlite.config.apart import begin_reading_master  # noqa: PLC0415 - `--help` stays quick

        configuration = begin_reading_master(line.config_dir)
        from saltlite.master.processes.app import run_master  # noqa: PLC0415 - while the child reads

        run_master(line.applied(configuration()), line.config_dir)

    return reported("saltlite-master", line, run)


if __name__ == "__main__":
    sys.exit(main())
