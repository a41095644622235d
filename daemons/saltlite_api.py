"""The `saltlite-api` service: reads its configuration and runs `saltlite.api`."""

import sys

from saltlite.cli.daemon import config_dir_of, reported


def main(argv: list[str] | None = None) -> int:
    """Run the API until SIGTERM; the exit code."""
    config_dir = config_dir_of("saltlite-api", "Run the HTTP API of a saltlite master.", argv)

    def run() -> None:
        from saltlite.api.app import run_api  # noqa: PLC0415 - as above
        from saltlite.config.load import load_api  # noqa: PLC0415 - `--help` stays quick

        run_api(load_api(config_dir).config, config_dir)

    return reported("saltlite-api", run)


if __name__ == "__main__":
    sys.exit(main())
