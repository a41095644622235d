"""What the minion keeps in step with the master: grains, resources and pillar."""
