"""Pillar: data for one minion, compiled from the files that the top file selects.

What belongs here: reading top files, includes, the merging of files, and what becomes of mistakes. What does not: where
files are, and how the text of one becomes data (`saltlite.pillar.compiler` says what is needed of that).
"""
