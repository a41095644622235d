"""The file server of the master, and its client on the minion."""
