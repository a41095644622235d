"""The plug-ins that ship with saltlite: one folder a type, one file a plug-in."""
