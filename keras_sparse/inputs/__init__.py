"""Turns ids as users give them into ids as tables look them up."""
