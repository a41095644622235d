"""The minion's connection and its jobs, as pure state machines without IO."""
