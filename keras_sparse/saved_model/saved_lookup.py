import tensorflow as tf

from keras_sparse.pooling import pool_rows


def saved_lookup(tables, ids, row_splits, weights, combiners, joined, dtype):
    """Does what `keras_sparse.ops.lookup` does, in ops of TensorFlow alone.

    Args:
        tables: List of `SavedTable`.
        ids, row_splits, weights, combiners, joined, dtype: As of `keras_sparse.ops.lookup`; the
            lists may be `None`.

    Returns:
        As it does. Rows have the same bits; sums of rows may differ in their last ones.
    """
    nothing = [None] * len(tables)
    lists = [nothing if each is None else each for each in (row_splits, weights, combiners)]
    outputs = [_read(*each) for each in zip(tables, ids, *lists, strict=True)]
    outputs = [tf.cast(each, dtype) for each in outputs]
    return tf.concat(outputs, axis=1) if joined else outputs


def _read(table, ids, row_splits, weights, combiner):
    rows = table.lookup(ids)
    if combiner is None:
        return rows
    return pool_rows(rows, row_splits, weights, combiner)
