"""Beacons: a file each, with `beacon(config)`, which returns events, `validate(config)`, and `close(config)` if needed.

`config` is a list of maps, as in Salt. The functions run in one process that lives as long as the configuration stays
the same, so a file may keep what it has seen in `__context__`.
"""
