"""Plain data that every layer shares: ids, keys, jobs, targets, events.

What belongs here: frozen dataclasses, enums, parsing of one value from text, and nothing that has an effect.
What does not: IO, clocks, randomness, configuration, anything from another package of saltlite but `errors`.
"""
