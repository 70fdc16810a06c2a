"""The tables of the paper, one module each, with an `ARTIFACT` that says what to run and how to show it."""
