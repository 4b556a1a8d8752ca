"""A lookup in tables over ranks, as its step sees it and ahead of it."""
