"""`salt.modules`: `saltlite.loader.salt_names` serves the shipped functions in it, by the names of Salt's files."""
