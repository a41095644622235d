"""What the master keeps: the ports of the store and their implementations."""
