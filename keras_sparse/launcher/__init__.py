"""Starts the ranks of a training, and starts them again when they end early."""
