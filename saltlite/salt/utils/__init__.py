"""`salt.utils`: a file for each of Salt's modules that plug-in files ask for."""
