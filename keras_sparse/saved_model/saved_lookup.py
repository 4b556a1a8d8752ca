import tensorflow as tf

from keras_sparse.saved_model.pool_rows import pool_rows
from keras_sparse.saved_model.saved_table import lookup_keys


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
    inputs = zip(_read(tables, ids), *lists, strict=True)
    outputs = [each[0] if each[-1] is None else pool_rows(*each) for each in inputs]
    outputs = [tf.cast(each, dtype) for each in outputs]
    return tf.concat(outputs, axis=1) if joined else outputs


def _read(tables, ids):
    """Returns the rows of each list of ids; of dynamic tables of one kind together."""
    rows = [None] * len(tables)
    groups: dict = {}
    for i, table in enumerate(tables):
        if table.is_dynamic:
            kind = table.rows.shape[1], table.rows_of_none()["kind"]
            groups.setdefault(kind, []).append(i)
        else:
            rows[i] = table.lookup(ids[i])
    for group in groups.values():
        found = lookup_keys([tables[i] for i in group], [ids[i] for i in group])
        for i, each in zip(group, found, strict=True):
            rows[i] = each
    return rows
