"""Graphs in: data sets, synthetic graphs, splits."""
