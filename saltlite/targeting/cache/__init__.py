"""What the master remembers of minions and resources, and how targets are found in it.

What belongs here: the port of the cache banks with the limits of what they hold, and the inverted index that answers
`-G`, `-P`, `-I` and `-J` over a bank.
What does not: files (`saltlite.master.store.banks`), who may put what into a bank, and what a question means
(`saltlite.targeting.subdict`).
"""
