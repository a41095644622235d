"""The `saltlite-minion` service: reads its configuration and runs `saltlite.minion.processes`."""

import sys

from saltlite.cli.daemon import options, reported


def main(argv: list[str] | None = None) -> int:
    """Run the minion until SIGTERM; the exit code."""
    args = options("saltlite-minion", "Run the saltlite minion.", argv)

    def run() -> None:
        from saltlite.config.load import load_minion  # noqa: PLC0415 - `--help` stays quick
        from saltlite.minion.processes.app import run_minion  # noqa: PLC0415 - as above

        run_minion(load_minion(args.config_dir).config)

    return reported("saltlite-minion", run)


if __name__ == "__main__":
    sys.exit(main())
