"""The store of the master in memory, in parts that one transaction copies."""
