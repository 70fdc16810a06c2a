"""The training loop and what keeps it honest and restartable."""
