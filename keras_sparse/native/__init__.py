"""One Python function, and the gradient, of each native op; the only place that names an op.

All take lists: one element a table. The public ones are re-exported by `keras_sparse.ops`.
"""
