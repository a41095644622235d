"""Plain data that every layer shares: ids, keys, jobs, targets, events.

It has frozen dataclasses, enums, and parsers of single values. It has no IO, clocks, randomness or configuration, and
imports nothing of saltlite but `errors`.
"""
