"""Pillar: what a minion is given of its own, made of files by what the top file says about it.

What belongs here: reading top files, includes, the merging of files, and what becomes of mistakes. What does not: where
files are, and how the text of one becomes data (`saltlite.pillar.compiler` says what is needed of that).
"""
