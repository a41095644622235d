"""What operators configure: option descriptors, the files that set them, and the samples made from them.

What belongs here: one descriptor an option, the typed configuration of each daemon, reading `DIR/master`,
`DIR/minion` and their `.d` folders, and the sample files of `conf/`. What does not: defaults that no operator
sets (limits are constants beside the code that keeps them), environment variables, command lines, anything
that creates a folder or opens a socket.

`paths` and `fast` are on the CLI's hot path and import neither yaml nor dataclasses.
"""
