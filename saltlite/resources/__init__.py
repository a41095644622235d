"""Resources: their registry on the master, and the types that ship."""
