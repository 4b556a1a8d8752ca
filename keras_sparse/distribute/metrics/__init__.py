"""Metrics and stopping, over ranks."""
