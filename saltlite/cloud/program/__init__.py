"""The commands `saltlite cloud …`: from a profile to an accepted minion, and back.

What belongs here: running drivers, events, the journal of what is half made, the cache of machines, deployment, the
contract tests for drivers. What does not: decisions (`core.cloud`), drivers themselves (`clouds`), what drivers import
(`cloudapi`), command lines (`cli`).
"""
