"""The master's side of every minion connection, as pure state machines without IO."""
