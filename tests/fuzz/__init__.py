"""Fuzzers of everything that reads what others wrote: one surface a harness.

    python -m tests.fuzz SURFACE --seconds N [--corpus DIR]

prints JSON with what was executed and found. It is guided by coverage where atheris is installed (it is no dependency
of saltlite: `pip install atheris`), and mutates blindly elsewhere. `test_fuzz_corpus.py` replays the committed corpus.
"""
