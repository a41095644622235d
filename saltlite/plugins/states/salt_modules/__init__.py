"""Modules that Salt's loader finds in the place of its own, which would ask Salt's master."""
