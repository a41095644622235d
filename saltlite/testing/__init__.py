"""In-memory implementations of the ports, for tests and the simulator."""
