"""Functions that can be called on the resources of every type, unless the type has a file of that name."""
