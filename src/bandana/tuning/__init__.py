"""Searching for better settings, judged on validation data only: what may vary, what to try next, and how to go on."""
