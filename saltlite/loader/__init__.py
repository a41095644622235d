"""Finding, loading and calling plug-in files: the contract that module authors know from Salt.

What belongs here: the search path and its static index, building fresh module objects with the dunder names
set, `__virtual__`, choosing the provider of a virtual name, calling one function so that every call ends in
an outcome, and encoding what it returned. What does not: the plug-ins themselves, processes and forks, the
network, anything that outlives one loader.

Module code runs only inside `Loader` and `call`; the index is built from syntax trees and imports no plug-in. (An entry
point that is a function is code of an installed package, and runs where the search path is made: `entrypoints`.)
"""
