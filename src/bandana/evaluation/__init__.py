"""How good embeddings are: probes, metrics and floors."""
