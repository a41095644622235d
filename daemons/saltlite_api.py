"""The `saltlite-api` service: reads its configuration and runs `saltlite.api`."""

import sys

from saltlite.cli.daemon import options, reported


def main(argv: list[str] | None = None) -> int:
    """Run the API until SIGTERM; the exit code."""
    args = options("saltlite-api", "Run the HTTP API of a saltlite master.", argv)

    def run() -> None:
        from saltlite.api.app import run_api  # noqa: PLC0415 - as above
        from saltlite.config.load import load_api  # noqa: PLC0415 - `--help` stays quick

        run_api(load_api(args.config_dir).config, args.config_dir)

    return reported("saltlite-api", run)


if __name__ == "__main__":
    sys.exit(main())
