"""The fast core: pure functions on CSR arrays. Knows no method, no data set and no file."""
