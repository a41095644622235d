"""The `saltlite-minion` service: reads its configuration and runs `saltlite.minion.processes`."""

import sys

from saltlite.cli.daemon import line_of, reported


def main(argv: list[str] | None = None) -> int:
    """Run the minion until SIGTERM; the exit code."""
    line = line_of("saltlite-minion", "Run the saltlite minion.", argv)

    def run() -> None:
        from saltlite.config.apart import begin_reading_minion  # noqa: PLC0415 - `--help` stays quick

        configuration = begin_reading_minion(line.config_dir)
        from saltlite.minion.processes.start import run_minion  # noqa: PLC0415 - while the child reads

        config, opts = configuration()
        run_minion(line.applied(config), {**opts, **line.options})

    return reported("saltlite-minion", line, run)


if __name__ == "__main__":
    sys.exit(main())
