"""Whose resources are whose: the rules of the registry, and the layout of its file, both without the file.

What belongs here: records, slots and headers as functions over bytes, the views that are derived from the change
feed, what a registration changes, and `Registry`, which puts them together over the port `Primary`.
What does not: files, maps, locks and syncs (`saltlite.resources.registry.mmap`), and who may register what.
"""
