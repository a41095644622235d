"""The minion: its protocol, its jobs, its processes, and what it keeps in step with the master."""
