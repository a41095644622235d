"""The master: its protocol, its request handlers, its processes and its store."""
