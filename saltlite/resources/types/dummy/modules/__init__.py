"""What can be called on dummy resources: one file a slot.

What belongs here: functions with Salt's names that ask the connection module. What does not: state.
"""
