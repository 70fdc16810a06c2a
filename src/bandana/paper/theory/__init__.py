"""The theory of the paper as numerical checks, one module each."""
