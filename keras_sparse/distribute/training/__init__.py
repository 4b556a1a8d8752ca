"""Gradients, broadcasts, agreement of steps and shards of the data, over ranks."""
