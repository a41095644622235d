"""`salt.utils.validate`: whether a text is what it should be."""
