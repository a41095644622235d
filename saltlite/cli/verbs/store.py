"""`saltlite store`: where this machine's master has its store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from saltlite.cli import exitcodes
from saltlite.cli.commands import command_table, config_dir_of
from saltlite.cli.output import print_answer
from saltlite.config.load import load_master
from saltlite.errors import UsageError
from saltlite.master.processes.store_moving import move_store

if TYPE_CHECKING:
    from collections.abc import Sequence

    from saltlite.cli.console import Console

PLACES = ("postgresql", "sqlite")


def run_migrate(argv: Sequence[str], console: Console) -> int:
    """Move the store to the database of the configuration, or back to its file. Raises SaltliteError."""
    parsed = command_table("store migrate").parse(argv)
    console.quiet = parsed.on("quiet")
    if len(parsed.words) != 1 or parsed.words[0] not in PLACES:
        raise UsageError(f"say where the store shall be: {' or '.join(PLACES)}")
    (place,) = parsed.words
    config = load_master(config_dir_of(parsed)).config
    moved = move_store(config, to_database=place == PLACES[0])
    rows = {table: held.rows for table, held in moved.tables.items()}
    answer = {"to": place, "rows": rows, "unsealed": moved.unsealed}
    lines = "".join(f"{table:<14}{count:>10}\n" for table, count in rows.items())
    print_answer(answer, lines, parsed, console)
    if place == PLACES[0]:
        console.note("All rows were read again and compared. The file is kept, with the ending .moved.")
    else:
        console.note("All rows were read again and compared. Remove `database` from the configuration before a start.")
    if moved.unsealed:
        console.note(
            f"No master had sealed {moved.unsealed} of these rows: such keys are rejected now (saltlite key list),\n"
            "such join tokens and pre-accepted keys were removed. Find out who wrote them into the database."
        )
    return exitcodes.OK
