"""What a minion does by itself: the schedule and the beacons. `cron` and `schedule` decide; `loop` acts."""
