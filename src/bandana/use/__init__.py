"""What embeddings are good for: neighbours, missing links, labels, updates, comparisons, reasons. Pure functions."""
