"""Bytes and JSON of saved tables, their damage, and progress."""
