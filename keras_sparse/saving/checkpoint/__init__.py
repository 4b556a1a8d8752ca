"""Checkpoints and deltas: their manifest, reading and writing."""
