"""Packing, unpacking and looking into archives: tar, gzip, zip, rar.

Whatever is unpacked stays in the folder that it is unpacked into: no member is written over a path or a link that leads
out of it. tar still makes the links themselves as they are in the archive; ``archive.unzip`` refuses those that lead
out. ``sources`` are a list, or a text with commas; globs work.

What belongs here: running the programs of archives, reading and writing zip files, and what may not leave the folder.
What does not: fetching archives and rendering names, which ``cp`` and ``file`` do.

:maintainer:    The saltlite authors
:maturity:      new
:depends:       tar, gzip; zip and unzip for cmd_zip and cmd_unzip; rar and unrar for those
:platform:      Linux
"""

from __future__ import annotations

__func_alias__ = {"list_": "list", "zip_": "zip"}

__parts__ = {
    "listing": ["is_encrypted", "list_"],
    "programs": ["cmd_unzip", "cmd_zip", "gunzip", "gzip", "rar", "tar", "unrar"],
    "zips": ["unzip", "zip_"],
}
