"""`salt.ext`: what Salt takes from other projects."""
