"""The execution module `state`, which only minions with Salt beside them have."""
