"""Machines made of the namespaces of this host, for the driver `local`."""
