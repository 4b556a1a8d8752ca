import tensorflow as tf

from keras_sparse.native import library as _native


def merge_gradients(ids, values, row_splits=None, weights=None, combiners=None):
    """Sums the gradients of equal ids, for several tables at once.

    The sums are added in an order that does not depend on the number of threads.

    Args:
        ids: List of int64 tensors of shape `(num_ids,)`.
        values: List of float32 tensors: gradients of rows, `(num_ids, output_dim)`; for pooled ids
            gradients of the bags, `(num_bags, output_dim)`.
        row_splits: List of int64 tensors of shape `(num_bags + 1,)`, or `None` where ids were not
            pooled. Defaults to `None` for all.
        weights: List of float32 tensors of shape `(num_ids,)`, or `None` for ones. Defaults to
            `None` for all.
        combiners: List of `"sum"`, `"mean"`, `"sqrtn"`, or `None` where ids were not pooled.
            Defaults to `None` for all.

    Returns:
        `(unique_ids, sums)`: a list of int64 tensors of shape `(num_unique,)` and a list of float32
        tensors of shape `(num_unique, output_dim)`: the gradient of each row.

    Example:
    >>> ids, sums = merge_gradients([tf.constant([7, 7], tf.int64)], [tf.ones((2, 3))])
    >>> sums[0].numpy()
    array([[2., 2., 2.]], dtype=float32)
    """
    row_splits, weights, combiners = fill_in_absent(len(ids), row_splits, weights, combiners)
    unique_ids, sums = _native.lib.keras_sparse_merge_gradients(
        ids=ids, row_splits=row_splits, weights=weights, output_grads=values, combiners=combiners
    )
    return list(unique_ids), list(sums)


@tf.RegisterGradient("KerasSparseMergeGradients")
def _refuse_second_derivatives(operation, *grads):
    raise NotImplementedError(
        "The gradient of pooled rows has no gradient of its own. For second derivatives look rows "
        "up without a combiner and pool them in TensorFlow. Received: a gradient through "
        f"{operation.type}"
    )


def fill_in_absent(num_tables, row_splits, weights, combiners):
    """Puts what the native ops take for what was left out: empty tensors and `"none"`."""
    no_splits = tf.zeros((0,), tf.int64)
    no_weights = tf.zeros((0,), tf.float32)
    row_splits = [None] * num_tables if row_splits is None else row_splits
    weights = [None] * num_tables if weights is None else weights
    combiners = [None] * num_tables if combiners is None else combiners
    return (
        [no_splits if splits is None else splits for splits in row_splits],
        [no_weights if weight is None else weight for weight in weights],
        ["none" if combiner is None else combiner for combiner in combiners],
    )
