"""States by Salt's own compiler: `modules/state.py` starts `engine.py` with a Python that has Salt."""
