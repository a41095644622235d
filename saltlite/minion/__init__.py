"""The minion: its protocol, jobs, processes, resources, and synchronisation with the master."""
