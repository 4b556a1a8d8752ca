"""Checks of arguments, sizes and tables as text, progress and plotting."""
