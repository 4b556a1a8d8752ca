"""Loads the native ops; one Python function, and the gradient, of each op of tables.

All take lists: one element a table. The public ones are re-exported by `keras_sparse.ops`.
"""
