"""Who may do what, who is logged in, and the backends that check passwords."""
