"""Tables whose rows lie on many ranks."""
