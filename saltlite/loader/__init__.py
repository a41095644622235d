"""Finds, loads and calls plug-in files, by the contract that module authors know from Salt.

`search_path` lists the folders, `scan` reads one file's syntax tree, and `index` holds the result for all files.
`module_builder` makes a module object, `registry` picks the provider of a virtual name, and `loader` offers the
functions as `__salt__`. `call` runs one function through its `executors` and `encode` turns the result into bytes.

Module code runs only in `Loader` and `call`. Building the index imports no plug-in; an entry point that is a function
is the exception, and runs when the search path is made.
"""
