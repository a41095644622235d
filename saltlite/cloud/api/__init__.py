"""What drivers of clouds import, under the names that authors know: `salt.config`, `salt.utils.cloud` and their like.

What belongs here: functions that the files of drivers call. What does not: anything that runs drivers; what must reach
there goes through `saltlite.cloud.api.port`.
"""
