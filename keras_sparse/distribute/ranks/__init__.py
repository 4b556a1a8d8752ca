"""Rank, size, collectives and errors that all ranks see: the only home of Horovod."""
