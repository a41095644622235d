"""The work that a minion starts by itself: the schedule and the beacons. `cron` and `schedule` decide; `loop` acts."""
