# Libraries included in lumberjack.zip
from lumberjack import sleep, work


def is_ok(person):
    """Checks whether a person is really a lumberjack"""
    return sleep.all_night(person) and work.all_day(person)
