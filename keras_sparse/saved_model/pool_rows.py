"""Rows pooled by TensorFlow, where they cannot be pooled as they are read."""

import tensorflow as tf


def pool_rows(rows, row_splits, weights, combiner):
    """Pools rows as a native lookup does, but for the order of sums.

    Args:
        rows: float32 tensor of shape `(n, width)`.
        row_splits: int64 tensor of shape `(num_bags + 1,)`.
        weights: float32 tensor of shape `(n,)`, or `None` for ones.
        combiner: `"sum"`, `"mean"` or `"sqrtn"`.

    Returns:
        float32 tensor of shape `(num_bags, width)`; zeros for a bag without ids or weight.
    """
    bags = tf.range(tf.size(row_splits) - 1)
    bag_of_id = tf.repeat(bags, row_splits[1:] - row_splits[:-1])

    def sums(values):
        # Of all functions of TensorFlow that add by segments the fastest on a CPU.
        places = tf.range(tf.size(bag_of_id))
        return tf.sparse.segment_sum(values, places, bag_of_id, num_segments=tf.size(bags))

    if weights is not None:
        weights = weights[:, tf.newaxis]
        rows = rows * weights
    if combiner == "sum":
        return sums(rows)
    if weights is None:
        totals = tf.cast(row_splits[1:] - row_splits[:-1], tf.float32)[:, tf.newaxis]
    else:
        totals = sums(weights if combiner == "mean" else tf.square(weights))
    has_none = tf.equal(totals, 0)
    totals = tf.where(has_none, 1.0, totals)  # whose root has a gradient
    return sums(rows) * tf.where(
        has_none, 0.0, 1 / (totals if combiner == "mean" else tf.sqrt(totals))
    )
