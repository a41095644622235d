"""What an MWorker does with each request of a user and each message of a minion: one file a noun.

A handler is a function from (master, request) to an answer, over the ports in `saltlite.master.processes.context`; the
simulator runs it on in-memory adapters. Sockets, the reactor, and who is connected to what do not belong here.

`operator_verbs` is the table of the verbs that clients ask through the Unix socket. The link process passes on
`handle_decide` (keys), `store_reports` (results), `handle_pull` (delivery), presence (minions) and the messages that
`documents.answer` dispatches.
"""
