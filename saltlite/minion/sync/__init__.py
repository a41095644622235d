"""Synchronisation with the master: grains, resources and pillar."""
