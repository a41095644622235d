"""The `saltlite-api` service: reads its configuration and runs `saltlite.api`."""

import sys

from saltlite.cli.daemon import line_of, reported


def main(argv: list[str] | None = None) -> int:
    """Run the API until SIGTERM; the exit code."""
    line = line_of("saltlite-api", "Run the HTTP API of a saltlite master.", argv)

    def run() -> None:
        from saltlite.api.app import run_api  # noqa: PLC0415 - as above
        from saltlite.config.load import load_api  # noqa: PLC0415 - `--help` stays quick

        run_api(line.applied(load_api(line.config_dir).config), line.config_dir)

    return reported("saltlite-api", line, run)


if __name__ == "__main__":
    sys.exit(main())
