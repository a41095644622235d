"""The `saltlite-minion` service: reads its configuration and runs `saltlite.minion.processes`."""

import sys

from saltlite.cli.daemon import config_dir_of, reported


def main(argv: list[str] | None = None) -> int:
    """Run the minion until SIGTERM; the exit code."""
    config_dir = config_dir_of("saltlite-minion", "Run the saltlite minion.", argv)

    def run() -> None:
        from saltlite.config.apart import begin_reading_minion  # noqa: PLC0415 - `--help` stays quick

        configuration = begin_reading_minion(config_dir)
        from saltlite.minion.processes.start import run_minion  # noqa: PLC0415 - while the child reads

        run_minion(*configuration())

    return reported("saltlite-minion", run)


if __name__ == "__main__":
    sys.exit(main())
