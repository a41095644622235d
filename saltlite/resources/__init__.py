"""Resources: their registry on the master, the types that ship, and the functions of all types."""
