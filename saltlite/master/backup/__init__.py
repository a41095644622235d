"""Backups of a master: `archive` is the format of the file, `program` says what is in it and puts it back."""
