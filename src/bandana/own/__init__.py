"""Somebody's own graph: choose, estimate, learn, judge, write."""
