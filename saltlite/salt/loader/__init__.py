"""`salt.loader`: what libraries of plug-in files read during a call. The loader is `saltlite.loader`."""
