"""Completion of command lines in bash, zsh and fish.

What belongs here: what may stand at a place of the command line (`places`), the words for it, from tables or from
the master's store (`answer`), and the scripts that ask for them (`scripts`). What does not: running anything.
It is started at every press of the tab key, so nothing here imports what publishing a job does not.
"""
