"""Graphs larger than memory: a store on disk, its batches, trainings over many processes, and exact inference."""
