"""`python -m saltlite` is the `saltlite` command."""

import sys

from saltlite.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
