"""The registry of resources: which minion manages which resource.

`Registry` answers queries over a `Primary`, which stores the rows; `admission` checks registrations, and `layout` has
the format of the file. All of these are pure. `mmap` and `mmap_file` have the file with its maps, locks and syncs.
"""
