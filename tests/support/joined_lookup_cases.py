"""Lookups in four tables, for the tests of the tensors that their rows are written into."""

import numpy as np
import tensorflow as tf

import keras_sparse

BATCH = 7
DIMS = (3, 8, 1, 16)


def inputs(pools, is_weighted):
    """Ids, row_splits, weights and combiners of four tables."""
    rng = np.random.default_rng(3)
    ids, row_splits, weights, combiners = [], [], [], []
    for combiner in ("sum", "mean", "sqrtn", "sum"):
        counts = rng.integers(0, 4, BATCH) if pools else np.ones(BATCH, int)
        ids.append(tf.constant(rng.integers(0, 20, counts.sum())))
        row_splits.append(tf.constant(np.cumsum([0, *counts])) if pools else None)
        weights.append(tf.constant(rng.random(counts.sum()), tf.float32) if is_weighted else None)
        combiners.append(combiner if pools else None)
    return ids, row_splits, weights, combiners


def tables(is_dynamic):
    return [
        keras_sparse.EmbeddingVariable(None if is_dynamic else 20, dim, seed=dim, name=f"t{dim}")
        for dim in DIMS
    ]
