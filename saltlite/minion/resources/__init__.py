"""Resources on the minion that manages them: discovery, registration, and calls of functions on them.

One process for each resource type loads the type once and calls it for its resources. The types themselves are in
`saltlite/resources/types/`.
"""
