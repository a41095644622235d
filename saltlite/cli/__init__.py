"""The `saltlite` command: its grammar, its verbs, what it prints and the exit code it ends with.

What belongs here: reading a command line, asking the master through `saltlite.client`, showing the answer.
What does not: anything that decides (the master does), the store, keys on disk, sockets of its own. Nothing
here is imported before it is needed: a job is published without loading any verb, outputter or YAML.
"""
