"""What can be called on ssh hosts: one file a slot.

What belongs here: functions with Salt's names, arguments and returns, made of small shell scripts that the
connection module runs; everything that comes from a caller is quoted. What does not: connections, and scripts that
need more than a POSIX shell and the tools that the slot is about.
"""
