"""What `saltlite doctor` does: it looks, it judges, it prints.

What belongs here: looking at this machine (`look`, `master_look`, `minion_look`), which gives plain data
(`evidence`) and never changes anything; checks, pure functions from that data to findings (`*_checks`); their
output (`findings`). A new check is a function in one of the tables CHECKS. What does not: repairing.
"""
