"""Plug-ins that ship with saltlite: one folder per type, one file per plug-in."""
