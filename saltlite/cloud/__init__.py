"""Machines of cloud providers, from a profile to an accepted minion and back."""
